//! The arguments passed to C, with stubs instead of the C functions.

#![allow(clippy::undocumented_unsafe_blocks)] // all objects of this file are live

use super::*;
use crate::control::LIBIBVERBS;
use crate::extended::BARE;
use crate::tests::{self, ANSWER, answered, seen};

unsafe extern "C" fn create(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    let (context, asked) = unsafe { ((*context).num_comp_vectors, *init) };
    let ibv_qp_init_attr_ex { qp_type, sq_sig_all, comp_mask, create_flags, cap, .. } = asked;
    let pd = unsafe { (*asked.pd).handle };
    let cqs = [asked.send_cq.addr(), asked.recv_cq.addr(), asked.srq.addr()];
    // This crate never sets these fields.
    let hash = asked.rx_hash_conf;
    let numbers = [
        asked.max_tso_header.into(),
        asked.source_qpn,
        hash.rx_hash_function.into(),
        hash.rx_hash_key_len.into(),
        hash.rx_hash_fields_mask as u32,
    ];
    let none = asked.xrcd.is_null() && asked.rwq_ind_tbl.is_null() && hash.rx_hash_key.is_null();
    let none = none && numbers == [0; 5];
    let call = format!(
        "{context} {pd} {cqs:?} {qp_type} {sq_sig_all} {comp_mask} {create_flags} {} {none} {:#x}",
        cap.max_send_wr, asked.send_ops_flags
    );
    unsafe { (*init).cap.max_send_wr = 64 };
    match answered(call) {
        0 => ptr::without_provenance_mut(0x1000),
        _ => ptr::null_mut(),
    }
}

/// The result, and the number of granted sends.
fn made(size: usize, (flags, ops): (u32, u64)) -> (Result<usize, i32>, u32) {
    const WORDS: usize = CREATE_QP_EX / 8;
    let context = tests::context::<WORDS>(size, &[(CREATE_QP_EX, create as *const ())]);
    unsafe { (*context).num_comp_vectors = 9 };
    let mut pd = ibv_pd { context, handle: 5, ..zeroed() };
    let mut init = zeroed::<ibv_qp_init_attr>();
    (init.send_cq, init.recv_cq) =
        (ptr::without_provenance_mut(0x10), ptr::without_provenance_mut(0x20));
    init.srq = ptr::without_provenance_mut(0x30);
    (init.qp_type, init.sq_sig_all, init.cap.max_send_wr) = (ibv_qp_type::IBV_QPT_UD, 1, 33);
    let mut init = ibv_qp_init_attr_ex::new(&init, &mut pd, flags, ops);
    let made = unsafe { (LIBIBVERBS.create_qp_ex)(&mut init) };
    (made.map(|qp| qp.as_ptr().addr()), init.cap.max_send_wr)
}

/// Proves R23.6.
#[test]
fn flags_reach_c_unchanged() {
    let flags = (BLOCK_SELF_MCAST_LB, 0);
    assert_eq!(made(BARE + CREATE_QP_EX, flags), (Ok(0x1000), 64));
    // The context, the domain, the queues, UD, all signaled, both parts of the mask, the flag.
    let expected = ["9 5 [16, 32, 48] 4 1 5 2 33 true 0x0"];
    assert_eq!(seen(), expected);
    ANSWER.set(-1);
    assert_eq!(made(BARE + CREATE_QP_EX, flags).0, Err(libc::EPERM));
    // An operation beyond an older library's table is not called.
    assert_eq!(made(BARE, flags).0, Err(libc::EOPNOTSUPP));
}

/// Proves R15.1, R15.2.
#[test]
fn extended_posting_is_requested_by_its_operations() {
    use crate::session::stub::{with_extended, with_other};
    unsafe { with_extended() };
    assert_eq!(made(BARE + CREATE_QP_EX, (0, 0x3f)), (Ok(0x1000), 64));
    assert_eq!(made(BARE + CREATE_QP_EX, (BLOCK_SELF_MCAST_LB, 0xc)), (Ok(0x1000), 64));
    let expected = [
        "9 5 [16, 32, 48] 4 1 65 0 33 true 0x3f",
        "to_ex(0x1000)",
        "9 5 [16, 32, 48] 4 1 69 2 33 true 0xc",
        "to_ex(0x1000)",
    ];
    assert_eq!(seen(), expected);
    // A queue pair without an extended form is not what was requested.
    with_other();
    assert_eq!(made(BARE + CREATE_QP_EX, (0, 0x3f)).0, Err(libc::EOPNOTSUPP));
    assert_eq!(seen()[1..], ["to_ex(0x1000)", "destroy(0x1000)"]);
}
