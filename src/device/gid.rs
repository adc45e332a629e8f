//! The GID table of a port, and selecting a GID.

#![allow(unsafe_code)] // two verbs

use crate::device::{Context, GidEntry, LinkLayer, RoceV2Gid};
use crate::sys::refusal::gid_refused;
use crate::terms::error::{Error, ErrorKind};

impl Context {
    /// Returns an entry of a port's GID table, with its type (`ibv_query_gid_ex`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the entry is empty; otherwise
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if the port or the index does
    /// not exist.
    #[doc(alias = "ibv_query_gid_ex")]
    pub fn query_gid_entry(&self, port: u8, index: u8) -> Result<GidEntry, Error> {
        const VERB: &str = "ibv_query_gid_ex";
        let query = self.handle.control().query_gid_ex;
        // SAFETY: its handle keeps the context open.
        match unsafe { query(self.handle.as_ptr(), port, index.into()) } {
            Ok(entry) => {
                let unknown = "a GID of an unknown type";
                GidEntry::from_c(&entry).ok_or(Error::new(VERB, ErrorKind::Protocol(unknown)))
            }
            Err(libc::ENODATA) => {
                let what = format!("port {port} has no GID with index {index}");
                Err(Error::new(VERB, ErrorKind::NotFound(what)))
            }
            Err(errno) => Err(gid_refused(&self.handle, VERB, port, index, errno)),
        }
    }

    /// Returns the entries of a port's GID table that are not empty, ordered by index
    /// (`ibv_query_gid_table`). [`GidEntry`] has an example.
    ///
    /// Entries with an index above 255 are omitted, because an address cannot refer to them.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if there is no such port.
    #[doc(alias = "ibv_query_gid_table")]
    pub fn gid_table(&self, port: u8) -> Result<Vec<GidEntry>, Error> {
        self.query_port(port)?;
        let mut ports = Vec::new();
        for port in 1..=self.limits()?.phys_port_cnt {
            ports.push((port, self.query_port(port)?.gid_tbl_len));
        }
        let query = self.handle.control().query_gid_table;
        // SAFETY: its handle keeps the context open.
        let all = unsafe { query(self.handle.as_ptr(), &ports) };
        let refused = |errno| Error::os("ibv_query_gid_table", errno, format!("port {port}"));
        let here = |entry: &GidEntry| entry.port == port;
        let mut entries: Vec<_> =
            all.map_err(refused)?.iter().filter_map(GidEntry::from_c).filter(here).collect();
        entries.sort_by_key(|entry| entry.index);
        Ok(entries)
    }

    /// Selects the GID of a port to use for traffic that may be routed. Among the RoCE v2 entries
    /// of the port, it prefers entries that are not link-local, then IPv4 to IPv6, then the lowest
    /// index. [`RoceV2Gid`] has an example.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the port has no RoCE v2 GID; the error lists its GIDs. Otherwise
    /// as for [`gid_table`](Self::gid_table).
    pub fn roce_v2_gid(&self, port: u8) -> Result<RoceV2Gid, Error> {
        let table = self.gid_table(port)?;
        if let Some(best) = RoceV2Gid::best(&table) {
            return Ok(best);
        }
        let is_ethernet = self.query_port(port)?.link_layer == LinkLayer::Ethernet;
        let layer = if is_ethernet { "Ethernet" } else { "not Ethernet" };
        let there = table.iter().map(|entry| format!("{} ({})", entry.gid, entry.kind));
        let there = there.collect::<Vec<_>>().join(", ");
        let what = format!("port {port} ({layer}) has no RoCE v2 GID; its GIDs: [{there}]");
        Err(Error::new("ibv_query_gid_table", ErrorKind::NotFound(what)))
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::provider_tests::SetControl;

    /// A library may return the table in any order.
    #[cfg(feature = "loopback")]
    #[test]
    fn the_table_is_in_the_order_of_indices() {
        use crate::loopback::LOOPBACK;
        use crate::loopback::{Fabric, World};
        use crate::sys::control::Control;
        let control = Control {
            query_gid_table: |context, ports| {
                // SAFETY: the arguments are passed on.
                let mut table = unsafe { (LOOPBACK.query_gid_table)(context, ports) }?;
                table.reverse();
                Ok(table)
            },
            ..LOOPBACK
        };
        let mut context = Fabric::with(World::ipv6()).open_alone();
        let indices = |context: &Context| {
            let table = context.gid_table(1).unwrap();
            table.iter().map(|entry| entry.index).collect::<Vec<_>>()
        };
        let before = indices(&context);
        assert!(before.len() > 1 && before.is_sorted());
        let handle = std::sync::Arc::get_mut(&mut context.handle).unwrap();
        handle.set_control(Box::leak(Box::new(control)));
        assert_eq!(indices(&context), before);
    }
}
