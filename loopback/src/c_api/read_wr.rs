//! Reads work requests field by field. Only fields to which the opcode and flags give a meaning may
//! be read; the others may be uninitialised.

#![allow(unsafe_code)] // C structs behind raw pointers, and unions.

use std::ffi::c_int;
use std::ptr;
use std::slice;

use super::{Object, same_context, window};
use crate::objects::qp::Shape;
use crate::words::contract::broken;
use crate::words::transport::Transport;
use crate::words::wr::{Bind, Doom, Extra, Op, Payload, Recv, Remote, Send, Sge, To};
use crate::words::{Verb, limits, wr};
use proverbs_sys::data::apart;
use proverbs_sys::persist::{WR_ATOMIC_WRITE, WR_FLUSH, flush_t, placement, selectivity};
use proverbs_sys::types::*;

/// Reads a field through a raw pointer.
macro_rules! get {
    ($place:expr) => {
        // SAFETY: the work request is readable (the contract of the function around this), and
        // opcode and flags give this field a meaning, so the poster has initialised it.
        unsafe { $place }
    };
}

/// Reads a receive, with the checks that C makes during the post. `zero` is the value of an
/// element's length of 0.
///
/// # Safety
/// `wr` is a receive work request as described in ibv_post_recv(3).
pub(super) unsafe fn recv(wr: *const ibv_recv_wr, max_sge: u32, zero: u32) -> Verb<Recv> {
    let num_sge = get!((*wr).num_sge);
    let sg_list = if num_sge == 0 { ptr::null() } else { get!((*wr).sg_list).cast_const() };
    // SAFETY: `sg_list` has `num_sge` elements (this function's contract).
    let list = unsafe { list(sg_list, num_sge, max_sge, zero) }?;
    Ok(Recv { wr_id: get!((*wr).wr_id), list })
}

