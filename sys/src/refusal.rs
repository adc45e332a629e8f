//! Explains a refusal of the device from the values of the call and from the system's limits.
//!
//! Devices return EINVAL for most wrong values. These functions query the device's limits only
//! after the refusal, so a call that succeeds costs nothing extra.

use std::ffi::c_int;
use std::sync::Arc;

use crate::absence::{self, Wanted};
use crate::attr::device::DeviceAttr;
use crate::attr::port::{LinkLayer, PortAttr};
use crate::device::{is_iwarp, name_of};
use crate::handle::{Context, Handle, Object};
use crate::mem::locked::limit_of_pinned;
use crate::terms::bounded::Mtu;
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::gid::Gid;
use crate::terms::state::QpState;
use crate::types::{ibv_qp_attr, ibv_qp_attr_mask as Mask};

/// The error of a verb that creates an object and was refused with `errno`.
pub fn of_creation(verb: &'static str, errno: c_int, asked: String) -> Error {
    let why = match errno {
        libc::EMFILE | libc::ENFILE => return absence::error(verb, Wanted::Any, errno, &asked),
        // Drivers pin the memory of queues, and fail with ENOMEM if the process may not pin more.
        libc::ENOMEM => limit_of_pinned(),
        libc::EOPNOTSUPP | libc::ENOSYS => Some("the device or its driver lacks it".to_owned()),
        _ => None,
    };
    let parts: Vec<_> =
        Some(asked).filter(|asked| !asked.is_empty()).into_iter().chain(why).collect();
    Error::os(verb, errno, parts.join("; "))
}

/// Destroys an object with `verb`, unless others hold it.
pub fn destroy<O: Object>(
    verb: &'static str,
    handle: Arc<Handle<O>>,
    users: &str,
) -> Result<(), Refused<Arc<Handle<O>>>> {
    match Arc::try_unwrap(handle) {
        Ok(mut handle) => handle
            .close()
            .map_err(|errno| Refused::new(Arc::new(handle), Error::os(verb, errno, ""))),
        Err(handle) => {
            let asked = format!("{users} exist: drop them first");
            Err(Refused::new(handle, Error::os(verb, libc::EBUSY, asked)))
        }
    }
}

/// The error of a transition (`ibv_modify_qp`) that was refused with `errno`.
pub fn of_transition(
    context: &Context,
    (from, to): (QpState, QpState),
    (attr, mask): (&ibv_qp_attr, u32),
    asked: &str,
    errno: c_int,
) -> Error {
    let asked = match wrong_value(context, attr, mask).filter(|_| errno == libc::EINVAL) {
        Some(why) => format!("{from} -> {to}{asked}; {why}"),
        None => format!("{from} -> {to}{asked}"),
    };
    Error::new("ibv_modify_qp", ErrorKind::Os { errno, asked })
}

/// Finds the first attribute in `mask` whose value the device cannot accept, and explains why.
pub fn wrong_value(context: &Context, attr: &ibv_qp_attr, mask: u32) -> Option<String> {
    let has = |flag: Mask| mask & flag.0 != 0;
    let device = device_attr(context)?;
    // The address has the port of the queue pair in every transition (R8.4).
    let port = if has(Mask::IBV_QP_PORT) { attr.port_num } else { attr.ah_attr.port_num };
    let known = port_attr(context, port);
    let address = || match (&known, attr.ah_attr.is_global) {
        (Some(PortAttr { link_layer: LinkLayer::Ethernet, .. }), 0) => {
            Some("RoCE needs a GID in the address: use `AddressVector::roce`".into())
        }
        (_, 0) => None,
        _ => {
            let index = attr.ah_attr.grh.sgid_index;
            no_gid(context, port, index).or_else(|| empty_gid(context, port, index))
        }
    };
    let mtu = || {
        let (asked, active) = (Mtu::from_c(attr.path_mtu)?, known.as_ref()?.active_mtu?);
        let (asked, active) = (asked.bytes(), active.bytes());
        (asked > active)
            .then(|| format!("path MTU {asked} exceeds {active}, the MTU of port {port}"))
    };
    let depth = |what, asked: u8, max: u32| {
        (u32::from(asked) > max)
            .then(|| format!("{what} {asked} exceeds {max}, the limit of this device"))
    };
    let reasons: [(Mask, &dyn Fn() -> Option<String>); 6] = [
        (Mask::IBV_QP_PORT, &|| no_port(context, port)),
        (Mask::IBV_QP_PKEY_INDEX, &|| no_pkey(context, port, attr.pkey_index)),
        (Mask::IBV_QP_AV, &address),
        (Mask::IBV_QP_PATH_MTU, &mtu),
        (Mask::IBV_QP_MAX_DEST_RD_ATOMIC, &|| {
            depth("max_dest_rd_atomic", attr.max_dest_rd_atomic, device.max_qp_rd_atom)
        }),
        (Mask::IBV_QP_MAX_QP_RD_ATOMIC, &|| {
            depth("max_rd_atomic", attr.max_rd_atomic, device.max_qp_init_rd_atom)
        }),
    ];
    reasons.iter().filter(|(flag, _)| has(*flag)).find_map(|(_, why)| why())
}

