//! What is passed to C, by a function that takes C's place.

#![allow(clippy::undocumented_unsafe_blocks)] // objects of this file, all of them live

use super::*;
use crate::sys::control::LIBIBVERBS;
use crate::sys::extended::BARE;
use crate::sys::tests::{self, ANSWER, answered, seen};

unsafe extern "C" fn create(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    let (context, asked) = unsafe { ((*context).num_comp_vectors, *init) };
    let ibv_qp_init_attr_ex { qp_type, sq_sig_all, comp_mask, create_flags, cap, .. } = asked;
    let pd = unsafe { (*asked.pd).handle };
    let cqs = [asked.send_cq.addr(), asked.recv_cq.addr(), asked.srq.addr()];
    let none = asked.xrcd.is_null() && asked.rwq_ind_tbl.is_null() && asked.send_ops_flags == 0;
    let call = format!(
        "{context} {pd} {cqs:?} {qp_type} {sq_sig_all} {comp_mask} {create_flags} {} {none}",
        cap.max_send_wr
    );
    unsafe { (*init).cap.max_send_wr = 64 };
    match answered(call) {
        0 => ptr::without_provenance_mut(0x1000),
        _ => ptr::null_mut(),
    }
}

/// The result, and how many sends were granted.
fn made(size: usize) -> (Result<usize, i32>, u32) {
    const WORDS: usize = CREATE_QP_EX / 8;
    let context = tests::context::<WORDS>(size, &[(CREATE_QP_EX, create as *const ())]);
    unsafe { (*context).num_comp_vectors = 9 };
    let mut pd = ibv_pd { context, handle: 5, ..zeroed() };
    let mut init = zeroed::<ibv_qp_init_attr>();
    (init.send_cq, init.recv_cq) =
        (ptr::without_provenance_mut(0x10), ptr::without_provenance_mut(0x20));
    init.srq = ptr::without_provenance_mut(0x30);
    (init.qp_type, init.sq_sig_all, init.cap.max_send_wr) = (ibv_qp_type::IBV_QPT_UD, 1, 33);
    let mut init = ibv_qp_init_attr_ex::new(&init, &mut pd, BLOCK_SELF_MCAST_LB);
    let made = unsafe { (LIBIBVERBS.create_qp_ex)(&mut init) };
    (made.map(|qp| qp.as_ptr().addr()), init.cap.max_send_wr)
}

#[test]
fn what_is_created_with_flags_reaches_c_as_it_is() {
    assert_eq!(made(BARE + CREATE_QP_EX), (Ok(0x1000), 64));
    // The context, the domain, the queues, UD, all signaled, both parts of the mask, the flag.
    let expected = ["9 5 [16, 32, 48] 4 1 5 2 33 true"];
    assert_eq!(seen(), expected);
    ANSWER.set(-1);
    assert_eq!(made(BARE + CREATE_QP_EX).0, Err(libc::EPERM));
    // What an older library does not reach is not called.
    assert_eq!(made(BARE).0, Err(libc::EOPNOTSUPP));
}
