//! Which queue pairs can have a rate.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::device::attr_ex::{Ability, Which, sealed};
use crate::terms::transport::Transport;

/// The rate of queue pairs of the transport `T` can be limited (`packet_pacing_caps`): an
/// [`Ability`], which [`limit_rate`](crate::QueuePair::limit_rate) takes.
pub struct PacketPacing<T: Transport>(Infallible, PhantomData<T>);

impl<T: Transport> sealed::Sealed for PacketPacing<T> {}

impl<T: Transport> Ability for PacketPacing<T> {
    const WHICH: Which = Which::PacketPacing { qp_type: T::QP_TYPE };
    const NAME: &'static str = "packet pacing";
}
