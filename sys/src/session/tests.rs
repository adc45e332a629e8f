//! The calls of a session, their arguments and their order, with stubs instead of the C functions.

#![allow(clippy::undocumented_unsafe_blocks)] // all objects of this file are live

use std::slice;

use super::*;
use crate::tests::{ANSWER, answered, saw, seen};

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $name(qp: Ex $(, $argument: $type)*) {
            let arguments: &[String] = &[$(format!("{:?}", $argument)),*];
            let (wr_id, flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
            saw(format!("{} {wr_id}:{flags} {}", stringify!($name), arguments.join(" ")));
        }
    )*};
}

functions! {
    start();
    send();
    send_imm(imm: u32);
    send_inv(rkey: u32);
    local_inv(rkey: u32);
    write(rkey: u32, addr: u64);
    write_imm(rkey: u32, addr: u64, imm: u32);
    read(rkey: u32, addr: u64);
    swap(rkey: u32, addr: u64, compare: u64, swap: u64);
    add(rkey: u32, addr: u64, add: u64);
    ud_addr(ah: *mut ibv_ah, qpn: u32, qkey: u32);
    sge(lkey: u32, addr: u64, length: u32);
    srqn(number: u32);
}

unsafe extern "C" fn bind(
    _: Ex,
    mw: *mut raw::ibv_mw,
    rkey: u32,
    info: *const raw::ibv_mw_bind_info,
) {
    saw(format!("bind {mw:?} {rkey} {}", unsafe { (*info).length }));
}

unsafe extern "C" fn atomic_write(qp: Ex, rkey: u32, addr: u64, bytes: *const c_void) {
    let (wr_id, bytes) = unsafe { ((*qp).wr_id, *bytes.cast::<[u8; 8]>()) };
    saw(format!("atomic_write {wr_id} {rkey} {addr} {bytes:?}"));
}

unsafe extern "C" fn flush(qp: Ex, rkey: u32, addr: u64, len: usize, placement: u8, level: u8) {
    saw(format!("flush {} {rkey} {addr} {len} {placement} {level}", unsafe { (*qp).wr_id }));
}

unsafe extern "C" fn sge_list(_: Ex, count: usize, list: *const ibv_sge) {
    let list = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(list, count) } };
    let list: Vec<_> = list.iter().map(|sge| (sge.addr, sge.length, sge.lkey)).collect();
    saw(format!("sge_list {list:?}"));
}

unsafe extern "C" fn inline(_: Ex, addr: *mut c_void, length: usize) {
    saw(format!("inline {:?}", unsafe { slice::from_raw_parts(addr.cast::<u8>(), length) }));
}

unsafe extern "C" fn inline_list(_: Ex, count: usize, list: *const ibv_data_buf) {
    let list = unsafe { slice::from_raw_parts(list, count) };
    let bytes = |buf: &ibv_data_buf| unsafe {
        slice::from_raw_parts(buf.addr.cast::<u8>(), buf.length).to_vec()
    };
    saw(format!("inline_list {:?}", list.iter().map(bytes).collect::<Vec<_>>()));
}

unsafe extern "C" fn complete(_: Ex) -> c_int {
    answered("complete")
}

unsafe extern "C" fn post_send(
    _: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    unsafe { *bad = wr };
    answered("post_send")
}

fn pair(qp_type: ibv_qp_type::Type, qp_context: *mut c_void) -> ibv_qp_ex {
    let context = Box::leak(Box::new(zeroed::<ibv_context>()));
    context.ops.post_send = Some(post_send);
    ibv_qp_ex {
        qp_base: ibv_qp { context, qp_type, qp_context, ..zeroed() },
        wr_start: Some(start),
        wr_complete: Some(complete),
        wr_send: Some(send),
        wr_send_imm: Some(send_imm),
        wr_send_inv: Some(send_inv),
        wr_local_inv: Some(local_inv),
        wr_rdma_write: Some(write),
        wr_rdma_write_imm: Some(write_imm),
        wr_rdma_read: Some(read),
        wr_atomic_cmp_swp: Some(swap),
        wr_atomic_fetch_add: Some(add),
        wr_bind_mw: Some(bind),
        wr_set_ud_addr: Some(ud_addr),
        wr_set_xrc_srqn: Some(srqn),
        wr_set_sge: Some(sge),
        wr_set_sge_list: Some(sge_list),
        wr_set_inline_data: Some(inline),
        wr_set_inline_data_list: Some(inline_list),
        ..zeroed()
    }
}