fn device_attr(context: &Context) -> Option<DeviceAttr> {
    Some(DeviceAttr::from_c(&context.query_device().ok()?))
}

fn port_attr(context: &Context, port: u8) -> Option<PortAttr> {
    Some(PortAttr::from_c(&context.query_port(port).ok()?))
}

/// Returns an explanation if the port does not exist.
pub fn no_port(context: &Context, port: u8) -> Option<String> {
    let ports = device_attr(context)?.phys_port_cnt;
    (port == 0 || port > ports).then(|| {
        let noun = if ports == 1 { "port" } else { "ports, counted from 1" };
        format!("port {port} does not exist: this device has {ports} {noun}")
    })
}

/// Returns an explanation if the index exceeds the port's P_Key table.
pub fn no_pkey(context: &Context, port: u8, index: u16) -> Option<String> {
    let len = port_attr(context, port)?.pkey_tbl_len;
    (index >= len).then(|| format!("P_Key index {index} does not exist: port {port} has {len}"))
}

/// Returns an explanation if the index exceeds the port's GID table.
fn no_gid(context: &Context, port: u8, index: u8) -> Option<String> {
    let len = port_attr(context, port)?.gid_tbl_len;
    let exists = u32::from(index) < len;
    (!exists).then(|| format!("GID index {index} does not exist: port {port} has {len}"))
}

/// The error of a verb that was refused with `errno` when it used an entry of the GID table.
pub fn gid_refused(
    context: &Context,
    verb: &'static str,
    port: u8,
    index: u8,
    errno: c_int,
) -> Error {
    let why = no_port(context, port).or_else(|| no_gid(context, port, index));
    Error::os(verb, errno, why.unwrap_or_else(|| format!("port {port}, GID index {index}")))
}

/// Returns an explanation if the entry of the GID table is empty.
pub fn empty_gid(context: &Context, port: u8, index: u8) -> Option<String> {
    let query = context.control().query_gid;
    // SAFETY: its handle keeps the context open.
    let gid = unsafe { query(context.live(), port, index.into()) }.ok()?;
    let is_empty = Gid::from(gid).is_zero();
    is_empty.then(|| {
        format!(
            "GID index {index} of port {port} is empty: `Context::gid_table` lists those in use"
        )
    })
}

/// Whether the device of a context is iWARP.
pub fn speaks_iwarp(context: &Context) -> bool {
    // SAFETY: its handle keeps the context open.
    unsafe { is_iwarp(context.live()) }
}

/// The error for a feature that iWARP lacks. `asked` is the request, `lacks` describes what iWARP
/// has or lacks, and `instead` is the alternative.
pub fn not_on_iwarp(
    context: &Context,
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

/// The error for a feature that a device lacks. `lacks` completes a sentence about the device.
pub fn refusal(
    context: &Context,
    verb: &'static str,
    asked: String,
    lacks: &str,
    instead: &'static str,
) -> Error {
    let lacks = format!("{} {lacks}", name_of(context));
    Error::new(verb, ErrorKind::Unsupported { asked, lacks, instead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creation_that_the_driver_does_not_support() {
        let text =
            |errno, asked: &str| of_creation("ibv_create_qp", errno, asked.into()).to_string();
        for errno in [libc::EOPNOTSUPP, libc::ENOSYS] {
            assert!(text(errno, "RC").ends_with(" (RC; the device or its driver lacks it)"));
            assert!(text(errno, "").ends_with(" (the device or its driver lacks it)"));
        }
        assert!(text(libc::EINVAL, "RC").ends_with(" (RC)"));
    }
}
