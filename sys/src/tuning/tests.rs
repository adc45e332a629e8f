//! The arguments passed to C, with stubs instead of the C functions.

#![allow(clippy::undocumented_unsafe_blocks)] // all objects of this file are live

use std::ptr;

use super::*;
use crate::control::LIBIBVERBS;
use crate::extended::BARE;
use crate::tests::{self, ANSWER, answered, seen};

unsafe extern "C" fn moderate(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    let (cq, attr) = unsafe { ((*cq).handle, *attr) };
    let ibv_moderate_cq { cq_count, cq_period } = attr.moderate;
    answered(format!("cq {cq}, mask {}, {cq_count} or {cq_period} us", attr.attr_mask))
}

unsafe extern "C" fn limit(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int {
    let (qp, attr) = unsafe { ((*qp).qp_num, *attr) };
    let ibv_qp_rate_limit_attr { rate_limit, max_burst_sz, typical_pkt_sz, comp_mask } = attr;
    answered(format!("qp {qp}, {rate_limit} kbps, {max_burst_sz}, {typical_pkt_sz}, {comp_mask}"))
}

unsafe extern "C" fn null(pd: *mut ibv_pd) -> *mut ibv_mr {
    match answered(format!("pd {}", unsafe { (*pd).handle })) {
        0 => ptr::without_provenance_mut(0x1000),
        _ => ptr::null_mut(),
    }
}

unsafe extern "C" fn set(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    let (qp, ibv_ece { vendor_id, options, comp_mask }) = unsafe { ((*qp).qp_num, *ece) };
    answered(format!("qp {qp}, set {vendor_id:#x}, {options:#x}, {comp_mask}"))
}

unsafe extern "C" fn query(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    unsafe { *ece = ibv_ece { vendor_id: 7, options: 8, comp_mask: 0 } };
    answered(format!("qp {}, query", unsafe { (*qp).qp_num }))
}

/// Calls with a context whose `verbs_context` has this size.
fn with<R>(size: usize, ask: impl FnOnce(*mut ibv_context) -> R) -> R {
    const WORDS: usize = ALLOC_NULL_MR / 8;
    ask(tests::context::<WORDS>(
        size,
        &[
            (ALLOC_NULL_MR, null as *const ()),
            (MODIFY_QP_RATE_LIMIT, limit as *const ()),
            (MODIFY_CQ, moderate as *const ()),
        ],
    ))
}

/// The result of each: a completion queue, a queue pair, a region.
fn all(size: usize) -> [Answer; 3] {
    with(size, |context| {
        let mut cq = ibv_cq { context, handle: 3, ..zeroed() };
        let mut qp = ibv_qp { context, qp_num: 17, ..zeroed() };
        let mut pd = ibv_pd { context, handle: 5, ..zeroed() };
        let moderate = ibv_moderate_cq { cq_count: 16, cq_period: 30 };
        let mut moderate = ibv_modify_cq_attr { attr_mask: MODERATE, moderate };
        let mut rate = ibv_qp_rate_limit_attr {
            rate_limit: 1_000_000,
            max_burst_sz: 4096,
            typical_pkt_sz: 1024,
            comp_mask: 0,
        };
        unsafe {
            [
                (LIBIBVERBS.modify_cq)(&mut cq, &mut moderate),
                (LIBIBVERBS.modify_qp_rate_limit)(&mut qp, &mut rate),
                (LIBIBVERBS.alloc_null_mr)(&mut pd).map(drop),
            ]
        }
    })
}

/// Proves R22.1, R22.2, R22.4.
#[test]
fn tuning_reaches_c_unchanged() {
    assert_eq!(all(BARE + ALLOC_NULL_MR), [Ok(()); 3]);
    let expected = ["cq 3, mask 1, 16 or 30 us", "qp 17, 1000000 kbps, 4096, 1024, 0", "pd 5"];
    assert_eq!(seen(), expected);
    ANSWER.set(libc::EINVAL);
    let [invalid, denied, none] = [libc::EINVAL, libc::EPERM, libc::EOPNOTSUPP].map(Err);
    assert_eq!(all(BARE + ALLOC_NULL_MR), [invalid, invalid, denied]);
    ANSWER.set(-1);
    assert_eq!(all(BARE + ALLOC_NULL_MR), [denied; 3]);
    // An operation beyond an older library's table is not called.
    assert_eq!(all(BARE + MODIFY_QP_RATE_LIMIT), [denied, denied, none]);
    assert_eq!(all(BARE + MODIFY_CQ), [denied, none, none]);
    assert_eq!(all(BARE), [none; 3]);
}

/// Proves R22.3.
#[test]
fn connection_options_reach_c_unchanged() {
    REPLACED.set(Some(Symbols { set_ece: Some(set), query_ece: Some(query) }));
    let mut qp = ibv_qp { qp_num: 17, ..zeroed() };
    let mut ece = ibv_ece { vendor_id: 0x15b3, options: 0x10, comp_mask: 0 };
    let set = |qp: &mut ibv_qp, ece: &mut ibv_ece| unsafe { (LIBIBVERBS.set_ece)(qp, ece) };
    let query = |qp: &mut ibv_qp| unsafe { (LIBIBVERBS.query_ece)(qp) };
    let expected = ibv_ece { vendor_id: 7, options: 8, comp_mask: 0 };
    assert_eq!((set(&mut qp, &mut ece), query(&mut qp)), (Ok(()), Ok(expected)));
    assert_eq!(seen(), ["qp 17, set 0x15b3, 0x10, 0", "qp 17, query"]);
    ANSWER.set(libc::EINVAL);
    let refused = (Err(libc::EINVAL), Err(libc::EINVAL));
    assert_eq!((set(&mut qp, &mut ece), query(&mut qp)), refused);
    REPLACED.set(Some(Symbols::default()));
    let refused = (Err(libc::ENOSYS), Err(libc::ENOSYS));
    assert_eq!((set(&mut qp, &mut ece), query(&mut qp)), refused);
}

#[test]
#[cfg_attr(miri, ignore = "uses the dynamic linker")]
fn the_installed_library_has_both_functions() {
    let symbols = symbols();
    assert!(symbols.set_ece.is_some() && symbols.query_ece.is_some());
}