/// A queue pair of this type, whose provider is not librxe.
pub(crate) fn pair_of(qp_type: ibv_qp_type::Type) -> ibv_qp_ex {
    pair(qp_type, ptr::null_mut())
}

/// A queue pair of rdma-core 65, with its added functions.
fn newer(qp_context: *mut c_void) -> ibv_qp_ex_65 {
    ibv_qp_ex_65 {
        of_24: pair(RC, qp_context),
        wr_atomic_write: Some(atomic_write),
        wr_flush: Some(flush),
    }
}

/// The result of a post, and the index of `bad`.
fn post<Q>(qp: &mut Q, wrs: &mut [ibv_send_wr]) -> (c_int, Option<usize>) {
    let first = wrs.as_mut_ptr();
    let qp: *mut Q = qp;
    let mut bad = ptr::null_mut();
    let code = unsafe {
        for i in 1..wrs.len() {
            (*first.add(i - 1)).next = first.add(i);
        }
        Session::post(qp.cast(), first, &mut bad)
    };
    (code, (0..wrs.len()).find(|&i| first.wrapping_add(i) == bad))
}

fn wr(wr_id: u64, opcode: ibv_wr_opcode::Type, sges: *mut [ibv_sge]) -> ibv_send_wr {
    let mut wr = zeroed::<ibv_send_wr>();
    (wr.wr_id, wr.opcode, wr.send_flags) = (wr_id, opcode, 2);
    (wr.sg_list, wr.num_sge) = (sges.cast(), sges.len() as i32);
    wr.imm_data_invalidated_rkey_union.imm_data = 77;
    wr
}

fn inline_of(bytes: &[u8]) -> ibv_sge {
    ibv_sge { addr: bytes.as_ptr().expose_provenance() as u64, length: bytes.len() as u32, lkey: 5 }
}

const RC: ibv_qp_type::Type = ibv_qp_type::IBV_QPT_RC;

/// Proves R15.3, R15.4.
#[test]
fn each_operation_is_called_with_its_operands() {
    use ibv_wr_opcode::*;
    let mut qp = pair(RC, ptr::null_mut());
    let mut one = [ibv_sge { addr: 10, length: 20, lkey: 30 }];
    let one: *mut [ibv_sge] = &mut one;
    let of = |opcode| wr(1, opcode, one);
    let remote = |mut wr: ibv_send_wr| {
        wr.wr.rdma = raw::rdma_t { remote_addr: 40, rkey: 50 };
        wr
    };
    let atomic = |mut wr: ibv_send_wr| {
        wr.wr.atomic = raw::atomic_t { remote_addr: 40, compare_add: 60, swap: 70, rkey: 50 };
        wr
    };
    let mut bound = wr(2, IBV_WR_BIND_MW, &mut []);
    let mr = ptr::null_mut();
    let bind_info = raw::ibv_mw_bind_info { mr, addr: 0, length: 9, mw_access_flags: 0 };
    bound.bind_mw_tso_union.bind_mw =
        raw::bind_mw_t { mw: ptr::without_provenance_mut(0x80), rkey: 90, bind_info };
    let mut all = [
        of(IBV_WR_SEND),
        of(IBV_WR_SEND_WITH_IMM),
        of(IBV_WR_SEND_WITH_INV),
        remote(of(IBV_WR_RDMA_WRITE)),
        remote(of(IBV_WR_RDMA_WRITE_WITH_IMM)),
        remote(of(IBV_WR_RDMA_READ)),
        atomic(of(IBV_WR_ATOMIC_CMP_AND_SWP)),
        atomic(of(IBV_WR_ATOMIC_FETCH_AND_ADD)),
        wr(2, IBV_WR_LOCAL_INV, &mut []),
        bound,
    ];
    assert_eq!(post(&mut qp, &mut all), (0, None));
    let sge = "sge 1:2 30 10 20";
    let expected = [
        "start 0:0 ",
        "send 1:2 ",
        sge,
        "send_imm 1:2 77",
        sge,
        "send_inv 1:2 77",
        sge,
        "write 1:2 50 40",
        sge,
        "write_imm 1:2 50 40 77",
        sge,
        "read 1:2 50 40",
        sge,
        "swap 1:2 50 40 60 70",
        sge,
        "add 1:2 50 40 60",
        sge,
        "local_inv 2:2 77",
        "bind 0x80 90 9",
        "complete",
    ];
    assert_eq!(seen(), expected);
}

