//! The arguments passed to libefa, and the calls of an SRD session, with stubs instead of the C
//! functions.

#![allow(clippy::undocumented_unsafe_blocks)] // all objects of this file are live

use std::ptr;

use super::*;
use crate::control::LIBIBVERBS;
use crate::data::{Verb, apart, arm};
use crate::session::stub::{with_extended, with_other};
use crate::session::tests::pair_of;
use crate::tests::{self, ANSWER, answered, saw, seen};

unsafe extern "C" fn create(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
    attr: *mut efadv_qp_init_attr,
    inlen: u32,
) -> *mut ibv_qp {
    let (context, asked, efa) = unsafe { ((*context).num_comp_vectors, *init, *attr) };
    let ibv_qp_init_attr_ex { qp_type, sq_sig_all, comp_mask, cap, send_ops_flags, .. } = asked;
    let objects = [asked.send_cq.addr(), asked.recv_cq.addr(), asked.srq.addr()];
    let pd = unsafe { (*asked.pd).handle };
    let (sends, sges) = (cap.max_send_wr, cap.max_send_sge);
    unsafe { (*init).cap.max_send_wr = 64 };
    saw(format!("{context} {pd} {objects:?} {qp_type} {sq_sig_all} {comp_mask} {sends} {sges}"));
    match answered(format!("{send_ops_flags:#x} {efa:?} {inlen}")) {
        0 => ptr::without_provenance_mut(0x1000),
        _ => ptr::null_mut(),
    }
}

unsafe extern "C" fn query_ah(ah: *mut ibv_ah, attr: *mut efadv_ah_attr, inlen: u32) -> c_int {
    let answer = answered(format!("query_ah({ah:?}, {})", inlen));
    unsafe { (*attr).ahn = 77 };
    answer
}

/// From here on, this thread uses this stub of libefa.
fn with_efa() {
    REPLACED.set(Some(Symbols { create: Some(create), query_ah: Some(query_ah) }));
}

/// The result, and the number of granted sends.
fn made(ops: u64, flags: u16) -> (Result<usize, c_int>, u32) {
    let context = tests::context::<1>(0, &[]);
    unsafe { (*context).num_comp_vectors = 9 };
    let mut pd = ibv_pd { context, handle: 5, ..zeroed() };
    let mut init = zeroed::<ibv_qp_init_attr>();
    (init.send_cq, init.recv_cq) =
        (ptr::without_provenance_mut(0x10), ptr::without_provenance_mut(0x20));
    (init.qp_type, init.sq_sig_all) = (ibv_qp_type::IBV_QPT_DRIVER, 1);
    (init.cap.max_send_wr, init.cap.max_send_sge) = (33, 1);
    let mut init = ibv_qp_init_attr_ex::new(&init, &mut pd, 0, ops);
    let made = unsafe { (LIBIBVERBS.create_srd_qp)(&mut init, flags) };
    (made.map(|qp| qp.as_ptr().addr()), init.cap.max_send_wr)
}

/// Proves R27.2, R27.7.
#[test]
fn attributes_reach_libefa_unchanged() {
    with_efa();
    unsafe { with_extended() };
    assert_eq!(made(0x1f, INLINE_WRITE), (Ok(0x1000), 64));
    assert_eq!(
        seen(),
        [
            // The context, the domain, the queues and no shared one; the driver's type, all
            // signaled, a domain and operations, depth and elements.
            "9 5 [16, 32, 0] 255 1 65 33 1",
            // The operations; SRD, and its flags; no field that an older library does not know.
            "0x1f efadv_qp_init_attr { comp_mask: 0, driver_qp_type: 0, flags: 2, sl: 0, \
             reserved: 0 } 16",
            "to_ex(0x1000)",
        ]
    );
    assert_eq!(made(0xc, 0), (Ok(0x1000), 64));
    assert!(
        seen()[1].starts_with("0xc efadv_qp_init_attr { comp_mask: 0, driver_qp_type: 0, flags: 0")
    );
    ANSWER.set(-1);
    assert_eq!(made(0xc, 0).0, Err(libc::EPERM));
    // A queue pair without sessions is not what was requested.
    ANSWER.set(0);
    with_other();
    seen();
    assert_eq!(made(0xc, 0).0, Err(libc::EOPNOTSUPP));
    assert_eq!(seen()[2..], ["to_ex(0x1000)", "destroy(0x1000)"]);
    // Without libefa no function is called.
    REPLACED.set(Some(Symbols::default()));
    assert_eq!(made(0xc, 0).0, Err(libc::ENOSYS));
    assert!(seen().is_empty());
}

/// Proves R27.10.
#[test]
fn an_address_handle_has_a_number() {
    let ah = ptr::without_provenance_mut(0x30);
    let number = || unsafe { (LIBIBVERBS.ah_number)(ah) };
    with_efa();
    assert_eq!((number(), seen()), (Ok(77), vec!["query_ah(0x30, 16)".to_owned()]));
    ANSWER.set(libc::EOPNOTSUPP);
    assert_eq!(number(), Err(libc::EOPNOTSUPP));
    REPLACED.set(Some(Symbols::default()));
    assert_eq!(number(), Err(libc::ENOSYS));
}

