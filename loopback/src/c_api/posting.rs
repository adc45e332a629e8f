//! Extended posting: the functions of queue pairs that were created for it.
//!
//! A session gathers work requests in C's ordinary form, and its end reads them as `post_send`
//! does. Misuse is reported (`broken`): a session within another, a call outside a session, an
//! operation that the queue pair was not created for, setters that are missing, repeated or before
//! their operation. On devices with librxe's personality, requests that librxe sends wrongly are
//! reported too.

#![allow(unsafe_code)] // C functions on C objects.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::slice;

use super::{alone, errno_of, read_wr, verb};
use crate::shared::Call;
use crate::state::State;
use crate::words::Verb;
use crate::words::contract::broken;
use crate::words::transport::Transport;
use proverbs_sys::data::{apart, arm};
use proverbs_sys::persist::{WR_ATOMIC_WRITE, WR_FLUSH, flush_t, ibv_qp_ex_65};
use proverbs_sys::session::{ibv_data_buf, ibv_qp_ex, send_ops};
use proverbs_sys::types::ibv_wr_opcode::*;
use proverbs_sys::types::*;
use proverbs_sys::window::emit_bind;

/// The operations that take no data by a setter.
const WITHOUT_DATA: u64 =
    send_ops::LOCAL_INV | send_ops::BIND_MW | send_ops::FLUSH | send_ops::ATOMIC_WRITE;

/// A queue pair. Queue pairs of `ibv_create_qp` have no functions.
#[repr(C)]
pub(super) struct Pair {
    pub(super) ex: ibv_qp_ex_65,
    /// The operations that the queue pair was created for.
    ops: u64,
    session: Option<Vec<Built>>,
}

/// A work request that is being built, and the elements and inline bytes that it names.
struct Built {
    wr: ibv_send_wr,
    sges: Vec<ibv_sge>,
    _bytes: Vec<Vec<u8>>,
    has_data: bool,
    has_address: bool,
}

/// The operations of a transport.
pub(super) fn known(transport: Transport) -> u64 {
    use send_ops::*;
    const OF_UD: u64 = SEND | SEND_WITH_IMM;
    const OF_UC: u64 = OF_UD | RDMA_WRITE | RDMA_WRITE_WITH_IMM;
    const OF_WINDOWS: u64 = LOCAL_INV | BIND_MW | SEND_WITH_INV;
    const ATOMICS: u64 = ATOMIC_CMP_AND_SWP | ATOMIC_FETCH_AND_ADD;
    match transport {
        Transport::Rc => OF_UC | RDMA_READ | ATOMICS | OF_WINDOWS | FLUSH | ATOMIC_WRITE,
        Transport::XrcSend => OF_UC | RDMA_READ | ATOMICS | SEND_WITH_INV,
        Transport::XrcRecv => 0,
        Transport::Uc => OF_UC,
        Transport::Ud => OF_UD,
        Transport::Srd => OF_UC | RDMA_READ,
    }
}

impl Pair {
    pub(super) fn ordinary(qp: ibv_qp) -> Pair {
        let of_24 = ibv_qp_ex { qp_base: qp, ..zeroed() };
        let ex = ibv_qp_ex_65 { of_24, ..zeroed() };
        Pair { ex, ops: 0, session: None }
    }

    /// Makes this a queue pair with extended posting. Every function is installed; one that was not
    /// requested reports its use.
    pub(super) fn extend(&mut self, ops: u64) {
        self.ops = ops;
        let of_24 = ibv_qp_ex {
            qp_base: self.ex.of_24.qp_base,
            wr_atomic_cmp_swp: Some(atomic_cmp_swp),
            wr_atomic_fetch_add: Some(atomic_fetch_add),
            wr_bind_mw: Some(bind_mw),
            wr_local_inv: Some(local_inv),
            wr_rdma_read: Some(rdma_read),
            wr_rdma_write: Some(rdma_write),
            wr_rdma_write_imm: Some(rdma_write_imm),
            wr_send: Some(send),
            wr_send_imm: Some(send_imm),
            wr_send_inv: Some(send_inv),
            wr_set_ud_addr: Some(set_ud_addr),
            wr_set_xrc_srqn: Some(set_xrc_srqn),
            wr_set_inline_data: Some(set_inline_data),
            wr_set_inline_data_list: Some(set_inline_data_list),
            wr_set_sge: Some(set_sge),
            wr_set_sge_list: Some(set_sge_list),
            wr_start: Some(start),
            wr_complete: Some(complete),
            wr_abort: Some(abort),
            ..zeroed()
        };
        let (wr_atomic_write, wr_flush) = (Some(atomic_write as _), Some(flush as _));
        self.ex = ibv_qp_ex_65 { of_24, wr_atomic_write, wr_flush };
    }
}

