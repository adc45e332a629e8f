//! Explains a refusal of the device from the values of the call and from the system's limits.
//!
//! Devices answer EINVAL for most wrong values. These functions ask the device for its limits after
//! the refusal, so a call that succeeds pays nothing.

use std::ffi::c_int;
use std::sync::Arc;

use crate::device::context::Context;
use crate::device::{LinkLayer, PortAttr};
use crate::sys::absence::{self, Wanted};
use crate::sys::handle::{Handle, Object};
use crate::sys::mem::locked::limit_of_pinned;
use crate::sys::types::{ibv_qp_attr, ibv_qp_attr_mask as Mask};
use crate::terms::bounded::Mtu;
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::state::QpState;

/// The error of a verb that creates an object and was refused with `errno`.
pub(crate) fn of_creation(verb: &'static str, errno: c_int, asked: String) -> Error {
    match errno {
        libc::EMFILE | libc::ENFILE => absence::error(verb, Wanted::Any, errno, &asked),
        // Drivers pin the memory of queues, and say ENOMEM when the process may not pin more.
        libc::ENOMEM => match limit_of_pinned() {
            Some(limit) => Error::os(verb, errno, format!("{asked}; {limit}")),
            None => Error::os(verb, errno, asked),
        },
        _ => Error::os(verb, errno, asked),
    }
}

