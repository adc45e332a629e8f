//! The path to a peer: the destination and source addresses of packets.

use super::Endpoint;
use crate::device::context::Context;
use crate::device::{AddressVector, GlobalRoute, LinkLayer, PortAttr};
use crate::sys::attr::gid::{self, GidEntry};
use crate::sys::types::LINK_LAYER_ETHERNET;
use crate::terms::error::Error;
use crate::terms::gid::{Gid, GidKind};

impl Endpoint {
    /// Returns the address vector that reaches this endpoint from `port` of `context`. `gid_index`
    /// is the index of the port's GID to send from. The address vector uses GIDs if both sides have
    /// one, otherwise LIDs.
    ///
    /// # Errors
    /// - [`Unreachable`](crate::ErrorKind::Unreachable): both GID kinds are known, and packets from
    ///   one GID do not reach the other ([R18.22](crate::guide::rules#r18-22),
    ///   [R18.23](crate::guide::rules#r18-23)).
    /// - [`Os`](crate::ErrorKind::Os) with EINVAL and the name of the missing value: RoCE needs the
    ///   peer's GID and a `gid_index`, InfiniBand without GIDs the peer's LID.
    /// - [`Os`](crate::ErrorKind::Os) with the errno of `ibv_query_port` or `ibv_query_gid_ex`.
    pub fn address(
        &self,
        context: &Context,
        port: u8,
        gid_index: Option<u8>,
    ) -> Result<AddressVector, Error> {
        let mine = match gid_index {
            Some(index) if self.gid_kind.is_some() => {
                Some(context.query_gid_entry(port, index)?).map(|entry| (entry.gid, entry.kind))
            }
            _ => None,
        };
        self.address_from(mine, context, port, gid_index)
    }

    /// `address`, with this side's GID and its kind, if known.
    pub(super) fn address_from(
        &self,
        mine: Option<(Gid, GidKind)>,
        context: &Context,
        port: u8,
        gid_index: Option<u8>,
    ) -> Result<AddressVector, Error> {
        if let (Some(mine), Some(kind)) = (mine, self.gid_kind) {
            gid::check(mine, (self.gid, kind))?;
        }
        let lacks = |what: &str| Err(Error::os("ibv_modify_qp", libc::EINVAL, what));
        let is_ethernet = context.port_limits(port)?.link_layer == LINK_LAYER_ETHERNET;
        match gid_index {
            // A GID without an interface id is not an address.
            Some(index) if self.gid.0[8..] != [0; 8] => {
                let global = Some(GlobalRoute::new(self.gid, index));
                Ok(AddressVector { global, ..AddressVector::infiniband(port, self.lid) })
            }
            Some(_) if is_ethernet => lacks("the peer sent no GID, which RoCE needs"),
            None if is_ethernet => lacks("RoCE needs a GID index"),
            _ if self.lid == 0 => lacks("the peer sent neither a GID nor a LID"),
            _ => Ok(AddressVector::infiniband(port, self.lid)),
        }
    }
}

/// The GID that this side sends from.
pub(super) fn source(
    context: &Context,
    port: u8,
    attr: &PortAttr,
    index: Option<u8>,
) -> Result<Option<GidEntry>, Error> {
    match index {
        Some(index) => context.query_gid_entry(port, index).map(Some),
        None if attr.link_layer == LinkLayer::Ethernet => {
            let asked = format!("port {port} is Ethernet (RoCE), which needs a GID index");
            Err(Error::os("ibv_query_gid_ex", libc::EINVAL, asked))
        }
        None => Ok(None),
    }
}