/// The two operations of newer libraries, whose functions are at the end of C's object.
/// Proves R25.2.
#[test]
fn flush_and_atomic_write_are_called_with_their_operands() {
    let mut qp = newer(ptr::null_mut());
    assert_eq!(post(&mut qp, &mut [publish(1), flush_of(2), publish(3)]), (0, None));
    let publish = |id| format!("atomic_write {id} 50 40 {:?}", 60u64.to_ne_bytes());
    let flush = "flush 2 5 4 6 2 1".to_owned();
    assert_eq!(
        seen(),
        ["start 0:0 ".to_owned(), publish(1), flush, publish(3), "complete".to_owned()]
    );
}

fn publish(wr_id: u64) -> ibv_send_wr {
    let mut wr = wr(wr_id, WR_ATOMIC_WRITE, &mut []);
    wr.wr.atomic = raw::atomic_t { remote_addr: 40, compare_add: 60, swap: 0, rkey: 50 };
    wr
}

fn flush_of(wr_id: u64) -> ibv_send_wr {
    let mut wr = wr(wr_id, WR_FLUSH, &mut []);
    let operands = flush_t { remote_addr: 4, len: 6, rkey: 5, placement: 2, level: 1 };
    unsafe { arm::<flush_t>(&raw mut wr).write(operands) };
    wr
}

/// `qp_context` identifies XRC initiators. Each of their work requests names a queue, including
/// one-sided ones.
/// Proves R26.1.
#[test]
fn each_xrc_work_request_names_its_queue() {
    use ibv_wr_opcode::*;
    let mut qp = pair(ibv_qp_type::IBV_QPT_XRC_SEND, on_xrc());
    let mut one = [ibv_sge { addr: 10, length: 20, lkey: 30 }];
    let one: *mut [ibv_sge] = &mut one;
    let to = |wr_id, opcode, number| {
        let mut wr = wr(wr_id, opcode, one);
        wr.wr.rdma = raw::rdma_t { remote_addr: 40, rkey: 50 };
        wr.qp_type.xrc.remote_srqn = number;
        wr
    };
    let mut all = [to(1, IBV_WR_SEND, 0xab_cdef), to(2, IBV_WR_RDMA_WRITE, 7)];
    assert_eq!(post(&mut qp, &mut all), (0, None));
    let expected = [
        "start 0:0 ",
        "send 1:2 ",
        "sge 1:2 30 10 20",
        "srqn 1:2 11259375",
        "write 2:2 50 40",
        "sge 2:2 30 10 20",
        "srqn 2:2 7",
        "complete",
    ];
    assert_eq!(seen(), expected);
    // A session is refused as a whole.
    ANSWER.set(libc::ENOMEM);
    assert_eq!(post(&mut qp, &mut all), (libc::ENOMEM, Some(0)));
    ANSWER.set(0);
    seen();
}

