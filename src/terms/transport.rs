//! The transports of a queue pair.

use crate::sys::types::ibv_qp_type;

/// Reliable connected (`IBV_QPT_RC`, a [`Transport`]): every opcode, acknowledged and in order.
#[derive(Debug)]
pub enum Rc {}
/// Unreliable connected (`IBV_QPT_UC`, a [`Transport`]): SEND and RDMA WRITE; lost messages are not
/// reported.
#[derive(Debug)]
pub enum Uc {}
/// Unreliable datagram (`IBV_QPT_UD`, a [`Transport`]): SEND only, one packet a message, each with
/// its destination.
#[derive(Debug)]
pub enum Ud {}

/// Extended reliable connected (`IBV_QPT_XRC_SEND`, a [`Transport`]): as [`Rc`], but that each work
/// request names a shared receive queue at the peer (R26.1). A queue pair of it is an **initiator**,
/// which has sends alone. Its peer is a **target**, an [`XrcTarget`](crate::qp::XrcTarget).
pub enum Xrc {}

/// [`Rc`], [`Uc`], [`Ud`] or [`Xrc`]: the first type parameter of a [`QueuePair`](crate::QueuePair), C's
/// `qp_type` (ibv_create_qp(3)). It decides which opcodes may be posted (R1.1).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{state::State, transport::Transport};
/// # let proverbs::loopback::Pair { pd, cq, .. } = proverbs::loopback::pair()?;
/// fn name<T: Transport, S: State>(_: &QueuePair<T, S>) -> &'static str {
///     T::NAME
/// }
/// let depth = Depth { send: 4, recv: 4 };
/// assert_eq!(name(&pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?), "RC");
/// assert_eq!(name(&pd.create_qp::<Uc, DefaultProfile>(&cq, &cq, depth)?), "UC");
/// assert_eq!(name(&pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth)?), "UD");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Transport: sealed::Sealed + Send + Sync + 'static {
    /// The name in the manual pages.
    const NAME: &'static str;
    #[doc(hidden)]
    const QP_TYPE: u32;
    /// Whether receives begin with 40 bytes for a GRH.
    #[doc(hidden)]
    const DATAGRAM: bool;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! transport {
    ($t:ident, $name:literal, $c:ident, $datagram:literal) => {
        impl sealed::Sealed for $t {}
        impl Transport for $t {
            const NAME: &'static str = $name;
            const QP_TYPE: u32 = ibv_qp_type::$c;
            const DATAGRAM: bool = $datagram;
        }
    };
}

transport!(Rc, "RC", IBV_QPT_RC, false);
transport!(Uc, "UC", IBV_QPT_UC, false);
transport!(Ud, "UD", IBV_QPT_UD, true);
transport!(Xrc, "XRC", IBV_QPT_XRC_SEND, false);
