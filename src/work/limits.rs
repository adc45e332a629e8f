//! Limits fixed at creation, as types: SGE counts and inline bytes.
//!
//! typenum decides, because it can compare in a bound. Error messages use const generics, because
//! they print as numbers. typenum has a constant for every number up to 1024, which is beyond what
//! any device supports.

use typenum::{B0, B1, Const, IsLessOrEqual, LeEq, ToUInt, U, U1};

/// A [`Limit`] of `N` scatter/gather elements, or bytes of inline data
/// ([R3.1](crate::guide::rules#r3-1), [R2.7](crate::guide::rules#r2-7)).
pub enum Max<const N: usize> {}

/// A limit, [`Max<N>`](Max): `max_send_sge`, `max_recv_sge` or `max_inline_data` of
/// ibv_create_qp(3), fixed by the [`Profile`](crate::Profile).
///
/// Work requests must be within the limits of their queue ([R3.1](crate::guide::rules#r3-1),
/// [R2.7](crate::guide::rules#r2-7)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::qp::{Limit, Max};
/// assert_eq!(<Max<64> as Limit>::VALUE, 64);
/// assert_eq!(<DefaultProfile as Profile>::MaxInline::VALUE, 64);
/// ```
pub trait Limit: sealed::Sealed + 'static {
    /// The limit as a number.
    const VALUE: u32;
}

impl<const N: usize> sealed::Sealed for Max<N> {}
impl<const N: usize> Limit for Max<N> {
    // More than 32 bits exceeds every device's limit. Truncated to 32 bits it could be 0, which all
    // devices support.
    const VALUE: u32 = if N > u32::MAX as usize { u32::MAX } else { N as u32 };
}

/// `Max<M>: Sges<N>`: a work request of `N` scatter/gather elements fits (rule
/// [R3.1](crate::guide::rules#r3-1)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` may allow fewer than {N} scatter/gather element(s)",
    label = "{N} scatter/gather element(s)",
    note = "in generic code, bound the profile: `P: Profile<MaxSendSge: AtLeast<{N}>>`, or `MaxRecvSge` for a receive"
)]
pub trait Sges<const N: usize> {}

impl<const N: usize, const M: usize> Sges<N> for Max<M>
where
    Const<N>: ToUInt,
    Const<M>: ToUInt,
    U<N>: IsLessOrEqual<U<M>>,
    LeEq<U<N>, U<M>>: Answer<Is: SgesWithin<N, M>>,
{
}

/// A [`Limit`] of at least `N` inline bytes, for code that is generic over the
/// [`Profile`](crate::Profile): `P: Profile<MaxInline: InlineBytes<16>>`
/// ([R2.7](crate::guide::rules#r2-7)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` may allow fewer than {N} bytes",
    label = "{N} bytes of inline data",
    note = "in generic code, bound the profile: `P: Profile<MaxInline: InlineBytes<{N}>>`"
)]
pub trait InlineBytes<const N: usize> {}

impl<const N: usize, const M: usize> InlineBytes<N> for Max<M>
where
    Const<N>: ToUInt,
    Const<M>: ToUInt,
    U<N>: IsLessOrEqual<U<M>>,
    LeEq<U<N>, U<M>>: Answer<Is: InlineWithin<N, M>>,
{
}

/// A [`Limit`] of at least `N` scatter/gather elements, and of at least one, for code that is
/// generic over the [`Profile`](crate::Profile): `P: Profile<MaxSendSge: AtLeast<2>>`
/// ([R3.1](crate::guide::rules#r3-1)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` may allow fewer than {N} scatter/gather element(s)",
    label = "not known to allow {N}",
    note = "bound the profile: `P: Profile<MaxSendSge: AtLeast<{N}>>`"
)]
pub trait AtLeast<const N: usize>: Limit + Sges<N> + Sges<1> {}

impl<const N: usize, const M: usize> AtLeast<N> for Max<M> where Max<M>: Sges<N> + Sges<1> {}

/// `Max<N>: AtLeastOne`: an array of `N` has an element.
pub trait AtLeastOne {}

impl<const N: usize> AtLeastOne for Max<N>
where
    Const<N>: ToUInt,
    U1: IsLessOrEqual<U<N>>,
    LeEq<U1, U<N>>: Answer<Is: SomeBuffer>,
{
}

/// The result of a typenum comparison, as types with names that read well in an error
/// ([R2.7](crate::guide::rules#r2-7), [R3.1](crate::guide::rules#r3-1)).
pub trait Answer {
    /// [`Within`] or [`Beyond`].
    type Is;
}

/// The limit holds.
pub enum Within {}
/// The limit does not hold.
pub enum Beyond {}

impl Answer for B1 {
    type Is = Within;
}
impl Answer for B0 {
    type Is = Beyond;
}

/// The result, with a message ([R3.1](crate::guide::rules#r3-1)).
#[diagnostic::on_unimplemented(
    message = "a work request with {N} scatter/gather element(s) exceeds this queue's limit of {M}",
    label = "{N} scatter/gather element(s)",
    note = "the limit is `MaxSendSge` or `MaxRecvSge` of the profile, the `M` of a shared receive queue, or the `G` of the list's slots; raise it there, or use fewer buffers or inline slices"
)]
pub trait SgesWithin<const N: usize, const M: usize> {}
impl<const N: usize, const M: usize> SgesWithin<N, M> for Within {}

/// The result, with a message ([R2.7](crate::guide::rules#r2-7)).
#[diagnostic::on_unimplemented(
    message = "inline payload of {N} bytes exceeds this queue pair's inline capacity of {M} bytes",
    label = "{N} bytes of inline data",
    note = "raise it in the profile, `profile! {{ Roomy {{ max_inline: 128 }} }}`, or send from a registered buffer, `wr::Send::new(buf)`"
)]
pub trait InlineWithin<const N: usize, const M: usize> {}
impl<const N: usize, const M: usize> InlineWithin<N, M> for Within {}

/// The result, with a message ([R9.9](crate::guide::rules#r9-9)).
#[diagnostic::on_unimplemented(
    message = "a receive on a shared receive queue needs a buffer, but this array does not contain one",
    label = "needs a buffer of the queue's pool",
    note = "the number of buffers in its pool limits the receives of a shared receive queue: post at least one `Buf`"
)]
pub trait SomeBuffer {}
impl SomeBuffer for Within {}

mod sealed {
    pub trait Sealed {}
}