/// Checks that no session is open when another verb posts on the queue pair or destroys it.
///
/// # Safety
/// `qp` is live.
pub(super) unsafe fn check_closed(qp: *mut ibv_qp) {
    // SAFETY: the queue pair is live, and was made as a `Pair`.
    if unsafe { (*qp.cast::<Pair>()).session.is_some() } {
        broken("a queue pair is used within an open session");
    }
}

unsafe extern "C" fn start(qp: *mut ibv_qp_ex) {
    let pair = qp.cast::<Pair>();
    // SAFETY: `qp` is live, and used by one caller (the verb's contract).
    unsafe {
        check_closed(qp.cast());
        (*pair).session = Some(Vec::new());
    }
}

/// The work requests of the open session.
///
/// # Safety
/// `qp` is live, and used by one caller.
unsafe fn session<'a>(qp: *mut ibv_qp_ex) -> Option<&'a mut Vec<Built>> {
    // SAFETY: the queue pair is live, was made as a `Pair`, and one caller uses it.
    let session = unsafe { &mut (*qp.cast::<Pair>()).session };
    if session.is_none() {
        broken("a work request is built outside of a session");
    }
    session.as_mut()
}

/// Begins a work request of this operation, whose operands `emit` writes.
///
/// # Safety
/// `qp` is live, and used by one caller.
unsafe fn begin(
    qp: *mut ibv_qp_ex,
    (op, opcode): (u64, ibv_wr_opcode::Type),
    emit: impl FnOnce(*mut ibv_send_wr),
) {
    // SAFETY: the queue pair is live, and was made as a `Pair`.
    let (ops, wr_id, send_flags, qp_type) =
        unsafe { ((*qp.cast::<Pair>()).ops, (*qp).wr_id, (*qp).wr_flags, (*qp).qp_base.qp_type) };
    if ops & op == 0 {
        broken("the operation is not in send_ops_flags");
        return;
    }
    // SAFETY: `qp` is live, and its session has no other user (this function's contract).
    let Some(session) = (unsafe { session(qp) }) else { return };
    check_whole(session.last());
    let mut wr = ibv_send_wr { wr_id, opcode, send_flags, ..zeroed() };
    emit(&raw mut wr);
    session.push(Built {
        wr,
        sges: Vec::new(),
        _bytes: Vec::new(),
        has_data: op & WITHOUT_DATA != 0,
        has_address: ![
            ibv_qp_type::IBV_QPT_UD,
            ibv_qp_type::IBV_QPT_XRC_SEND,
            ibv_qp_type::IBV_QPT_DRIVER,
        ]
        .contains(&qp_type),
    });
}

/// Checks that a work request has its data, on UD its address, and on XRC its shared receive queue,
/// before the next one is built.
fn check_whole(built: Option<&Built>) {
    if built.is_some_and(|built| !built.has_data || !built.has_address) {
        broken("a work request of a session lacks its data or its address");
    }
}

macro_rules! operations {
    ($($name:ident $op:ident $opcode:ident ($($argument:ident: $type:ty),*) |$wr:ident| $emit:block)*) => {$(
        unsafe extern "C" fn $name(qp: *mut ibv_qp_ex $(, $argument: $type)*) {
            let emit = |$wr: *mut ibv_send_wr| $emit;
            // SAFETY: callers of a queue pair's function pass that queue pair, which is live, and
            // one thread at a time builds on it (the verb's contract). `emit` writes to the local
            // that `begin` passes.
            unsafe { begin(qp, (send_ops::$op, $opcode), emit) };
        }
    )*};
}