/// Destroys an object with `verb`, unless others hold it.
pub(crate) fn destroy<O: Object>(
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
pub(crate) fn of_transition(
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

/// Explains which of the attributes that `mask` names the device cannot take.
fn wrong_value(context: &Context, attr: &ibv_qp_attr, mask: u32) -> Option<String> {
    let has = |flag: Mask| mask & flag.0 != 0;
    let device = context.query_device().ok()?;
    // The address has the port of the queue pair in every transition (R8.4).
    let port = if has(Mask::IBV_QP_PORT) { attr.port_num } else { attr.ah_attr.port_num };
    let known = context.query_port(port).ok();
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

/// Explains that a port does not exist, if it does not.
pub(crate) fn no_port(context: &Context, port: u8) -> Option<String> {
    let ports = context.query_device().ok()?.phys_port_cnt;
    (port == 0 || port > ports).then(|| {
        let noun = if ports == 1 { "port" } else { "ports, counted from 1" };
        format!("port {port} does not exist: this device has {ports} {noun}")
    })
}

/// Explains that an index of the P_Key table does not exist, if it does not.
pub(crate) fn no_pkey(context: &Context, port: u8, index: u16) -> Option<String> {
    let len = context.query_port(port).ok()?.pkey_tbl_len;
    (index >= len).then(|| format!("P_Key index {index} does not exist: port {port} has {len}"))
}

/// Explains that an index of the GID table does not exist, if it does not.
fn no_gid(context: &Context, port: u8, index: u8) -> Option<String> {
    let len = context.query_port(port).ok()?.gid_tbl_len;
    let exists = u32::from(index) < len;
    (!exists).then(|| format!("GID index {index} does not exist: port {port} has {len}"))
}

/// The error of a verb that was refused with `errno` as it asked for an entry of the GID table.
pub(crate) fn gid_refused(
    context: &Context,
    verb: &'static str,
    port: u8,
    index: u8,
    errno: c_int,
) -> Error {
    let why = no_port(context, port).or_else(|| no_gid(context, port, index));
    Error::os(verb, errno, why.unwrap_or_else(|| format!("port {port}, GID index {index}")))
}

/// Explains that an entry of the GID table is empty, if it is.
fn empty_gid(context: &Context, port: u8, index: u8) -> Option<String> {
    let is_empty = context.query_gid(port, index).ok()?.is_zero();
    is_empty.then(|| {
        format!(
            "GID index {index} of port {port} is empty: `Context::gid_table` lists those in use"
        )
    })
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    #![allow(unsafe_code)] // passes verbs on

    use super::*;
    use crate::loopback::{Fabric, LOOPBACK, World};
    use crate::provider_tests::device_with;
    use crate::sys::control::Control;
    use crate::sys::types::{ibv_device_attr, zeroed};

    /// A port or an index that exists is not the reason for a refusal.
    #[test]
    fn only_a_wrong_value_is_named() {
        let context = Fabric::new().open_device();
        assert_eq!((no_port(&context, 1), no_pkey(&context, 1, 0)), (None, None));
        let missing = |port| no_port(&context, port).unwrap_or_default();
        assert_eq!(missing(0), "port 0 does not exist: this device has 1 port");
        assert_eq!(missing(2), "port 2 does not exist: this device has 1 port");
        let len = context.query_port(1).unwrap().pkey_tbl_len;
        let missing = no_pkey(&context, 1, len).unwrap_or_default();
        assert_eq!(missing, format!("P_Key index {len} does not exist: port 1 has {len}"));
        let count = context.query_port(1).unwrap().gid_tbl_len as u8;
        let zero = |index: &u8| context.query_gid(1, *index).is_ok_and(|gid| gid.is_zero());
        let (empty, used): (Vec<u8>, Vec<u8>) = (0..count).partition(zero);
        assert!(
            !used.is_empty() && used.iter().all(|index| empty_gid(&context, 1, *index).is_none())
        );
        for index in empty {
            let said = empty_gid(&context, 1, index).unwrap_or_default();
            assert!(said.starts_with(&format!("GID index {index} of port 1 is empty")), "{said}");
        }
        let two_ports = Control {
            query_device: |context| {
                // SAFETY: the argument is the verb's.
                let attr = unsafe { (LOOPBACK.query_device)(context) }?;
                Ok(ibv_device_attr { phys_port_cnt: 2, ..attr })
            },
            ..LOOPBACK
        };
        let context = device_with(Fabric::new(), two_ports);
        assert_eq!((no_port(&context, 1), no_port(&context, 2)), (None, None));
        let text = "port 3 does not exist: this device has 2 ports, counted from 1";
        assert_eq!(no_port(&context, 3).unwrap_or_default(), text);
    }

    /// The attribute that the device cannot take, one at a time: at its limit it is none of them,
    /// and none that was not given is.
    #[test]
    fn each_attribute_of_a_transition_is_named() {
        use Mask as M;
        let context = Fabric::with(World::ipv4().messages(Mtu::Bytes1024, 1 << 20)).open_device();
        let (device, port) = (context.query_device().unwrap(), context.query_port(1).unwrap());
        let right = || {
            let mut attr = zeroed::<ibv_qp_attr>();
            (attr.port_num, attr.ah_attr.port_num) = (1, 1);
            (attr.ah_attr.is_global, attr.ah_attr.grh.sgid_index) = (1, 1);
            attr.path_mtu = Mtu::Bytes1024.to_c();
            attr.pkey_index = port.pkey_tbl_len - 1;
            attr.max_dest_rd_atomic = device.max_qp_rd_atom as u8;
            attr.max_rd_atomic = device.max_qp_init_rd_atom as u8;
            attr
        };
        let ours = [
            M::IBV_QP_PORT,
            M::IBV_QP_PKEY_INDEX,
            M::IBV_QP_AV,
            M::IBV_QP_PATH_MTU,
            M::IBV_QP_MAX_DEST_RD_ATOMIC,
            M::IBV_QP_MAX_QP_RD_ATOMIC,
        ];
        let all = ours.iter().fold(0, |all, mask| all | mask.0);
        assert_eq!(wrong_value(&context, &right(), all), None);
        let (pkeys, gids) = (port.pkey_tbl_len, port.gid_tbl_len as u8);
        let (serves, reads) = (device.max_qp_rd_atom as u8, device.max_qp_init_rd_atom as u8);
        let empty = (0..gids).find(|&index| empty_gid(&context, 1, index).is_some()).unwrap();
        type Change<'c> = &'c dyn Fn(&mut ibv_qp_attr);
        let cases: [(M, Change<'_>, String); 8] = [
            (
                M::IBV_QP_PORT,
                &|attr| attr.port_num = 2,
                "port 2 does not exist: this device has 1 port".into(),
            ),
            (
                M::IBV_QP_PKEY_INDEX,
                &|attr| attr.pkey_index = pkeys,
                format!("P_Key index {pkeys} does not exist: port 1 has {pkeys}"),
            ),
            (
                M::IBV_QP_AV,
                &|attr| attr.ah_attr.is_global = 0,
                "RoCE needs a GID in the address: use `AddressVector::roce`".into(),
            ),
            (
                M::IBV_QP_AV,
                &|attr| attr.ah_attr.grh.sgid_index = gids,
                format!("GID index {gids} does not exist: port 1 has {gids}"),
            ),
            (
                M::IBV_QP_AV,
                &|attr| attr.ah_attr.grh.sgid_index = empty,
                empty_gid(&context, 1, empty).unwrap(),
            ),
            (
                M::IBV_QP_PATH_MTU,
                &|attr| attr.path_mtu = Mtu::Bytes2048.to_c(),
                "path MTU 2048 exceeds 1024, the MTU of port 1".into(),
            ),
            (
                M::IBV_QP_MAX_DEST_RD_ATOMIC,
                &|attr| attr.max_dest_rd_atomic = serves + 1,
                format!(
                    "max_dest_rd_atomic {} exceeds {serves}, the limit of this device",
                    serves + 1
                ),
            ),
            (
                M::IBV_QP_MAX_QP_RD_ATOMIC,
                &|attr| attr.max_rd_atomic = reads + 1,
                format!("max_rd_atomic {} exceeds {reads}, the limit of this device", reads + 1),
            ),
        ];
        for (mask, change, text) in cases {
            let mut attr = right();
            change(&mut attr);
            assert_eq!(wrong_value(&context, &attr, mask.0).as_ref(), Some(&text));
            // (The port is that of every other attribute.)
            if mask != M::IBV_QP_PORT {
                assert_eq!(wrong_value(&context, &attr, all).as_ref(), Some(&text));
            }
            assert_eq!(wrong_value(&context, &attr, all & !mask.0), None, "{text}");
        }
        // InfiniBand needs no GID.
        let context = Fabric::with(World::infiniband()).open_device();
        let mut attr = right();
        attr.ah_attr.is_global = 0;
        assert_eq!(wrong_value(&context, &attr, M::IBV_QP_AV.0), None);
    }

    /// Only EINVAL is about a value.
    #[test]
    fn a_transition_that_fails_otherwise_blames_no_value() {
        let context = Fabric::new().open_device();
        let attr = ibv_qp_attr { port_num: 2, ..zeroed() };
        let said = |errno| {
            let way = (QpState::Reset, QpState::Init);
            let attr = (&attr, Mask::IBV_QP_PORT.0);
            of_transition(&context, way, attr, " (asked)", errno).to_string()
        };
        let text = said(libc::EINVAL);
        assert!(
            text.ends_with(
                "(RESET -> INIT (asked); port 2 does not exist: this device has 1 port)"
            ),
            "{text}"
        );
        let text = said(libc::ENOMEM);
        assert!(text.ends_with("(RESET -> INIT (asked))"), "{text}");
    }
}
