//! Shared receive queues and queue pairs.
#![allow(unsafe_code)] // C objects, and attributes read and written through pointers.

use std::ffi::c_int;
use std::ptr;

use super::super::fabric::State;
use super::super::qp::{Shape, Transport};
use super::{Object, attr, destroy, errno_of, hand_out, locate, same_context, verb};
use crate::sys::control::Created;
use crate::sys::types::*;

pub(in super::super) unsafe fn create_srq(
    pd: *mut ibv_pd,
    init_at: *mut ibv_srq_init_attr,
) -> Created<ibv_srq> {
    // SAFETY: the caller gives a readable `ibv_srq_init_attr`.
    let init = unsafe { init_at.read() };
    let (max_wr, max_sge) = (init.attr.max_wr, init.attr.max_sge);
    // SAFETY: the caller's contract.
    let created = unsafe { verb(pd, |state, pd| state.create_srq(pd, max_wr, max_sge)) };
    let (handle, max_wr, max_sge) = created?;
    // SAFETY: `init` is writable too.
    unsafe { (*init_at).attr = ibv_srq_attr { max_wr, max_sge, ..init.attr } };
    // SAFETY: a live PD.
    let context = unsafe { (*pd).context };
    let srq = hand_out(ibv_srq {
        context,
        srq_context: init.srq_context,
        pd,
        handle,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    });
    // SAFETY: the caller's contract.
    unsafe { verb(pd, |state, _| state.name_srq(handle, srq)) };
    Ok(srq)
}

pub(in super::super) unsafe fn modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    const MAX_WR: u32 = ibv_srq_attr_mask::IBV_SRQ_MAX_WR.0;
    const LIMIT: u32 = ibv_srq_attr_mask::IBV_SRQ_LIMIT.0;
    let mask = mask as u32;
    if mask & !(MAX_WR | LIMIT) != 0 {
        return libc::EINVAL;
    }
    // SAFETY: the caller gives an attribute struct with the fields that the mask names.
    let max_wr = (mask & MAX_WR != 0).then(|| unsafe { (*attr).max_wr });
    // SAFETY: as above.
    let limit = (mask & LIMIT != 0).then(|| unsafe { (*attr).srq_limit });
    // SAFETY: the caller's contract.
    errno_of(unsafe { verb(srq, |state, srq| state.modify_srq(srq, max_wr, limit)) })
}

pub(in super::super) unsafe fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { verb(srq, |state, srq| state.query_srq(srq)) } {
        Ok((max_wr, max_sge, srq_limit)) => {
            // SAFETY: the caller gives a writable `ibv_srq_attr`.
            unsafe { attr.write(ibv_srq_attr { max_wr, max_sge, srq_limit }) };
            0
        }
        Err(errno) => errno,
    }
}

pub(in super::super) unsafe fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { destroy(srq, State::destroy_srq) }
}

/// `cap` says what was granted; an SRQ leaves no own receives.
pub(in super::super) unsafe fn create_qp(
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> Created<ibv_qp> {
    // SAFETY: the caller gives a readable `ibv_qp_init_attr`.
    let asked = unsafe { init.read() };
    let transport = Transport::from_c(asked.qp_type)?;
    // SAFETY: the caller gives live objects or null.
    let send_cq = unsafe { number_beside(pd, asked.send_cq) };
    // SAFETY: as above.
    let recv_cq = unsafe { number_beside(pd, asked.recv_cq) };
    // SAFETY: as above.
    let srq = unsafe { number_beside(pd, asked.srq) };
    let (Some(send_cq), Some(recv_cq)) = (send_cq, recv_cq) else {
        return Err(libc::EINVAL);
    };
    if srq.is_none() && !asked.srq.is_null() {
        return Err(libc::EINVAL);
    }
    let mut cap = asked.cap;
    if srq.is_some() {
        (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
    }
    let shape = Shape {
        transport,
        send_cq,
        recv_cq,
        srq,
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline: cap.max_inline_data,
        sig_all: asked.sq_sig_all != 0,
    };
    // SAFETY: the caller's contract.
    let (handle, granted) = unsafe { verb(pd, |state, pd| state.create_qp(pd, shape)) }?;
    // SAFETY: `init` is writable too.
    unsafe { (*init).cap = attr::cap(&granted) };
    // SAFETY: a live PD.
    let context = unsafe { (*pd).context };
    Ok(hand_out(ibv_qp {
        context,
        qp_context: asked.qp_context,
        pd,
        send_cq: asked.send_cq,
        recv_cq: asked.recv_cq,
        srq: asked.srq,
        handle,
        qp_num: handle,
        state: ibv_qp_state::IBV_QPS_RESET,
        qp_type: asked.qp_type,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    }))
}

/// The number of `object`, if there is one and it is of the PD's context.
///
/// # Safety
/// `pd` is live, and `object` is or is null.
unsafe fn number_beside<T: Object>(pd: *mut ibv_pd, object: *mut T) -> Option<u32> {
    if object.is_null() {
        return None;
    }
    // SAFETY: the caller's contract.
    if !unsafe { same_context(pd, object) } {
        return None;
    }
    // SAFETY: the caller's contract.
    Some(unsafe { T::locate(object) }.1)
}

pub(in super::super) unsafe fn modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the caller gives an attribute struct with the fields that the mask names.
    let changes = unsafe { attr::read(attr, mask as u32) };
    // SAFETY: the caller's contract.
    match unsafe { verb(qp, |state, qp| state.modify_qp(qp, &changes)) } {
        Ok(now) => {
            // SAFETY: a live QP; libibverbs keeps the state there as well.
            unsafe { (*qp).state = now.to_c() };
            0
        }
        Err(errno) => errno,
    }
}

/// Writes all attributes, whatever the mask: C may too. Those that the mask does not name may hold anything.
pub(in super::super) unsafe fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the caller's contract.
    let (shared, number) = unsafe { locate(qp) };
    let found = shared.verb(|state| {
        let litters = state.habits.litters();
        let qp = state.qps.get(&number)?;
        if state.check_alive(qp.device).is_err() {
            return Some(Err(libc::EIO));
        }
        let mut now = attr::write(qp);
        if litters {
            attr::litter(&mut now, mask as u32);
        }
        Some(Ok((now, qp.phase, qp.shape)))
    });
    let (now, phase, shape) = match found.unwrap_or(Err(libc::EINVAL)) {
        Ok(found) => found,
        Err(errno) => return errno,
    };
    // SAFETY: a live QP.
    unsafe { (*qp).state = phase.to_c() };
    // SAFETY: a live QP, whose parents are named as they were given.
    let object = unsafe { ptr::read(qp) };
    let created = ibv_qp_init_attr {
        qp_context: object.qp_context,
        send_cq: object.send_cq,
        recv_cq: object.recv_cq,
        srq: object.srq,
        cap: attr::cap(&shape),
        qp_type: object.qp_type,
        sq_sig_all: shape.sig_all.into(),
    };
    // SAFETY: the caller gives a writable `ibv_qp_attr`.
    unsafe { attr.write(now) };
    // SAFETY: the caller gives a writable `ibv_qp_init_attr`.
    unsafe { init.write(created) };
    0
}

pub(in super::super) unsafe fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { destroy(qp, State::destroy_qp) }
}