operations! {
    send SEND IBV_WR_SEND () |_wr| {}
    send_imm SEND_WITH_IMM IBV_WR_SEND_WITH_IMM (imm: u32) |wr| { word(wr, imm) }
    send_inv SEND_WITH_INV IBV_WR_SEND_WITH_INV (rkey: u32) |wr| { word(wr, rkey) }
    local_inv LOCAL_INV IBV_WR_LOCAL_INV (rkey: u32) |wr| { word(wr, rkey) }
    rdma_write RDMA_WRITE IBV_WR_RDMA_WRITE (rkey: u32, addr: u64) |wr| { remote(wr, addr, rkey) }
    rdma_read RDMA_READ IBV_WR_RDMA_READ (rkey: u32, addr: u64) |wr| { remote(wr, addr, rkey) }
    rdma_write_imm RDMA_WRITE_WITH_IMM IBV_WR_RDMA_WRITE_WITH_IMM
        (rkey: u32, addr: u64, imm: u32) |wr| { remote(wr, addr, rkey); word(wr, imm) }
    atomic_cmp_swp ATOMIC_CMP_AND_SWP IBV_WR_ATOMIC_CMP_AND_SWP
        (rkey: u32, addr: u64, compare: u64, swap: u64) |wr| { atomic(wr, addr, rkey, [compare, swap]) }
    atomic_fetch_add ATOMIC_FETCH_AND_ADD IBV_WR_ATOMIC_FETCH_AND_ADD
        (rkey: u32, addr: u64, add: u64) |wr| { atomic(wr, addr, rkey, [add, 0]) }
    atomic_write ATOMIC_WRITE WR_ATOMIC_WRITE
        (rkey: u32, addr: u64, value: *const c_void) |wr| {
            // SAFETY: 8 bytes are readable there (the verb's contract), at any alignment.
            let value = unsafe { value.cast::<u64>().read_unaligned() };
            atomic(wr, addr, rkey, [value, 0])
        }
    flush FLUSH WR_FLUSH
        (rkey: u32, addr: u64, len: usize, placement: u8, level: u8) |wr| {
            let operands = flush_t { remote_addr: addr, len: len as u64, rkey, placement, level };
            // SAFETY: `begin` passes a local.
            unsafe { arm::<flush_t>(wr).write(operands) }
        }
    bind_mw BIND_MW IBV_WR_BIND_MW
        (mw: *mut raw::ibv_mw, rkey: u32, info: *const raw::ibv_mw_bind_info) |wr| {
            // SAFETY: `info` is readable (the verb's contract), and `begin` passes `wr`.
            unsafe { emit_bind(wr, raw::bind_mw_t { mw, rkey, bind_info: info.read() }) }
        }
}

fn word(wr: *mut ibv_send_wr, word: u32) {
    // SAFETY: `begin` passes a local.
    unsafe { proverbs_sys::data::emit_word(wr, word) };
}

fn remote(wr: *mut ibv_send_wr, remote_addr: u64, rkey: u32) {
    // SAFETY: `begin` passes a local.
    unsafe { arm::<raw::rdma_t>(wr).write(raw::rdma_t { remote_addr, rkey }) };
}

fn atomic(wr: *mut ibv_send_wr, remote_addr: u64, rkey: u32, [compare_add, swap]: [u64; 2]) {
    let operands = raw::atomic_t { remote_addr, compare_add, swap, rkey };
    // SAFETY: `begin` passes a local.
    unsafe { arm::<raw::atomic_t>(wr).write(operands) };
}

/// The work request that a setter applies to.
///
/// # Safety
/// `qp` is live, and used by one caller.
unsafe fn last<'a>(qp: *mut ibv_qp_ex) -> Option<&'a mut Built> {
    // SAFETY: `qp` is live, and its session has no other user (this function's contract).
    let last = unsafe { session(qp) }?.last_mut();
    if last.is_none() {
        broken("a setter before any operation of its session");
    }
    last
}

unsafe extern "C" fn set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: `qp` is the live queue pair whose function this is, and one thread builds on it (the
    // verb's contract), so its session has no other user.
    let Some(last) = (unsafe { last(qp) }) else { return };
    if mem::replace(&mut last.has_address, true) {
        broken("a work request already has an address, or is on a connected queue pair");
    }
    let ud = raw::ud_t { ah, remote_qpn: qpn, remote_qkey: qkey };
    let wr = &raw mut last.wr;
    let is_rdma = proverbs_sys::data::is_rdma(last.wr.opcode);
    // SAFETY: the work request belongs to the session.
    unsafe { if is_rdma { apart(wr) } else { arm::<raw::ud_t>(wr) }.write(ud) };
}

unsafe extern "C" fn set_xrc_srqn(qp: *mut ibv_qp_ex, srqn: u32) {
    // SAFETY: `qp` is the live queue pair whose function this is, and one thread builds on it (the
    // verb's contract). `qp_type` is written at creation and is not part of the session.
    let (last, qp_type) = unsafe { (last(qp), (*qp).qp_base.qp_type) };
    let Some(last) = last else { return };
    let is_named = mem::replace(&mut last.has_address, true);
    if is_named || qp_type != ibv_qp_type::IBV_QPT_XRC_SEND {
        broken("a work request already names a shared receive queue, or is not XRC");
    }
    last.wr.qp_type.xrc.remote_srqn = srqn;
}

