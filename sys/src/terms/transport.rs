//! The transports of a queue pair.

use crate::types::ibv_qp_type;

/// Reliable connected (`IBV_QPT_RC`, a [`Transport`]): every opcode, acknowledged and in order.
#[doc(alias("ibv_qp_type", "ibv_qp_init_attr", "qp_type", "IBV_QPT_RC"))]
#[derive(Debug)]
pub enum Rc {}
/// Unreliable connected (`IBV_QPT_UC`, a [`Transport`]): SEND and RDMA WRITE; lost messages are not
/// reported.
#[doc(alias = "IBV_QPT_UC")]
#[derive(Debug)]
pub enum Uc {}
/// Unreliable datagram (`IBV_QPT_UD`, a [`Transport`]): only SEND, one packet per message, each
/// with its own destination.
#[doc(alias = "IBV_QPT_UD")]
#[derive(Debug)]
pub enum Ud {}
/// Scalable reliable datagram of Amazon's EFA (SRD, a [`Transport`] of `IBV_QPT_DRIVER`): SEND,
/// RDMA READ and WRITE, each with its own destination, each acknowledged, and **in no order**
/// ([R27.1]).
///
/// Messages arrive and complete in any order, even those to one peer. So nothing here relies on an
/// order: every work request has its own completion ([R27.3]), there is no fence ([R27.5]), and
/// within one post only WRITEs may follow a WRITE ([R27.4]). If a later post relies on an earlier
/// one, the program must wait. The *completion* of a WRITE shows that the data has arrived, and a
/// [`RdmaWriteWithImm`] notifies the peer.
///
/// A queue pair is created by `create_qp`, and moved to RTS with [`UdInit`], [`UdRtr`] and
/// [`SrdRts`]. Like UD, it sends to any number of peers with address handles. Received messages do
/// not begin with a GRH. [`sender`] identifies their senders, and has an example.
///
/// [R27.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r27-1
/// [R27.3]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r27-3
/// [R27.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r27-4
/// [R27.5]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r27-5
/// [`RdmaWriteWithImm`]: https://docs.rs/proverbs/latest/proverbs/wr/struct.RdmaWriteWithImm.html
/// [`SrdRts`]: https://docs.rs/proverbs/latest/proverbs/ext/srd/struct.SrdRts.html
/// [`UdInit`]: https://docs.rs/proverbs/latest/proverbs/qp/struct.UdInit.html
/// [`UdRtr`]: https://docs.rs/proverbs/latest/proverbs/qp/struct.UdRtr.html
/// [`sender`]: https://docs.rs/proverbs/latest/proverbs/struct.QueuePair.html#method.sender
#[doc(alias = "IBV_QPT_DRIVER")]
#[derive(Debug)]
pub enum Srd {}

/// Extended reliable connected (`IBV_QPT_XRC_SEND`, a [`Transport`]): like [`Rc`], except that each
/// work request names a shared receive queue at the peer ([R26.1]). Its queue pair is an
/// **initiator**, which only sends. Its peer is a **target**, an [`XrcTarget`].
///
/// [R26.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r26-1
/// [`XrcTarget`]: https://docs.rs/proverbs/latest/proverbs/ext/xrc/struct.XrcTarget.html
#[doc(alias = "IBV_QPT_XRC_SEND")]
pub enum Xrc {}

/// [`Rc`], [`Uc`], [`Ud`], [`Srd`] or [`Xrc`]: the first type parameter of a
/// [`QueuePair`], C's `qp_type` (ibv_create_qp(3)). It decides which opcodes may
/// be posted ([R1.1]).
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
///
/// [R1.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r1-1
/// [`QueuePair`]: https://docs.rs/proverbs/latest/proverbs/struct.QueuePair.html
pub trait Transport: sealed::Sealed + Send + Sync + 'static {
    /// The name in the manual pages.
    const NAME: &'static str;
    #[doc(hidden)]
    const QP_TYPE: u32;
    /// Whether receives begin with 40 bytes for a GRH.
    #[doc(hidden)]
    const DATAGRAM: bool;
    /// Whether work requests complete in the order in which they were posted.
    #[doc(hidden)]
    const ORDERED: bool;
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
            const ORDERED: bool = ibv_qp_type::$c != ibv_qp_type::IBV_QPT_DRIVER;
        }
    };
}

transport!(Rc, "RC", IBV_QPT_RC, false);
transport!(Uc, "UC", IBV_QPT_UC, false);
transport!(Ud, "UD", IBV_QPT_UD, true);
transport!(Xrc, "XRC", IBV_QPT_XRC_SEND, false);
transport!(Srd, "SRD", IBV_QPT_DRIVER, false);
