//! Port spaces: which kind of queue pair an id has.

use std::ops::Deref;

use super::private_data::{RejectData, ReplyData};
use super::queue_pair::{Attributes, MadeBy, NewFor, bring_rc, bring_ud};
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::rules::HasBothQueues;
use crate::sys::types::raw::rdma_port_space;
use crate::terms::error::Refused;
use crate::terms::state::{Init, Reset, Rts, State};
use crate::terms::transport::{Rc, Ud};

/// Reliable connections (RDMA_PS_TCP): queue pairs are RC.
#[derive(Debug)]
pub enum Tcp {}
/// Datagrams (RDMA_PS_UDP): queue pairs are UD.
#[derive(Debug)]
pub enum Udp {}

/// [`Tcp`] or [`Udp`]. It determines the transport of the queue pair
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
///
/// A function for queue pairs of both:
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
///
/// fn end<PS: PortSpace, S: HasDevice>(
///     id: &CmId<PS, S>,
///     cq: &CompletionQueue,
/// ) -> Result<MadeBy<PS, DefaultProfile>, proverbs::Error> {
///     id.create_qp(&id.pd()?, cq, cq, Depth { send: 8, recv: 8 })
/// }
///
/// /// Prepares a queue pair that was reset for another id.
/// fn again<PS: PortSpace, S: HasDevice>(
///     id: &CmId<PS, S>,
///     qp: NewFor<PS, DefaultProfile>,
/// ) -> Result<MadeBy<PS, DefaultProfile>, proverbs::Error> {
///     Ok(id.init_qp(&id.pd()?, qp)?)
/// }
/// ```
#[doc(alias("RDMA_PS_TCP", "RDMA_PS_UDP", "rdma_port_space"))]
pub trait PortSpace: sealed::Sealed + 'static {
    /// The transport of its queue pairs.
    type Transport: HasBothQueues;
    /// The state of a queue pair that an id created: INIT on TCP, RTS on UDP. Receives can be
    /// posted in both states, sends only in RTS.
    type Made: State;
    /// The private data of a rejection.
    type RejectData: Deref<Target = [u8]>;
    /// The name of the port space.
    const NAME: &'static str;
    #[doc(hidden)]
    const C: u32;

    /// Moves a queue pair to the state in which receives can be posted (`rdma_init_qp_attr`).
    #[doc(hidden)]
    fn bring<P: Profile>(
        attributes: &Attributes<'_>,
        qp: NewFor<Self, P>,
    ) -> Result<MadeBy<Self, P>, Refused<NewFor<Self, P>>>;
}

impl PortSpace for Tcp {
    type Transport = Rc;
    type Made = Init;
    type RejectData = RejectData;
    const NAME: &'static str = "TCP";
    const C: u32 = rdma_port_space::RDMA_PS_TCP;

    fn bring<P: Profile>(
        attributes: &Attributes<'_>,
        qp: QueuePair<Rc, Reset, P>,
    ) -> Result<QueuePair<Rc, Init, P>, Refused<QueuePair<Rc, Reset, P>>> {
        bring_rc(attributes, qp)
    }
}

impl PortSpace for Udp {
    type Transport = Ud;
    type Made = Rts;
    type RejectData = ReplyData;
    const NAME: &'static str = "UDP";
    const C: u32 = rdma_port_space::RDMA_PS_UDP;

    fn bring<P: Profile>(
        attributes: &Attributes<'_>,
        qp: QueuePair<Ud, Reset, P>,
    ) -> Result<QueuePair<Ud, Rts, P>, Refused<QueuePair<Ud, Reset, P>>> {
        bring_ud(attributes, qp)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Tcp {}
    impl Sealed for super::Udp {}
}
