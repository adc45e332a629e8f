//! The data path: the functions of `ibv_context.ops`.

#![allow(unsafe_code)] // C functions on C objects.

use std::ffi::c_int;
use std::ptr;

use super::window::{alloc_mw, bind_mw, dealloc_mw};
use super::{Object, alone, errno_of, read_wr, verb, write_wc};
use crate::objects::cq::Arm;
use crate::objects::faults::Stop;
use crate::shared::Call;
use crate::state::State;
use crate::words::contract::broken;
use crate::words::world;
use proverbs_sys::data::Link;
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::terms::wc::Direction;
use proverbs_sys::types::*;

/// Every function that an inline verb of verbs.h calls; unsupported ones return an error. The other
/// entries are only called by programs built against older versions of libibverbs.
pub(super) fn table() -> ibv_context_ops {
    ibv_context_ops {
        alloc_mw: Some(alloc_mw),
        bind_mw: Some(bind_mw),
        dealloc_mw: Some(dealloc_mw),
        poll_cq: Some(poll_cq),
        req_notify_cq: Some(req_notify_cq),
        post_srq_recv: Some(post_srq_recv),
        post_send: Some(post_send),
        post_recv: Some(post_recv),
        ..zeroed()
    }
}

/// Posts a list. The requests before the first refused one are accepted. `*bad_wr` is the refused
/// one, or null if the outcome is unknown.
///
/// # Safety
/// `object` is a live object of this provider, `first` starts a list that ends with a null `next`,
/// and `bad_wr` is null or writable.
unsafe fn post_list<T: Object, W: Link>(
    object: *mut T,
    call: Call,
    first: *mut W,
    bad_wr: *mut *mut W,
    mut accept: impl FnMut(&mut State, u32, *mut W, bool) -> Result<(), Stop>,
) -> c_int {
    let post = |state: &mut State, number: u32| {
        if first.is_null() || bad_wr.is_null() {
            broken("ibv_post_send or ibv_post_recv with a null list or a null bad_wr");
            return libc::EINVAL;
        }
        let (mut wr, mut unknown) = (first, None);
        while !wr.is_null() {
            match accept(state, number, wr, unknown.is_none()) {
                Ok(()) => {}
                Err(Stop::Refused(errno)) if unknown.is_none() => {
                    // SAFETY: `bad_wr` is not null (checked above), hence writable.
                    unsafe { *bad_wr = wr };
                    return errno;
                }
                Err(Stop::Refused(_)) => break,
                Err(Stop::Unknown { errno, taken }) => {
                    unknown = Some(errno);
                    if taken {
                        continue;
                    }
                    break;
                }
            }
            // SAFETY: `wr` is not null, hence a request of the list.
            wr = unsafe { (*Link::head(wr)).next };
        }
        if unknown.is_some() {
            // SAFETY: `bad_wr` is not null (checked above), hence writable.
            unsafe { *bad_wr = ptr::null_mut() };
        }
        unknown.unwrap_or(0)
    };
    // SAFETY: the object is live (this function's contract).
    unsafe { alone(object, call, post) }
}

unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let accept = |state: &mut State, number, wr: *mut ibv_send_wr, may_fail| {
        let zero = state.habits.length_of_zero();
        let shape = state.check_sends(number, 1)?;
        // SAFETY: `post_list` passes a request of the list, which is for this QP.
        let send = unsafe { read_wr::send(wr, &shape, qp, zero) }?;
        if send.op.is_of_persistence() {
            broken("ibv_post_send does not support FLUSH and ATOMIC_WRITE; use ibv_wr_post(3)");
            return Err(libc::EINVAL.into());
        }
        // SAFETY: `post_list` passes a request of the list.
        let is_fenced = unsafe { (*wr).send_flags } & ibv_send_flags::IBV_SEND_FENCE.0 != 0;
        if state.world.link == world::Link::Iwarp && !send.is_of_iwarp(is_fenced) {
            return Err(libc::EINVAL.into());
        }
        if may_fail {
            state.post_fault(Some(number), Direction::Send)?;
        }
        if state.never_flushes(number) {
            state.strand(number, Direction::Send);
            return Ok(());
        }
        state.push_sends(number, [send]);
        Ok(())
    };
    // SAFETY: `qp` is live, `wr` is a list, ended by a null `next`, and `bad_wr` is writable (the
    // verb's contract).
    unsafe {
        super::posting::check_closed(qp);
        post_list(qp, Call::Send, wr, bad_wr, accept)
    }
}

unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let accept = |state: &mut State, number, wr: *mut ibv_recv_wr, may_fail| {
        let zero = state.habits.length_of_zero();
        let queue = state.qps.get(&number).ok_or(libc::EINVAL)?;
        if queue.shape.srq.is_some() || queue.phase == Phase::Reset {
            return Err(libc::EINVAL.into());
        }
        if queue.recv_slots >= queue.shape.cap.max_recv_wr {
            return Err(libc::ENOMEM.into());
        }
        // SAFETY: `post_list` passes a request of the list.
        let recv = unsafe { read_wr::recv(wr, queue.shape.cap.max_recv_sge, zero) }?;
        state.check_recv(&recv)?;
        if may_fail {
            state.post_fault(Some(number), Direction::Receive)?;
        }
        if state.never_flushes(number) {
            state.strand(number, Direction::Receive);
            return Ok(());
        }
        let queue = state.qps.get_mut(&number).ok_or(libc::EINVAL)?;
        queue.recvs.push_back(recv);
        queue.recv_slots += 1;
        state.active.insert(number);
        Ok(())
    };
    // SAFETY: `qp` is live, `wr` is a list, ended by a null `next`, and `bad_wr` is writable (the
    // verb's contract).
    unsafe { post_list(qp, Call::Receive, wr, bad_wr, accept) }
}

unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let accept = |state: &mut State, number, wr: *mut ibv_recv_wr, may_fail| {
        let zero = state.habits.length_of_zero();
        let queue = state.srqs.get(&number).ok_or(libc::EINVAL)?;
        if !queue.has_room() {
            return Err(libc::ENOMEM.into());
        }
        // SAFETY: `post_list` passes a request of the list.
        let recv = unsafe { read_wr::recv(wr, queue.max_sge, zero) }?;
        state.check_recv(&recv)?;
        if may_fail {
            state.post_fault(None, Direction::Receive)?;
        }
        state.srqs.get_mut(&number).ok_or(libc::EINVAL)?.push(recv);
        Ok(())
    };
    // SAFETY: `srq` is live, `wr` is a list, ended by a null `next`, and `bad_wr` is writable (the
    // verb's contract).
    unsafe { post_list(srq, Call::ReceiveShared, wr, bad_wr, accept) }
}

unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    if num_entries <= 0 || wc.is_null() {
        broken("ibv_poll_cq for no completions, or with a null array");
        return 0;
    }
    let poll = |state: &mut State, number| {
        state.check_ended(number);
        let mut polled = 0;
        while polled < num_entries {
            match state.poll(number) {
                Ok(Some(entry)) => {
                    // SAFETY: `polled` is below `num_entries`, the length of the caller's array.
                    // Its entries are writable and need not be initialised.
                    unsafe {
                        let slot = wc.add(polled as usize);
                        write_wc::write(slot, &entry, state.habits.fill());
                    }
                    polled += 1;
                }
                Ok(None) => break,
                Err(_) => return state.habits.poll_error(),
            }
        }
        polled
    };
    // SAFETY: `cq` is live (the verb's contract).
    unsafe { alone(cq, Call::Poll, poll) }
}

unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    if !(0..=1).contains(&solicited_only) {
        broken("solicited_only must be 0 or 1");
    }
    let arm = if solicited_only != 0 { Arm::Solicited } else { Arm::Any };
    // SAFETY: `cq` is live (the verb's contract).
    errno_of(unsafe { verb(cq, |state, cq| state.arm(cq, arm)) })
}