/// Like `recv`, for a send. Inline data is copied.
///
/// # Safety
/// `wr` is a send work request for the transport of `shape`, as described in ibv_post_send(3).
pub(super) unsafe fn send(
    wr: *const ibv_send_wr,
    shape: &Shape,
    qp: *mut ibv_qp,
    zero: u32,
) -> Verb<Send> {
    use ibv_wr_opcode::*;
    let opcode = get!((*wr).opcode);
    let flags = get!((*wr).send_flags);
    let has = |flag: ibv_send_flags| flags & flag.0 != 0;
    let connected = shape.transport != Transport::Ud;
    let reliable = shape.transport.is_reliable();
    let is_rc = shape.transport == Transport::Rc;
    let is_srd = shape.transport == Transport::Srd;

    // SAFETY: `wr` is readable. No reference is made; every arm of the union begins where the union
    // does.
    let arm = unsafe { &raw const (*wr).wr };
    let rdma = arm.cast::<raw::rdma_t>();
    let atomic = arm.cast::<raw::atomic_t>();
    // SAFETY: both fields of the union are u32, at the union's address.
    let word = unsafe { &raw const (*wr).imm_data_invalidated_rkey_union }.cast::<u32>();
    let op = match opcode {
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM if connected => Op::Send,
        IBV_WR_SEND_WITH_INV if reliable => Op::Send,
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM if is_srd => Op::Send,
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM => {
            // SAFETY: a UD send has its destination in its union arm.
            let To { ah, qpn, qkey } = unsafe { destination(arm.cast::<raw::ud_t>(), qp) }?;
            Op::Datagram { ah, qpn, qkey }
        }
        IBV_WR_LOCAL_INV if is_rc => Op::Invalidate(get!(*word)),
        IBV_WR_BIND_MW if is_rc => {
            // SAFETY: `wr` is readable, and no reference is made.
            let arm = unsafe { &raw const (*wr).bind_mw_tso_union }.cast::<raw::bind_mw_t>();
            let raw::bind_mw_t { mw, rkey, bind_info } = get!(arm.read());
            // SAFETY: window and region are live (this function's contract).
            let bind = unsafe { window::bind(qp, mw, rkey, &bind_info) };
            // SAFETY: the window is live, by the same contract.
            let is_type_2 = unsafe { (*mw).type_ } == proverbs_sys::window::kind::IBV_MW_TYPE_2;
            Op::Bind(bind.filter(|_| is_type_2).ok_or(libc::EINVAL)?)
        }
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM if connected || is_srd => {
            Op::Write(Remote { addr: get!((*rdma).remote_addr), rkey: get!((*rdma).rkey) })
        }
        IBV_WR_RDMA_READ if reliable || is_srd => {
            Op::Read(Remote { addr: get!((*rdma).remote_addr), rkey: get!((*rdma).rkey) })
        }
        IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD if reliable => {
            let at = Remote { addr: get!((*atomic).remote_addr), rkey: get!((*atomic).rkey) };
            let operand = get!((*atomic).compare_add);
            if opcode == IBV_WR_ATOMIC_CMP_AND_SWP {
                Op::CompareSwap { at, expected: operand, new: get!((*atomic).swap) }
            } else {
                Op::FetchAdd { at, add: operand }
            }
        }
        WR_ATOMIC_WRITE if is_rc => {
            let at = Remote { addr: get!((*atomic).remote_addr), rkey: get!((*atomic).rkey) };
            Op::AtomicWrite { at, bytes: get!((*atomic).compare_add).to_ne_bytes() }
        }
        WR_FLUSH if is_rc => {
            let flush_t { remote_addr: addr, len, rkey, placement: to, level } =
                get!(*arm.cast::<flush_t>());
            let is_known = to & !(placement::GLOBAL | placement::PERSISTENT) == 0 && to != 0;
            if !is_known || ![selectivity::RANGE, selectivity::MR].contains(&level) {
                broken("a FLUSH without a remote address or of no bytes (ibv_wr_post(3))");
            }
            let whole = level == selectivity::MR;
            Op::Flush { at: Remote { addr, rkey }, length: len, placement: to, whole }
        }
        _ => return Err(libc::EINVAL),
    };
    check_flags(flags, &op, opcode, shape.transport)?;
    let to = match (is_srd, op.is_rdma()) {
        (false, _) => None,
        // SAFETY: on SRD each work request has its destination: a SEND in its union arm,
        (true, false) => Some(unsafe { destination(arm.cast::<raw::ud_t>(), qp) }?),
        // SAFETY: and an operation with a remote address in another field.
        (true, true) => Some(unsafe { destination(apart(wr.cast_mut()), qp) }?),
    };
    let extra = match opcode {
        IBV_WR_SEND_WITH_IMM | IBV_WR_RDMA_WRITE_WITH_IMM => Extra::Imm(get!(*word)),
        IBV_WR_SEND_WITH_INV => Extra::Invalidate(get!(*word)),
        _ => Extra::Nothing,
    };

    let num_sge = get!((*wr).num_sge);
    let sg_list = if num_sge == 0 { ptr::null() } else { get!((*wr).sg_list).cast_const() };
    if (op.is_of_window() || op.is_of_persistence()) && num_sge != 0 {
        return Err(libc::EINVAL);
    }
    let is_inline = has(ibv_send_flags::IBV_SEND_INLINE);
    // The processor copies inline data, and takes 0 as 0.
    let zero = if is_inline { 0 } else { zero };
    // SAFETY: `sg_list` has `num_sge` elements (this function's contract).
    let list = unsafe { list(sg_list, num_sge, shape.cap.max_send_sge, zero) }?;
    let payload = if is_inline {
        if wr::length(&list) > u64::from(shape.cap.max_inline_data) {
            return Err(libc::EINVAL);
        }
        // SAFETY: the elements of an inline send name memory that is readable during the post.
        Payload::Inline(unsafe { inline(&list) })
    } else {
        if let Op::CompareSwap { at, .. } | Op::FetchAdd { at, .. } = op {
            if at.addr % 8 != 0 || wr::length(&list) < 8 {
                return Err(libc::EINVAL);
            }
        }
        Payload::List(list)
    };
    let is_initiator = shape.transport == Transport::XrcSend;
    let srqn = is_initiator.then(|| get!((*wr).qp_type.xrc.remote_srqn));
    Ok(Send {
        wr_id: get!((*wr).wr_id),
        op,
        to,
        extra,
        signaled: shape.sig_all || has(ibv_send_flags::IBV_SEND_SIGNALED),
        solicited: has(ibv_send_flags::IBV_SEND_SOLICITED),
        srqn,
        payload,
        doom: Doom::Undecided,
    })
}

