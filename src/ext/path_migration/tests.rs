//! An alternate path through another port: the arguments of libibverbs, with a stub library.
#![cfg(feature = "loopback")]
#![allow(unsafe_code)] // forwards verbs

use crate::provider_tests::device_with;
use std::cell::Cell;

use super::*;
use crate::loopback::{Fabric, LOOPBACK, World};
use crate::prelude::*;
use crate::qp::{Drain, RcReturn, RcRtsOptional, RcSqd, RtrOptional};
use crate::sys::control::Control;
use crate::sys::types::{ibv_qp_attr, zeroed};
use crate::terms::bounded::Timeout;

thread_local! {
    /// The attributes and the mask of the last change.
    static TOLD: Cell<Option<(ibv_qp_attr, u32)>> = const { Cell::new(None) };
    /// The port that the queue pair is at.
    static PORT: Cell<u8> = const { Cell::new(1) };
}

const SECOND: u32 = Mask::IBV_QP_ALT_PATH.0;
const STATE: u32 = Mask::IBV_QP_PATH_MIG_STATE.0;

/// The longest message by port. The limit of port 3 is too low.
const LONGEST: [u32; 4] = [0, 4096, 4096, 4095];

/// Three ports, and changes of the alternate path that always succeed.
const STAND_IN: Control = Control {
    query_port: |context, port| {
        // SAFETY: the arguments come from the caller, except for the port, which exists.
        let mut attr = unsafe { (LOOPBACK.query_port)(context, 1) }?;
        attr.get_mut().max_msg_sz = LONGEST[usize::from(port)];
        Ok(attr)
    },
    modify_qp: |qp, attr, mask| {
        // SAFETY: the attributes come from the caller, and this crate sets all of them.
        let told = unsafe { attr.read() };
        let port = told.ah_attr.port_num;
        TOLD.set(Some((told, mask as u32)));
        if port > 1 && mask as u32 & Mask::IBV_QP_AV.0 != 0 {
            return Ok(());
        }
        // SAFETY: the arguments come from the caller, which keeps the verb's contract.
        unsafe { (LOOPBACK.modify_qp)(qp, attr, mask & !(SECOND | STATE) as i32) }
    },
    query_qp: |qp, mask| {
        // SAFETY: the arguments come from the caller, which keeps the verb's contract.
        let (mut attr, init) = unsafe { (LOOPBACK.query_qp)(qp, mask) }?;
        attr.port_num = PORT.get();
        Ok((attr, init))
    },
    ..LOOPBACK
};

/// The arguments of the last change.
fn told() -> (ibv_qp_attr, u32) {
    TOLD.take().expect("a change")
}

fn connected() -> (Context, QueuePair<Rc, Init>, CompletionQueue, AddressVector) {
    let context = device_with(Fabric::with(World::infiniband().lid_mask(1)), STAND_IN);
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(20).unwrap();
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let lid = context.query_port(1).unwrap().lid;
    let qp = qp.modify(init).unwrap();
    (context, qp, cq, AddressVector::infiniband(1, lid))
}

/// Proves R8.13, R24.10.
#[test]
fn each_attribute_of_a_second_path_has_its_place() {
    let (_context, qp, _cq, first) = connected();
    let (own, psn) = (Qpn::new(qp.qp_num()).unwrap(), Psn::new(0).unwrap());
    let address = AddressVector { port: 2, src_path_bits: 1, ..AddressVector::infiniband(2, 77) };
    let timeout = Timeout::exponent(9).unwrap();
    let alternate = Some(AlternatePath { address, pkey_index: 5, timeout });
    let optional = RtrOptional { alternate, ..Default::default() };
    let qp = qp.modify(RcRtr { optional, ..RcRtr::new(first, own, psn) }).unwrap();
    let (c, mask) = told();
    assert_eq!(mask & (SECOND | STATE), SECOND);
    assert_eq!((c.alt_port_num, c.alt_pkey_index, c.alt_timeout), (2, 5, 9));
    let alt = &c.alt_ah_attr;
    assert_eq!((alt.dlid, alt.port_num, alt.src_path_bits), (77, 2, 1));
    assert_eq!((c.ah_attr.dlid, c.ah_attr.port_num), (first.dlid, 1));
    let qp = qp.modify(RcRts::new(psn, ReadDepth::ONE)).unwrap();
    assert_eq!(told().1 & (SECOND | STATE), 0);
    let (arm, take) = (Migration::Rearm, Migration::Migrate);
    let with =
        |migration| RcReturn(RcRtsOptional { migration: Some(migration), ..Default::default() });
    let qp = qp.modify(with(arm)).unwrap();
    assert_eq!(TOLD.take().map(|(c, mask)| (c.path_mig_state, mask & STATE)), Some((1, STATE)));
    let qp = qp.modify(with(take)).unwrap();
    assert_eq!(TOLD.take().map(|(c, mask)| (c.path_mig_state, mask & STATE)), Some((0, STATE)));

    // It is at the other port now, which the address contains too.
    PORT.set(2);
    let qp = qp.modify(Drain::default()).unwrap().into_sqd().unwrap();
    let moved = RcSqd { address: Some(first), ..RcSqd::default() };
    let qp = qp.modify(moved).unwrap();
    assert_eq!((told().0.ah_attr.port_num, qp.core.port), (2, 2));
}

