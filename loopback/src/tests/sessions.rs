//! Extended posting, as C uses it: its results, and misuse that is reported.

use std::ffi::c_void;

use super::*;
use crate::Personality;
use proverbs_sys::create_qp_ex::ibv_qp_init_attr_ex;
use proverbs_sys::session::{ibv_data_buf, ibv_qp_ex, send_ops};

fn create(end: &End, wish: &Wish, ops: u64) -> Result<*mut ibv_qp_ex, i32> {
    let cap = ibv_qp_cap { max_send_wr: 4, max_inline_data: 16, max_send_sge: 2, ..zeroed() };
    let (cq, qp_type) = (end.cq, wish.qp_type);
    let init = ibv_qp_init_attr { send_cq: cq, recv_cq: cq, cap, qp_type, ..zeroed() };
    let mut init = ibv_qp_init_attr_ex::new(&init, end.pd, 0, ops);
    unsafe { (LOOPBACK.create_qp_ex)(&mut init) }.map(|qp| qp.as_ptr().cast())
}

/// Calls a function, which must be there.
macro_rules! call {
    ($qp:ident.$function:ident($($argument:expr),*)) => {
        unsafe { (*$qp).$function.unwrap()($qp $(, $argument)*) }
    };
}

/// Proves R15.1.
#[test]
fn only_operations_of_the_transport_are_granted() {
    let end = End::new(&Fabric::new(), &RC);
    for (wish, ops, made) in [
        (&RC, 0x3ff, Ok(())),
        (&UC, 0xf, Ok(())),
        (&UC, send_ops::RDMA_READ, Err(libc::EOPNOTSUPP)),
        (&UD, send_ops::SEND | send_ops::SEND_WITH_IMM, Ok(())),
        (&UD, send_ops::RDMA_WRITE, Err(libc::EOPNOTSUPP)),
        (&RC, 1 << 10, Err(libc::EOPNOTSUPP)),
    ] {
        let qp = create(&end, wish, ops);
        assert_eq!(qp.map(drop), made, "{ops:#x}");
        if let Ok(qp) = qp {
            assert_eq!(unsafe { (LOOPBACK.destroy_qp)(qp.cast()) }, Ok(()));
        }
    }
    let plain = end.qp.cast::<ibv_qp_ex>();
    assert!(unsafe { (*plain).wr_start }.is_none(), "an ordinary one has no functions (R15.2)");
}

/// An aborted session posts nothing, an empty one does nothing, and one in RESET is refused.
/// Proves R15.7.
#[test]
fn a_session_that_is_aborted_posts_nothing() {
    let end = End::new(&Fabric::new(), &RC);
    let qp = create(&end, &RC, send_ops::SEND).unwrap();
    call!(qp.wr_start());
    call!(qp.wr_send());
    call!(qp.wr_set_sge_list(0, ptr::null()));
    call!(qp.wr_abort());
    call!(qp.wr_start());
    call!(qp.wr_send());
    call!(qp.wr_set_sge_list(0, ptr::null()));
    assert_eq!(call!(qp.wr_complete()), libc::EINVAL);
    assert_eq!(unsafe { (LOOPBACK.destroy_qp)(qp.cast()) }, Ok(()));
}

/// A call out of order and its report.
#[cfg(debug_assertions)]
const WRONG: [(&str, &str); 15] = [
    ("start", "within an open session"),
    ("post_send", "within an open session"),
    ("destroy", "within an open session"),
    ("complete", "was not started"),
    ("abort", "was not started"),
    ("outside", "outside of a session"),
    ("setter", "before any operation"),
    ("operation", "not in send_ops_flags"),
    ("data", "lacks its data"),
    ("last data", "lacks its data"),
    ("address", "or its address"),
    ("twice", "has its data"),
    ("flag", "whose flags say inline"),
    ("rxe list", "R15.10"),
    ("rxe flag", "R15.8"),
];

/// Proves R15.3, R15.4, R15.5, R15.8, R15.9, R15.10.
#[cfg(debug_assertions)]
#[test]
#[cfg_attr(miri, ignore = "starts itself")]
fn calls_out_of_order_are_reported() {
    for (call, told) in WRONG {
        let (is_well, said) = ended_by("sessions::a_call_out_of_order", ("SESSION_CALL", call));
        assert!(!is_well && said.contains(told), "{call}: {said}");
    }
}

#[cfg(debug_assertions)]
#[test]
#[ignore = "started by calls_out_of_order_are_reported"]
fn a_call_out_of_order() {
    let call = std::env::var("SESSION_CALL").unwrap();
    let is_rxe = call.starts_with("rxe");
    let fabric = Fabric::with(if is_rxe { Personality::Rxe } else { Personality::Plain });
    let wish = if call == "address" { UD } else { RC };
    let end = End::new(&fabric, &wish);
    let qp = create(&end, &wish, send_ops::SEND | send_ops::SEND_WITH_IMM).unwrap();
    let none = ptr::null::<ibv_sge>();
    match &*call {
        "complete" => assert_eq!(call!(qp.wr_complete()), 0),
        "abort" => call!(qp.wr_abort()),
        "outside" => call!(qp.wr_send()),
        _ => {}
    }
    call!(qp.wr_start());
    match &*call {
        "start" => return call!(qp.wr_start()),
        "setter" => return call!(qp.wr_set_sge(1, 2, 3)),
        "operation" => return call!(qp.wr_rdma_read(1, 2)),
        "flag" => unsafe { (*qp).wr_flags = send_wr::INLINE },
        "destroy" => assert_eq!(unsafe { (LOOPBACK.destroy_qp)(qp.cast()) }, Ok(())),
        "post_send" => unsafe {
            let mut wr = zeroed::<ibv_send_wr>();
            wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
            (*end.context).ops.post_send.unwrap()(qp.cast(), &mut wr, &mut ptr::null_mut());
        },
        _ => {}
    }
    call!(qp.wr_send_imm(7));
    let mut buf = ibv_data_buf { addr: (&raw const call).cast_mut().cast::<c_void>(), length: 1 };
    match &*call {
        "data" => call!(qp.wr_send()),
        "rxe flag" => call!(qp.wr_set_inline_data(buf.addr, 1)),
        "rxe list" => call!(qp.wr_set_sge_list(2, [end.sge(0, 1), end.sge(1, 1)].as_ptr())),
        "twice" => call!(qp.wr_set_inline_data_list(1, &raw mut buf)),
        _ => {}
    }
    if call != "last data" {
        call!(qp.wr_set_sge_list(0, none));
    }
    call!(qp.wr_complete());
}
