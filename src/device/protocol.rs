//! The protocol of a port, and the features that it lacks.

use crate::device::{Context, LinkLayer, Protocol, TransportType};
use crate::terms::error::Error;

impl Context {
    /// The protocol of this port. The port is queried once.
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
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if there is no such port.
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