/// If the transition that sets a path also arms it, only the device switches to it.
#[test]
fn a_path_that_is_armed_at_once() {
    for port in [2, 1] {
        PORT.set(1);
        let (_context, qp, _cq, first) = connected();
        let (own, psn) = (Qpn::new(qp.qp_num()).unwrap(), Psn::new(0).unwrap());
        let qp = qp.modify(RcRtr::new(first, own, psn)).unwrap();
        let alternate = Some(AlternatePath::new(AddressVector { port, ..first }));
        let migration = Some(Migration::Rearm);
        let optional = RcRtsOptional { alternate, migration, ..Default::default() };
        let qp = qp.modify(RcRts { optional, ..RcRts::new(psn, ReadDepth::ONE) }).unwrap();
        assert_eq!(qp.core.may_migrate, port == 2);
        PORT.set(port);
        let qp = qp.modify(Drain::default()).unwrap().into_sqd().unwrap();
        let qp = qp.modify(RcSqd { address: Some(first), ..RcSqd::default() }).unwrap();
        assert_eq!((told().0.ah_attr.port_num, qp.core.port), (port, port));
    }
}

/// An alternate path by a port with a shorter longest message is rejected.
/// Proves R8.13.
#[test]
fn a_second_path_takes_messages_of_the_same_length() {
    let (_context, qp, _cq, first) = connected();
    let (own, psn) = (Qpn::new(qp.qp_num()).unwrap(), Psn::new(0).unwrap());
    let alternate = Some(AlternatePath::new(AddressVector { port: 3, ..first }));
    let optional = RtrOptional { alternate, ..Default::default() };
    TOLD.take();
    let refused = qp.modify(RcRtr { optional, ..RcRtr::new(first, own, psn) }).unwrap_err();
    let text = "ibv_modify_qp: the longest message of the first path's port 4096 exceeds 4095";
    assert_eq!(refused.error.to_string(), text);
    assert!(TOLD.take().is_none(), "the device was not asked");
}

/// After a possible migration the device is queried for the port that the queue pair
/// uses.
#[test]
fn what_a_device_reports_of_its_paths() {
    let c = ibv_qp_attr { path_mig_state: 2, ..zeroed() };
    let paths = QpPaths::from_c(&c);
    assert_eq!((paths.alternate, paths.migration), (None, Some(MigrationState::Armed)));
    let c = ibv_qp_attr { path_mig_state: 7, alt_port_num: 2, alt_timeout: 4, ..zeroed() };
    let QpPaths { alternate, migration, .. } = QpPaths::from_c(&c);
    let timeout = Timeout::exponent(4).unwrap();
    let address = AddressVector::infiniband(2, 0);
    assert_eq!(alternate, Some(AlternatePath { address, pkey_index: 0, timeout }));
    assert_eq!(migration, None);
}

/// A target of XRC has an address, too. Its path bits are limited by its port (R24.9).
#[test]
fn path_bits_of_a_target_of_xrc() {
    use crate::ext::xrc::{XrcTargetRtr, XrcTargetRts};
    let context = Fabric::with(World::infiniband().lid_mask(1)).open_device();
    let can = context.abilities().unwrap().can::<crate::transport::Xrc>().unwrap();
    let domain = context.open_xrcd(&can, crate::ext::xrc::XrcdFile::Private).unwrap();
    let lid = context.query_port(1).unwrap().lid;
    let from = |src_path_bits| AddressVector { src_path_bits, ..AddressVector::infiniband(1, lid) };
    let (own, psn) = (Qpn::new(0x20).unwrap(), Psn::new(0).unwrap());
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let target = domain.create_target().unwrap().modify(init).unwrap();
    let refused = target.modify(XrcTargetRtr::new(from(2), own, psn)).unwrap_err();
    let text = refused.error.to_string();
    assert!(text.contains("src_path_bits 2 exceeds 1"), "{text}");
    let target = refused.into_object().modify(XrcTargetRtr::new(from(1), own, psn)).unwrap();
    target.modify(XrcTargetRts::new(psn)).unwrap();
}
