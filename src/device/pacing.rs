//! Which queue pairs can have a rate.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::device::attr_ex::sealed;
use crate::device::{Ability, DeviceAttrEx};
use crate::terms::transport::Transport;

/// The rate of queue pairs of the transport `T` can be limited (`packet_pacing_caps`): an
/// [`Ability`], which [`limit_rate`](crate::QueuePair::limit_rate) takes.
pub struct PacketPacing<T: Transport>(Infallible, PhantomData<T>);

impl<T: Transport> sealed::Sealed for PacketPacing<T> {}

impl<T: Transport> Ability for PacketPacing<T> {
    const NAME: &'static str = "packet pacing";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.qp_rate_limit_max != 0 && attr.packet_pacing_qpts.has(T::QP_TYPE)
    }
}