fn request(opcode: ibv_wr_opcode::Type, sge: *mut ibv_sge) -> ibv_send_wr {
    let mut wr = zeroed::<ibv_send_wr>();
    (wr.wr_id, wr.opcode, wr.sg_list, wr.num_sge) = (9, opcode, sge, 1);
    let to = ud_t { ah: ptr::without_provenance_mut(0x40), remote_qpn: 5, remote_qkey: 6 };
    unsafe {
        if crate::data::is_rdma(opcode) {
            arm::<raw::rdma_t>(&mut wr).write(raw::rdma_t { remote_addr: 0x100, rkey: 3 });
            apart(&mut wr).write(to);
        } else {
            arm::<ud_t>(&mut wr).write(to);
        }
        crate::data::emit_word(&mut wr, 7);
    }
    wr
}

/// The calls for posting a list; `alone` uses the path for a single work request.
fn calls(qp_type: ibv_qp_type::Type, wrs: &mut [ibv_send_wr], alone: bool) -> (c_int, bool) {
    let mut qp = pair_of(qp_type);
    let (first, mut bad) = (wrs.as_mut_ptr(), ptr::null_mut());
    for i in 1..wrs.len() {
        unsafe { (*first.add(i - 1)).next = first.add(i) };
    }
    let errno = unsafe {
        match alone {
            true => {
                let known = (SrdSession::known(first), ());
                let errno = SrdSession::post_known((&raw mut qp).cast(), &known).unwrap();
                return (errno, errno != 0);
            }
            false => SrdSession::post((&raw mut qp).cast(), first, &mut bad),
        }
    };
    (errno, bad == first)
}

/// Proves R27.2.
#[test]
fn each_work_request_of_a_session_has_its_destination() {
    use ibv_wr_opcode::*;
    const SRD: u32 = ibv_qp_type::IBV_QPT_DRIVER;
    let sge: *mut ibv_sge = &mut ibv_sge { addr: 0x200, length: 8, lkey: 4 };
    let all = [
        (IBV_WR_SEND, "send 9:0 "),
        (IBV_WR_SEND_WITH_IMM, "send_imm 9:0 7"),
        (IBV_WR_RDMA_WRITE, "write 9:0 3 256"),
        (IBV_WR_RDMA_WRITE_WITH_IMM, "write_imm 9:0 3 256 7"),
        (IBV_WR_RDMA_READ, "read 9:0 3 256"),
    ];
    let parts =
        |operation: &str| [operation, "ud_addr 9:0 0x40 5 6", "sge 9:0 4 512 8"].map(str::to_owned);
    for alone in [true, false] {
        for (opcode, operation) in all {
            let mut wrs = [request(opcode, sge)];
            assert_eq!(calls(SRD, &mut wrs, alone), (0, false));
            let session = seen();
            assert!(session[0].starts_with("start"), "{session:?}");
            assert_eq!(session[1..4], parts(operation));
            assert_eq!(session[4..], ["complete"]);
        }
    }
    // A list is one session.
    let mut wrs = all.map(|(opcode, _)| request(opcode, sge));
    assert_eq!(calls(SRD, &mut wrs, false), (0, false));
    let session = seen();
    let expected: Vec<_> = all.iter().flat_map(|(_, operation)| parts(operation)).collect();
    assert_eq!(session[1..session.len() - 1], expected);

    // Data with no elements, and inline data, which may be empty.
    let bytes = *b"inline";
    let addr = bytes.as_ptr().expose_provenance() as u64;
    let mut inline = ibv_sge { addr, length: 6, lkey: 0 };
    const INLINE: u32 = ibv_send_flags::IBV_SEND_INLINE.0;
    for (num_sge, flags, data) in [
        (0, 0, "sge_list []".to_owned()),
        (1, INLINE, format!("inline {:?}", b"inline")),
        (0, INLINE, "inline []".to_owned()),
    ] {
        let mut wrs = [request(IBV_WR_SEND, &mut inline)];
        (wrs[0].num_sge, wrs[0].send_flags) = (num_sge, flags);
        assert_eq!(calls(SRD, &mut wrs, true), (0, false));
        assert_eq!(seen()[3], data);
    }

    // A session is refused as a whole.
    ANSWER.set(libc::ENOMEM);
    let mut wrs = [request(IBV_WR_SEND, sge), request(IBV_WR_SEND, sge)];
    assert_eq!(calls(SRD, &mut wrs, false), (libc::ENOMEM, true));
    assert_eq!(calls(SRD, &mut wrs[1..], true), (libc::ENOMEM, true));
    ANSWER.set(0);
    seen();

    // A queue pair of another type has ordinary sessions.
    for alone in [true, false] {
        let mut wrs = [request(IBV_WR_RDMA_WRITE, sge)];
        assert_eq!(calls(ibv_qp_type::IBV_QPT_RC, &mut wrs, alone), (0, false));
        assert_eq!(seen()[1..3], ["write 9:0 3 256", "sge 9:0 4 512 8"]);
    }
}