/// Turns a bind of a type 1 window into a send.
pub(super) fn bind(wr_id: u64, flags: u32, shape: &Shape, bind: Bind) -> Verb<Send> {
    if shape.transport != Transport::Rc {
        return Err(libc::EINVAL);
    }
    let op = Op::Bind(bind);
    check_flags(flags, &op, ibv_wr_opcode::IBV_WR_BIND_MW, shape.transport)?;
    Ok(Send {
        wr_id,
        op,
        to: None,
        extra: Extra::Nothing,
        signaled: shape.sig_all || flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0,
        solicited: false,
        srqn: None,
        payload: Payload::List(Vec::new()),
        doom: Doom::Undecided,
    })
}

/// The destination of a datagram, or of a message on SRD.
///
/// # Safety
/// `ud` is readable, and its address handle is live or null.
unsafe fn destination(ud: *const raw::ud_t, qp: *mut ibv_qp) -> Verb<To> {
    let ah = get!((*ud).ah);
    // SAFETY: the address handle is live or null (this function's contract).
    if ah.is_null() || !unsafe { same_context(qp, ah) } {
        return Err(libc::EINVAL);
    }
    // SAFETY: the address handle is live: it is not null.
    let (_, ah) = unsafe { ibv_ah::locate(ah) };
    let qpn = get!((*ud).remote_qpn);
    if qpn > limits::BITS_24 {
        return Err(libc::EINVAL);
    }
    Ok(To { ah, qpn, qkey: get!((*ud).remote_qkey) })
}

/// Checks that each flag is known, and has a meaning for the opcode on the transport
/// (ibv_post_send(3), R2.1, R2.5).
fn check_flags(flags: u32, op: &Op, opcode: ibv_wr_opcode::Type, transport: Transport) -> Verb {
    use ibv_send_flags as flag;
    let fence = if transport.is_reliable() { flag::IBV_SEND_FENCE.0 } else { 0 };
    let solicits = matches!(op, Op::Send | Op::Datagram { .. })
        || opcode == ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
    let solicited =
        if solicits && transport != Transport::Srd { flag::IBV_SEND_SOLICITED.0 } else { 0 };
    let is_without_data = op.is_of_window() || op.is_of_persistence();
    let inline = if op.fetches() || is_without_data { 0 } else { flag::IBV_SEND_INLINE.0 };
    let legal = fence | solicited | inline | flag::IBV_SEND_SIGNALED.0;
    if flags & !legal == 0 { Ok(()) } else { Err(libc::EINVAL) }
}

/// # Safety
/// `sg_list` points to `num_sge` elements, if `num_sge` is positive.
unsafe fn list(sg_list: *const ibv_sge, num_sge: c_int, max: u32, zero: u32) -> Verb<Vec<Sge>> {
    let count = u32::try_from(num_sge).ok().filter(|&count| count <= max).ok_or(libc::EINVAL)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    if sg_list.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the list has that many elements (this function's contract), and no one writes to it
    // during the post.
    let list = unsafe { slice::from_raw_parts(sg_list, count as usize) };
    let length = |length| if length == 0 { zero } else { length };
    Ok(list
        .iter()
        .map(|sge| Sge { addr: sge.addr, length: length(sge.length), lkey: sge.lkey })
        .collect())
}

/// Copies inline data, which is in no region. Only here is an address made into a pointer: the
/// poster exposed it by writing it into the element.
///
/// # Safety
/// Each element names readable memory.
unsafe fn inline(list: &[Sge]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for sge in list.iter().filter(|sge| sge.length > 0) {
        let data = ptr::with_exposed_provenance::<u8>(sge.addr as usize);
        // SAFETY: the element names readable memory (this function's contract).
        bytes.extend_from_slice(unsafe { slice::from_raw_parts(data, sge.length as usize) });
    }
    bytes
}
