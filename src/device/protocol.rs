//! What a port speaks, and what that has not.

#![allow(unsafe_code)] // looks at the device

use crate::device::context::Context;
use crate::device::{LinkLayer, Protocol, TransportType};
use crate::sys::device::{is_iwarp, name_of};
use crate::sys::handle;
use crate::terms::error::{Error, ErrorKind};

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
