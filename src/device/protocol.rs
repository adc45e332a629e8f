//! What a port speaks, and what that has not.

#![allow(unsafe_code)] // looks at the device

use std::fmt;

use crate::device::attr::TransportType;
use crate::device::context::Context;
use crate::device::port::LinkLayer;
use crate::sys::device::{is_iwarp, name_of};
use crate::sys::handle;
use crate::sys::types::ibv_qp_type;
use crate::terms::error::{Error, ErrorKind};
use crate::terms::transport::Transport;

/// What a port speaks: [`Context::protocol`]. It decides what the fabric has at all
/// ([R24.1](crate::guide::rules#r24-1)).
///
/// | | InfiniBand | RoCE | iWARP |
/// |---|---|---|---|
/// | transports | RC, UC, UD | RC, UC, UD | RC |
/// | immediates, atomics | yes | yes | no |
/// | a READ fills | several elements | several elements | one |
/// | address vectors | a LID, or a GID | a GID | no |
/// | who connects | the program, or rdma_cm | the program, or rdma_cm | rdma_cm |
///
/// What the port's has not is refused before anything is created.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// InfiniBand.
    InfiniBand,
    /// RDMA over Converged Ethernet. Which version is a matter of the GID:
    /// [`GidKind`](super::GidKind).
    Roce,
    /// RDMA over TCP.
    Iwarp,
    /// Another one, of which nothing is known.
    Unknown,
}

impl Protocol {
    /// Whether it has queue pairs of this transport.
    pub fn has<T: Transport>(self) -> bool {
        self != Protocol::Iwarp || T::QP_TYPE == ibv_qp_type::IBV_QPT_RC
    }

    /// Whether messages can carry an immediate ([`SendWithImm`](crate::wr::SendWithImm)).
    pub fn has_immediates(self) -> bool {
        self != Protocol::Iwarp
    }

    /// Whether there are atomics. (An InfiniBand device may still have none:
    /// [`DeviceAttr::atomic_cap`](super::DeviceAttr::atomic_cap).)
    pub fn has_atomics(self) -> bool {
        self != Protocol::Iwarp
    }

    /// Whether there are address vectors, by which a program connects queue pairs itself.
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

impl Context {
    /// What this port speaks. The port is asked once.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::Protocol;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// assert_eq!(context.protocol(1)?, Protocol::Roce);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`] with the errno: EINVAL if there is no such port.
    pub fn protocol(&self, port: u8) -> Result<Protocol, Error> {
        let link = LinkLayer::from_c(self.port_limits(port)?.link_layer);
        Ok(match (self.transport_type(), link) {
            (TransportType::Iwarp, _) => Protocol::Iwarp,
            (TransportType::InfiniBand, LinkLayer::Ethernet) => Protocol::Roce,
            (TransportType::InfiniBand, _) => Protocol::InfiniBand,
            _ => Protocol::Unknown,
        })
    }
}

/// Whether the device of a context speaks iWARP.
pub(crate) fn speaks_iwarp(context: &handle::Context) -> bool {
    // SAFETY: its handle keeps the context open.
    unsafe { is_iwarp(context.as_ptr()) }
}

/// Refuses what iWARP has not. `asked` says what was asked for, `lacks` what iWARP has or has not,
/// and `instead` what to do.
pub(crate) fn not_on_iwarp(
    context: &handle::Context,
    verb: &'static str,
    asked: impl FnOnce() -> String,
    lacks: &str,
    instead: &'static str,
) -> Result<(), Error> {
    if !speaks_iwarp(context) {
        return Ok(());
    }
    Err(refusal(context, verb, asked(), &format!("speaks iWARP, which has {lacks}"), instead))
}

/// What a device has not: `lacks` is the rest of a sentence about it.
pub(crate) fn refusal(
    context: &handle::Context,
    verb: &'static str,
    asked: String,
    lacks: &str,
    instead: &'static str,
) -> Error {
    let lacks = format!("{} {lacks}", name_of(context));
    Error::new(verb, ErrorKind::Unsupported { asked, lacks, instead })
}