/// Elements, pieces and addresses are set; inline data keeps its flag.
/// Proves R15.5, R15.8, R15.9, R15.11.
#[test]
fn data_and_addresses_are_set_after_their_operation() {
    let mut qp = pair(ibv_qp_type::IBV_QPT_UD, ptr::null_mut());
    let mut two = [(1, 2, 3), (4, 5, 6)].map(|(addr, length, lkey)| ibv_sge { addr, length, lkey });
    let bytes = *b"abc";
    let (mut one, mut pieces) = ([inline_of(&bytes)], [inline_of(&bytes[..1]), inline_of(&bytes)]);
    let mut more = [inline_of(&bytes[1..]), inline_of(&bytes[..1]), inline_of(&bytes)];
    let send = ibv_wr_opcode::IBV_WR_SEND;
    let mut all = [
        wr(1, send, &mut two),
        wr(2, send, &mut []),
        wr(3, send, &mut one),
        wr(4, send, &mut pieces),
        wr(5, send, &mut more),
        wr(6, send, &mut []),
    ];
    for (i, wr) in all.iter_mut().enumerate() {
        wr.send_flags = if i < 2 { 2 } else { ibv_send_flags::IBV_SEND_INLINE.0 };
        let ah = ptr::without_provenance_mut(0x10);
        wr.wr.ud = raw::ud_t { ah, remote_qpn: 20, remote_qkey: 30 };
    }
    assert_eq!(post(&mut qp, &mut all), (0, None));
    let expected = [
        "start 0:0 ",
        "send 1:2 ",
        "ud_addr 1:2 0x10 20 30",
        "sge_list [(1, 2, 3), (4, 5, 6)]",
        "send 2:2 ",
        "ud_addr 2:2 0x10 20 30",
        "sge_list []",
        "send 3:8 ",
        "ud_addr 3:8 0x10 20 30",
        "inline [97, 98, 99]",
        "send 4:8 ",
        "ud_addr 4:8 0x10 20 30",
        "inline_list [[97], [97, 98, 99]]",
        "send 5:8 ",
        "ud_addr 5:8 0x10 20 30",
        "inline_list [[98, 99], [97], [97, 98, 99]]",
        "send 6:8 ",
        "ud_addr 6:8 0x10 20 30",
        "inline_list []",
        "complete",
    ];
    assert_eq!(seen(), expected);
}

/// On librxe, lists with several elements per work request use `ibv_post_send`; all others are a
/// session there too.
/// Proves R15.10, R15.11, R15.13.
#[test]
fn librxe_sessions_have_single_elements() {
    let mut qp = pair(RC, on_rxe());
    let send = ibv_wr_opcode::IBV_WR_SEND;
    let (mut one, mut two) = ([ibv_sge { addr: 1, length: 2, lkey: 3 }; 1], [inline_of(b"a"); 2]);
    assert_eq!(post(&mut qp, &mut [wr(1, send, &mut one), wr(2, send, &mut [])]), (0, None));
    assert_eq!(
        seen(),
        ["start 0:0 ", "send 1:2 ", "sge 1:2 3 1 2", "send 2:2 ", "sge_list []", "complete"]
    );
    ANSWER.set(libc::ENOMEM);
    let refused = post(&mut qp, &mut [wr(1, send, &mut one), wr(2, send, &mut two)]);
    assert_eq!((refused, seen()), ((libc::ENOMEM, Some(0)), vec!["post_send".to_owned()]));
}

/// Several elements use `ibv_post_send`, a FLUSH uses a session, and all stay in order; a refusal
/// returns the tail.
///
/// Librxe never gets a FLUSH by `ibv_post_send`, which would misread its operands.
/// Proves R25.5.
#[test]
fn on_librxe_a_list_of_both_kinds_is_posted_one_by_one() {
    let mut qp = newer(on_rxe());
    let send = ibv_wr_opcode::IBV_WR_SEND;
    let mut two = [inline_of(b"a"); 2];
    let two: *mut [ibv_sge] = &mut two;
    let mut list = [wr(1, send, two), flush_of(2), wr(3, send, two), publish(4)];
    assert_eq!(post(&mut qp, &mut list).0, 0);
    let written = format!("atomic_write 4 50 40 {:?}", 60u64.to_ne_bytes());
    let (flushed, complete) = ("flush 2 5 4 6 2 1", "complete");
    let expected = [
        "post_send",
        "start 0:0 ",
        flushed,
        complete,
        "post_send",
        "start 2:2 ",
        &written,
        complete,
    ];
    assert_eq!(seen(), expected);
    // The caller's list is restored.
    let next = |i: usize| list[i].next.cast_const();
    assert_eq!([next(0), next(2)], [&raw const list[1], &raw const list[3]]);
    assert!(next(3).is_null());

    ANSWER.set(libc::ENOMEM);
    assert_eq!(post(&mut qp, &mut [wr(1, send, two), flush_of(2)]), (libc::ENOMEM, Some(0)));
    seen();
    ANSWER.set(libc::ENOSPC);
    assert_eq!(post(&mut qp, &mut [flush_of(1), wr(2, send, two)]), (libc::ENOSPC, Some(0)));
    assert_eq!(seen(), ["start 4:2 ", "flush 1 5 4 6 2 1", "complete"]);
    ANSWER.set(libc::EIO);
    assert_eq!(post(&mut qp, &mut [flush_of(1), wr(2, send, two)]), (libc::EIO, None));
    seen();

    ANSWER.set(0);
    // A session carries one element.
    let one: *mut [ibv_sge] = &mut [inline_of(b"a")];
    assert_eq!(post(&mut qp, &mut [wr(1, send, one), flush_of(2), wr(3, send, two)]).0, 0);
    assert_eq!(seen().into_iter().filter(|what| what == "post_send").count(), 1);
}

