//! Port spaces: the kind of queue pair that an id may have.

use std::ops::Deref;

use super::private_data::{RejectData, ReplyData};
use crate::rules::HasBothQueues;
use crate::sys::types::raw::rdma_port_space;
use crate::terms::state::{Init, Rts, State};
use crate::terms::transport::{Rc, Ud};

/// Reliable connections (RDMA_PS_TCP): queue pairs are RC.
#[derive(Debug)]
pub enum Tcp {}
/// Datagrams (RDMA_PS_UDP): queue pairs are UD.
#[derive(Debug)]
pub enum Udp {}

/// [`Tcp`] or [`Udp`]. It fixes the transport of the queue pair
/// ([R16.9](crate::guide::rules#r16-9)).
///
/// ```no_run
/// use proverbs::cm::*;
///
/// /// An id of either port space that listens on every address.
/// fn listen<PS: PortSpace>(port: u16) -> Result<CmId<PS, Listening>, proverbs::Error> {
///     println!("{} port {port}", PS::NAME);
///     Ok(CmId::new()?.bind_addr(([0; 8], port).into())?.listen(8)?)
/// }
/// let listening = listen::<Udp>(7471)?;
/// # Ok::<_, proverbs::Error>(())
/// ```
#[doc(alias("RDMA_PS_TCP", "RDMA_PS_UDP", "rdma_port_space"))]
pub trait PortSpace: sealed::Sealed + 'static {
    /// The transport of its queue pairs.
    type Transport: HasBothQueues;
    /// The state of a queue pair that an id made: receives may be posted in either, sends on UD.
    type Made: State;
    /// The private data of a refusal.
    type RejectData: Deref<Target = [u8]>;
    /// The name of the port space.
    const NAME: &'static str;
    #[doc(hidden)]
    const C: u32;
}

impl PortSpace for Tcp {
    type Transport = Rc;
    type Made = Init;
    type RejectData = RejectData;
    const NAME: &'static str = "TCP";
    const C: u32 = rdma_port_space::RDMA_PS_TCP;
}

impl PortSpace for Udp {
    type Transport = Ud;
    type Made = Rts;
    type RejectData = ReplyData;
    const NAME: &'static str = "UDP";
    const C: u32 = rdma_port_space::RDMA_PS_UDP;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Tcp {}
    impl Sealed for super::Udp {}
}
