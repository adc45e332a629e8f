//! The protocol of a port.

use std::fmt;

use crate::terms::transport::Transport;
use crate::types::ibv_qp_type;

/// The protocol of a port: [`Context::protocol`]. It determines the features of the fabric
/// ([R24.1]).
///
/// | | InfiniBand | RoCE | iWARP |
/// |---|---|---|---|
/// | transports | RC, UC, UD | RC, UC, UD | RC |
/// | immediates, atomics | yes | yes | no |
/// | a READ fills | several elements | several elements | one |
/// | address vectors | a LID, or a GID | a GID | no |
/// | who connects | the program, or rdma_cm | the program, or rdma_cm | rdma_cm |
///
/// Features that the protocol lacks are rejected before anything is created.
///
/// ```
/// use proverbs::{device::Protocol, loopback::{Fabric, World}, prelude::*};
///
/// let context = Fabric::with(World::iwarp()).open_device();
/// let iwarp: Protocol = context.protocol(1)?;
/// assert_eq!((iwarp, iwarp.to_string()), (Protocol::Iwarp, "iWARP".to_owned()));
/// assert!(iwarp.has::<Rc>() && !iwarp.has::<Ud>() && !iwarp.has_atomics());
///
/// let (pd, cq) = (context.alloc_pd()?, context.create_cq(8)?);
/// let depth = Depth { send: 4, recv: 4 };
/// let error = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth).unwrap_err();
/// assert!(error.to_string().contains("speaks iWARP, which has RC alone"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [R24.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r24-1
/// [`Context::protocol`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.Context.html#method.protocol
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// InfiniBand.
    InfiniBand,
    /// RDMA over Converged Ethernet. The version depends on the GID:
    /// [`GidKind`](crate::terms::gid::GidKind).
    Roce,
    /// RDMA over TCP.
    Iwarp,
    /// Another, unknown protocol.
    Unknown,
}

impl Protocol {
    /// Whether it has queue pairs of this transport.
    pub fn has<T: Transport>(self) -> bool {
        self != Protocol::Iwarp || T::QP_TYPE == ibv_qp_type::IBV_QPT_RC
    }

    /// Whether messages can carry an immediate
    /// ([`SendWithImm`](https://docs.rs/proverbs/latest/proverbs/wr/struct.SendWithImm.html)).
    pub fn has_immediates(self) -> bool {
        self != Protocol::Iwarp
    }

    /// Whether it has atomics. (An InfiniBand device may still have none:
    /// [`DeviceAttr::atomic_cap`](crate::attr::device::DeviceAttr::atomic_cap).)
    pub fn has_atomics(self) -> bool {
        self != Protocol::Iwarp
    }

    /// Whether it has address vectors, with which a program connects queue pairs itself.
    pub fn has_address_vectors(self) -> bool {
        self != Protocol::Iwarp
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::InfiniBand => "InfiniBand",
            Protocol::Roce => "RoCE",
            Protocol::Iwarp => "iWARP",
            Protocol::Unknown => "an unknown protocol",
        })
    }
}