/// R15.6, R15.12.
/// Proves R15.6, R15.12.
#[test]
fn a_refused_session_posted_nothing_except_on_librxe() {
    let refused = |qp_context, errno| {
        let mut qp = pair(RC, qp_context);
        ANSWER.set(errno);
        let of = || wr(1, ibv_wr_opcode::IBV_WR_SEND, &mut []);
        post(&mut qp, &mut [of(), of()])
    };
    for errno in [libc::ENOMEM, libc::EINVAL, -libc::EIO] {
        assert_eq!(refused(ptr::null_mut(), errno), (errno, Some(0)));
        assert_eq!(refused(on_rxe(), errno), (errno, None));
    }
    for errno in [libc::ENOSPC, -libc::ENOSPC] {
        assert_eq!(refused(on_rxe(), errno), (errno, Some(0)));
    }
}

/// A list of known work requests is the same session, and can be written again for code that needs
/// it in memory.
#[test]
fn known_work_requests_form_a_list() {
    use ibv_wr_opcode::*;
    let mut one = [ibv_sge { addr: 10, length: 20, lkey: 30 }];
    let one: *mut [ibv_sge] = &mut one;
    let all = || {
        let mut write = wr(2, IBV_WR_RDMA_WRITE, one);
        write.wr.rdma = raw::rdma_t { remote_addr: 40, rkey: 50 };
        [wr(1, IBV_WR_SEND_WITH_IMM, one), write, wr(3, IBV_WR_LOCAL_INV, one)]
    };
    let known = |wrs: &[ibv_send_wr; 3]| {
        let [a, b, c] = [0, 1, 2].map(|i| unsafe { Session::known(&wrs[i]) });
        (a, (b, (c, ())))
    };
    let of_known = |qp_context| {
        let mut qp = pair(RC, qp_context);
        unsafe { Session::post_known((&raw mut qp).cast(), &known(&all())) }
    };
    assert_eq!(post(&mut pair(RC, ptr::null_mut()), &mut all()), (0, None));
    let in_memory = seen();
    assert!(in_memory.iter().any(|call| call.starts_with("send_imm")), "{in_memory:?}");
    assert_eq!((of_known(ptr::null_mut()), seen()), (Some(0), in_memory.clone()));
    ANSWER.set(libc::ENOMEM);
    assert_eq!((of_known(ptr::null_mut()), seen()), (Some(libc::ENOMEM), in_memory));
    ANSWER.set(0);
    // Lists for librxe and XRC are built elsewhere.
    assert_eq!([of_known(on_rxe()), of_known(on_xrc())], [None; 2]);
    assert!(seen().is_empty());

    let mut list = known(&all());
    let mut room = MaybeUninit::uninit();
    unsafe {
        list.flag_last::<Session>(8);
        let first = list.show::<Session>(room.as_mut_ptr());
        let second = (*first).next;
        let third = (*second).next;
        assert!((*third).next.is_null());
        let ids = [first, second, third].map(|wr| ((*wr).wr_id, (*wr).opcode, (*wr).send_flags));
        let expected =
            [(1, IBV_WR_SEND_WITH_IMM, 2), (2, IBV_WR_RDMA_WRITE, 2), (3, IBV_WR_LOCAL_INV, 10)];
        assert_eq!(ids, expected);
        assert_eq!(((*second).wr.rdma.remote_addr, (*second).wr.rdma.rkey), (40, 50));
        assert_eq!((*first).imm_data_invalidated_rkey_union.imm_data, 77);
    }
}
