//! Errors of the device that the values of the call explain.

use crate::loopback::{Fabric, LOOPBACK, World};
use crate::provider_tests::device_with;
use crate::sys::control::Control;
use crate::sys::refusal::{empty_gid, no_pkey, no_port, of_transition, wrong_value};
use crate::sys::types::{ibv_device_attr, ibv_qp_attr, ibv_qp_attr_mask as Mask, zeroed};
use crate::terms::bounded::Mtu;
use crate::terms::state::QpState;

/// A port or an index that exists is not named as the reason for an error.
#[test]
fn only_a_wrong_value_is_named() {
    let context = Fabric::new().open_device();
    assert_eq!((no_port(&context.handle, 1), no_pkey(&context.handle, 1, 0)), (None, None));
    let missing = |port| no_port(&context.handle, port).unwrap_or_default();
    assert_eq!(missing(0), "port 0 does not exist: this device has 1 port");
    assert_eq!(missing(2), "port 2 does not exist: this device has 1 port");
    let len = context.query_port(1).unwrap().pkey_tbl_len;
    let missing = no_pkey(&context.handle, 1, len).unwrap_or_default();
    assert_eq!(missing, format!("P_Key index {len} does not exist: port 1 has {len}"));
    let count = context.query_port(1).unwrap().gid_tbl_len as u8;
    let zero = |index: &u8| context.query_gid(1, *index).is_ok_and(|gid| gid.is_zero());
    let (empty, used): (Vec<u8>, Vec<u8>) = (0..count).partition(zero);
    assert!(
        !used.is_empty()
            && used.iter().all(|index| empty_gid(&context.handle, 1, *index).is_none())
    );
    for index in empty {
        let said = empty_gid(&context.handle, 1, index).unwrap_or_default();
        assert!(said.starts_with(&format!("GID index {index} of port 1 is empty")), "{said}");
    }
    let two_ports = Control {
        query_device: |context| {
            // SAFETY: the argument is passed on.
            let attr = unsafe { (LOOPBACK.query_device)(context) }?;
            Ok(ibv_device_attr { phys_port_cnt: 2, ..attr })
        },
        ..LOOPBACK
    };
    let context = device_with(Fabric::new(), two_ports);
    assert_eq!((no_port(&context.handle, 1), no_port(&context.handle, 2)), (None, None));
    let text = "port 3 does not exist: this device has 2 ports, counted from 1";
    assert_eq!(no_port(&context.handle, 3).unwrap_or_default(), text);
}

/// Exceeds the limit of one attribute at a time. At its limit, an attribute is not named, and
/// neither is an attribute that was not set.
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
    assert_eq!(wrong_value(&context.handle, &right(), all), None);
    let (pkeys, gids) = (port.pkey_tbl_len, port.gid_tbl_len as u8);
    let (serves, reads) = (device.max_qp_rd_atom as u8, device.max_qp_init_rd_atom as u8);
    let empty = (0..gids).find(|&index| empty_gid(&context.handle, 1, index).is_some()).unwrap();
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
            empty_gid(&context.handle, 1, empty).unwrap(),
        ),
        (
            M::IBV_QP_PATH_MTU,
            &|attr| attr.path_mtu = Mtu::Bytes2048.to_c(),
            "path MTU 2048 exceeds 1024, the MTU of port 1".into(),
        ),
        (
            M::IBV_QP_MAX_DEST_RD_ATOMIC,
            &|attr| attr.max_dest_rd_atomic = serves + 1,
            format!("max_dest_rd_atomic {} exceeds {serves}, the limit of this device", serves + 1),
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
        assert_eq!(wrong_value(&context.handle, &attr, mask.0).as_ref(), Some(&text));
        // (Every other attribute refers to this port.)
        if mask != M::IBV_QP_PORT {
            assert_eq!(wrong_value(&context.handle, &attr, all).as_ref(), Some(&text));
        }
        assert_eq!(wrong_value(&context.handle, &attr, all & !mask.0), None, "{text}");
    }
    // InfiniBand needs no GID.
    let context = Fabric::with(World::infiniband()).open_device();
    let mut attr = right();
    attr.ah_attr.is_global = 0;
    assert_eq!(wrong_value(&context.handle, &attr, M::IBV_QP_AV.0), None);
}

/// Only EINVAL is explained by a value.
#[test]
fn a_transition_that_fails_otherwise_blames_no_value() {
    let context = Fabric::new().open_device();
    let attr = ibv_qp_attr { port_num: 2, ..zeroed() };
    let said = |errno| {
        let way = (QpState::Reset, QpState::Init);
        let attr = (&attr, Mask::IBV_QP_PORT.0);
        of_transition(&context.handle, way, attr, " (asked)", errno).to_string()
    };
    let text = said(libc::EINVAL);
    assert!(
        text.ends_with("(RESET -> INIT (asked); port 2 does not exist: this device has 1 port)"),
        "{text}"
    );
    let text = said(libc::ENOMEM);
    assert!(text.ends_with("(RESET -> INIT (asked))"), "{text}");
}
