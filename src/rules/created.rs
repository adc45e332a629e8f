//! The rules of creating a queue pair: what its transport and its profile must fit
//! (ibv_create_qp(3)).

use super::{HasBothQueues, Seal};
use crate::memory::entry::Entry;
use crate::profile::Profile;
use crate::terms::threads::Threads;
use crate::terms::transport::{Transport, Ud};

/// The verb that creates queue pairs of a transport. [`Creates`] has its rules.
///
/// For a type parameter, rustc considers only one impl. It suggests the bound of that impl,
/// [`HasBothQueues`], which programs can name.
#[doc(hidden)]
pub trait CreatedBy: Transport {
    type Verb;
}

/// `ibv_create_qp` and `ibv_create_qp_ex`.
#[doc(hidden)]
pub enum CreateQp {}

impl<T: HasBothQueues> CreatedBy for T {
    type Verb = CreateQp;
}

/// The requirements of a verb for a queue pair with its own receive queue. This is a trait of the
/// verb, because errors name the broken rule only if a single impl can apply.
#[doc(hidden)]
pub trait Creates<T: Transport, P: Profile> {
    const SEAL: Seal;
}

impl<T: HasBothQueues, P: Profile> Creates<T, P> for CreateQp {
    const SEAL: Seal = Seal;
}

/// Only UD queue pairs are created with flags ([R23.6](crate::guide::rules#r23-6)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` queue pair is not created with flags",
    label = "flags are for UD queue pairs",
    note = "the flag blocks a queue pair's own messages to its multicast groups, which are for UD: leave `.flags(..)` out"
)]
pub trait TakesFlags: Transport {}

impl TakesFlags for Ud {}

/// A shared receive queue is for queue pairs of its own transport
/// ([R7.3](crate::guide::rules#r7-3)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a shared receive queue for `{Self}` cannot serve a `{T}` queue pair",
    label = "a shared receive queue for `{Self}`",
    note = "a shared receive queue is created for RC, UD or XRC, and serves only queue pairs of that transport"
)]
pub trait Serves<T: Transport>: Transport {}

impl<T: Transport> Serves<T> for T {}

/// A shared receive queue and its queue pairs have the same entry type
/// ([R11.1](crate::guide::rules#r11-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a shared receive queue of `{Self}` entries cannot serve a queue pair of `{E}` entries",
    label = "its receives are `{Self}`, but the profile's entries are `{E}`",
    note = "create the shared receive queue with the entry type of the profile, or use a profile with `entry: {Self}`"
)]
pub trait ReceivedAs<E: Entry>: Entry {}

impl<E: Entry> ReceivedAs<E> for E {}

/// A shared receive queue of a lane is only for queue pairs of its lane
/// ([R17.9](crate::guide::rules#r17-9)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a shared receive queue of `{Self}` cannot serve a queue pair of `{L}`",
    label = "a shared receive queue of `{Self}`",
    note = "create both in one lane, or both outside of lanes (R17.9)"
)]
pub trait StaysWith<L: Threads>: Threads {}

impl<L: Threads> StaysWith<L> for L {}