/// Takes the elements of a work request. Inline data comes with the bytes that the elements name.
///
/// # Safety
/// `qp` is live, and used by one caller.
unsafe fn set(qp: *mut ibv_qp_ex, sges: Vec<ibv_sge>, inline: Option<Vec<Vec<u8>>>) {
    // SAFETY: `qp` is live, and the caller builds on it alone (this function's contract).
    let Some(last) = (unsafe { last(qp) }) else { return };
    if mem::replace(&mut last.has_data, true) {
        broken("a work request already has its data, or takes none");
    }
    let flag = ibv_send_flags::IBV_SEND_INLINE.0;
    if inline.is_none() && last.wr.send_flags & flag != 0 {
        broken("elements of a work request whose flags say inline");
    }
    // SAFETY: `qp` is live (this function's contract).
    if unsafe { verb(qp.cast::<ibv_qp>(), |state, _| state.habits.is_rxe()) } {
        if sges.len() > 1 {
            broken("librxe sends wrong bytes for several elements (R15.10, R15.11)");
        }
        if inline.is_some() && last.wr.send_flags & flag == 0 {
            broken("librxe requires IBV_SEND_INLINE for inline data (R15.8)");
        }
    }
    if let Some(bytes) = inline {
        last.wr.send_flags |= flag;
        last._bytes = bytes;
    }
    last.sges = sges;
}

unsafe extern "C" fn set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: `qp` is the live queue pair whose function this is, and one thread builds on it (the
    // verb's contract). The element is only copied.
    unsafe { set(qp, vec![ibv_sge { addr, length, lkey }], None) };
}

unsafe extern "C" fn set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    let list = match count {
        0 => Vec::new(),
        // SAFETY: the list has `count` elements (the verb's contract).
        _ => unsafe { slice::from_raw_parts(list, count) }.to_vec(),
    };
    // SAFETY: `qp` is the live queue pair whose function this is, and one thread builds on it (the
    // verb's contract). The list is a copy.
    unsafe { set(qp, list, None) };
}

unsafe extern "C" fn set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: `qp` is live and built on by one thread, and the `length` bytes at `addr` are
    // readable (the verb's contract). The list is a local with one piece.
    unsafe { set_inline_data_list(qp, 1, &ibv_data_buf { addr, length }) };
}

/// Copies the bytes here, since the program may change its own before the session ends.
unsafe extern "C" fn set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    let copy = |piece: &ibv_data_buf| match piece.length {
        0 => Vec::new(),
        // SAFETY: each piece is readable (the verb's contract).
        length => unsafe { slice::from_raw_parts(piece.addr.cast::<u8>(), length) }.to_vec(),
    };
    let bytes: Vec<Vec<u8>> = match count {
        0 => Vec::new(),
        // SAFETY: the list has `count` pieces (the verb's contract).
        _ => unsafe { slice::from_raw_parts(list, count) }.iter().map(copy).collect(),
    };
    let element = |bytes: &Vec<u8>| {
        let addr = bytes.as_ptr().expose_provenance() as u64;
        ibv_sge { addr, length: bytes.len() as u32, lkey: 0 }
    };
    let sges = bytes.iter().map(element).collect();
    // SAFETY: `qp` is the live queue pair whose function this is, and one thread builds on it (the
    // verb's contract). The elements point into `bytes`, which goes with them.
    unsafe { set(qp, sges, Some(bytes)) };
}

/// Ends the session, and returns its work requests.
///
/// # Safety
/// `qp` is live, and used by one caller.
unsafe fn end(qp: *mut ibv_qp_ex) -> Vec<Built> {
    // SAFETY: the queue pair is live, and was made as a `Pair`.
    let session = unsafe { (*qp.cast::<Pair>()).session.take() };
    if session.is_none() {
        broken("a session is ended that was not started");
    }
    session.unwrap_or_default()
}

unsafe extern "C" fn abort(qp: *mut ibv_qp_ex) {
    // SAFETY: `qp` is the live queue pair whose function this is, and the thread that started the
    // session ends it (the verb's contract).
    drop(unsafe { end(qp) });
}

/// Posts the whole session or nothing (R15.6). Only librxe may post it and still return an error
/// (R15.12).
unsafe extern "C" fn complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: `qp` is the live queue pair whose function this is, and the thread that started the
    // session ends it (the verb's contract).
    let mut built = unsafe { end(qp) };
    check_whole(built.last());
    for built in &mut built {
        built.wr.sg_list = built.sges.as_mut_ptr();
        built.wr.num_sge = built.sges.len() as i32;
    }
    let qp = qp.cast::<ibv_qp>();
    let post = |state: &mut State, number| {
        let zero = state.habits.length_of_zero();
        let shape = match state.check_sends(number, built.len()) {
            Err(libc::ENOMEM) if state.habits.is_rxe() => return Err(libc::ENOSPC),
            checked => checked?,
        };
        let read = |built: &Built| {
            // SAFETY: this file built the work request, for an operation of this queue pair.
            unsafe { read_wr::send(ptr::from_ref(&built.wr), &shape, qp, zero) }
        };
        let sends = built.iter().map(read).collect::<Verb<Vec<_>>>()?;
        let said = state.whole_fault(number, built.len())?;
        state.push_sends(number, sends);
        said
    };
    // SAFETY: `qp` is live (the verb's contract).
    errno_of(unsafe { alone(qp, Call::Send, post) })
}
