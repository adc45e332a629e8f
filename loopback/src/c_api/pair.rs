//! Shared receive queues and queue pairs.

#![allow(unsafe_code)] // C objects, and attributes read and written through pointers.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use super::posting::{self, Pair};
use super::xrc::create_target;
use super::{Domain, attr, destroy, hand_out, number_beside, verb};
use crate::objects::qp::Shape;
use crate::state::State;
use crate::words::Verb;
use crate::words::contract::broken;
use crate::words::transport::Transport;
use crate::words::world::Link;
use proverbs_sys::control::Created;
use proverbs_sys::create_qp_ex::{
    ATTR_CREATE_FLAGS, ATTR_PD, ATTR_SEND_OPS_FLAGS, BLOCK_SELF_MCAST_LB, ibv_qp_init_attr_ex,
};
use proverbs_sys::srd::INLINE_WRITE;
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::*;

pub(super) unsafe fn create_srq(
    pd: *mut ibv_pd,
    init_at: *mut ibv_srq_init_attr,
) -> Created<ibv_srq> {
    // SAFETY: `init_at` is readable (the verb's contract).
    let init = unsafe { init_at.read() };
    // SAFETY: `init_at` is writable, and `pd` is live (the verb's contract).
    unsafe {
        let create = |state: &mut State, pd| state.create_srq(pd, init.attr, None);
        let (handle, granted) = make_on(pd, create)?;
        (*init_at).attr = granted;
        Ok(hand_out_srq(pd, handle, init.srq_context))
    }
}

/// Creates the C object of a shared receive queue and registers it, so that events can refer to it.
///
/// # Safety
/// `pd` is live.
pub(super) unsafe fn hand_out_srq(
    pd: *mut ibv_pd,
    handle: u32,
    srq_context: *mut c_void,
) -> NonNull<ibv_srq> {
    // SAFETY: `pd` is live (this function's contract).
    let context = unsafe { (*pd).context };
    let srq = hand_out(ibv_srq {
        context,
        srq_context,
        pd,
        handle,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        ..zeroed()
    });
    // SAFETY: `pd` is live, and so is its fabric.
    unsafe { verb(pd, |state, _| state.name_srq(handle, srq)) };
    srq
}

pub(super) unsafe fn modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> Verb {
    const MAX_WR: u32 = ibv_srq_attr_mask::IBV_SRQ_MAX_WR.0;
    const LIMIT: u32 = ibv_srq_attr_mask::IBV_SRQ_LIMIT.0;
    let mask = mask as u32;
    if mask & !(MAX_WR | LIMIT) != 0 {
        return Err(libc::EINVAL);
    }
    // SAFETY: `attr` has the fields that the mask names, and `srq` is live (the verb's contract).
    unsafe {
        let max_wr = (mask & MAX_WR != 0).then(|| (*attr).max_wr);
        let limit = (mask & LIMIT != 0).then(|| (*attr).srq_limit);
        verb(srq, |state, srq| state.modify_srq(srq, max_wr, limit))
    }
}

/// Creates an object on a domain; if the domain is a lane, in the lane.
///
/// # Safety
/// `pd` is live.
pub(super) unsafe fn make_on<R>(
    pd: *mut ibv_pd,
    make: impl FnOnce(&mut State, u32) -> Verb<(u32, R)>,
) -> Verb<(u32, R)> {
    // SAFETY: `pd` is live (this function's contract).
    unsafe {
        let joint = (*pd.cast::<Domain>()).joint;
        verb(pd, |state, pd| match joint {
            Some(joint) => state.make_in_lane(joint, |state| make(state, pd)),
            None => make(state, pd),
        })
    }
}

pub(super) unsafe fn create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> Created<ibv_qp> {
    // SAFETY: `init` is readable (the verb's contract).
    if unsafe { (*init).qp_type } == ibv_qp_type::IBV_QPT_DRIVER {
        return Err(libc::EOPNOTSUPP);
    }
    // SAFETY: `pd` is live, `init` is readable and writable, and the objects that it names are live
    // or null (the verb's contract). `make_qp` requires the same.
    unsafe { make_qp(pd, init) }
}

/// `cap` returns the granted limits. With an SRQ the queue pair has no receive queue.
///
/// # Safety
/// As for `ibv_create_qp`.
unsafe fn make_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> Created<ibv_qp> {
    // SAFETY: `init` is readable (the verb's contract).
    let asked = unsafe { init.read() };
    let transport = Transport::from_c(asked.qp_type)?;
    // SAFETY: `pd` is live, and each of the queues is live or null (the verb's contract).
    let (send_cq, recv_cq, srq) = unsafe {
        (
            number_beside(pd, asked.send_cq),
            number_beside(pd, asked.recv_cq),
            number_beside(pd, asked.srq),
        )
    };
    // An XRC initiator has no receive completion queue.
    let no_receives = transport == Transport::XrcSend && asked.recv_cq.is_null();
    let recv_cq = if no_receives { send_cq } else { recv_cq };
    let (Some(send_cq), Some(recv_cq)) = (send_cq, recv_cq) else { return Err(libc::EINVAL) };
    if srq.is_none() && !asked.srq.is_null() {
        return Err(libc::EINVAL);
    }
    let mut cap = asked.cap;
    if srq.is_some() {
        (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
    }
    let shape = Shape { transport, send_cq, recv_cq, srq, cap, sig_all: asked.sq_sig_all != 0 };
    // SAFETY: `pd` is live (the verb's contract).
    let (handle, granted) = unsafe { make_on(pd, |state, pd| state.create_qp(pd, shape)) }?;
    // SAFETY: `init` is writable, and `pd` is live (the verb's contract).
    let context = unsafe {
        (*init).cap = granted.cap;
        (*pd).context
    };
    Ok(hand_out_qp(context, pd, handle, &asked))
}

/// Allocates the C object of a queue pair.
pub(super) fn hand_out_qp(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    number: u32,
    asked: &ibv_qp_init_attr,
) -> NonNull<ibv_qp> {
    let qp = ibv_qp {
        context,
        qp_context: asked.qp_context,
        pd,
        send_cq: asked.send_cq,
        recv_cq: asked.recv_cq,
        srq: asked.srq,
        handle: number,
        qp_num: number,
        state: ibv_qp_state::IBV_QPS_RESET,
        qp_type: asked.qp_type,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        ..zeroed()
    };
    hand_out(Pair::ordinary(qp)).cast()
}

/// Supports UD with the flag that blocks multicast loopback, and extended posting.
pub(super) unsafe fn create_qp_ex(init: &mut ibv_qp_init_attr_ex) -> Created<ibv_qp> {
    if init.qp_type == ibv_qp_type::IBV_QPT_XRC_RECV {
        // SAFETY: the XRC domain is live, or null (the verb's contract).
        return unsafe { create_target(init) };
    }
    let pd = init.pd;
    let blocks = init.comp_mask & ATTR_CREATE_FLAGS != 0;
    let ops = if init.comp_mask & ATTR_SEND_OPS_FLAGS != 0 { init.send_ops_flags } else { 0 };
    let is_known = init.comp_mask & !(ATTR_CREATE_FLAGS | ATTR_SEND_OPS_FLAGS) == ATTR_PD;
    if !is_known || blocks && init.create_flags != BLOCK_SELF_MCAST_LB {
        return Err(libc::EINVAL);
    }
    if ops & !posting::known(Transport::from_c(init.qp_type)?) != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let has = |state: &mut State, _| {
        if ops != 0 && state.world.link == Link::Iwarp {
            return Err(libc::EOPNOTSUPP);
        }
        if blocks { state.blocks_loopback(init.qp_type) } else { Ok(()) }
    };
    // SAFETY: `pd` is live (the verb's contract).
    unsafe { verb(pd, has) }?;
    if init.qp_type == ibv_qp_type::IBV_QPT_DRIVER {
        return Err(libc::EOPNOTSUPP);
    }
    // SAFETY: the domain is live, and so are the other objects that are named (the verb's
    // contract).
    unsafe {
        let pair = make_extended(init, ops)?;
        if blocks {
            verb(pair.cast::<ibv_qp>().as_ptr(), State::block_loopback);
        }
        Ok(pair.cast())
    }
}

/// Creates a queue pair with extended posting of these operations, if there are any.
///
/// # Safety
/// As for `ibv_create_qp_ex`.
unsafe fn make_extended(init: &mut ibv_qp_init_attr_ex, ops: u64) -> Created<Pair> {
    let mut plain = init.plain();
    // SAFETY: the domain is live, and so are the other objects that are named (this function's
    // contract). The attributes are a local.
    let pair = unsafe { make_qp(init.pd, &mut plain) }?.cast::<Pair>();
    init.cap = plain.cap;
    if ops != 0 {
        // SAFETY: the queue pair was just made, as a `Pair`, and has no other user yet.
        unsafe { (*pair.as_ptr()).extend(ops) };
    }
    Ok(pair)
}

/// `efadv_create_qp_ex`: extended posting only, all sends signaled, one scatter/gather element.
pub(super) unsafe fn create_srd_qp(init: &mut ibv_qp_init_attr_ex, flags: u16) -> Created<ibv_qp> {
    let pd = init.pd;
    // SAFETY: `pd` is live (the verb's contract).
    if unsafe { verb(pd, |state, _| state.world.srd.is_none()) } {
        return Err(libc::EOPNOTSUPP);
    }
    let ops = init.send_ops_flags;
    let is_known = init.comp_mask == ATTR_PD | ATTR_SEND_OPS_FLAGS
        && init.qp_type == ibv_qp_type::IBV_QPT_DRIVER
        && ops != 0
        && ops & !posting::known(Transport::Srd) == 0
        && flags & !INLINE_WRITE == 0
        && init.srq.is_null()
        && init.qp_context.is_null();
    if !is_known {
        return Err(libc::EINVAL);
    }
    if init.sq_sig_all == 0 || init.cap.max_send_sge > 1 {
        broken("an SRD queue pair must signal every send and use one element (R27.3)");
    }
    // SAFETY: the domain is live, and so is what else is named (the verb's contract).
    Ok(unsafe { make_extended(init, ops) }?.cast())
}

/// `efadv_query_ah`.
pub(super) fn ah_number(state: &mut State, ah: u32) -> Verb<u16> {
    state.world.srd.map(|_| state.srd_number_of(ah)).ok_or(libc::EOPNOTSUPP)
}

pub(super) unsafe fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> Verb {
    // SAFETY: `qp` is live, and `attr` has the fields that the mask names (the verb's contract).
    // Like libibverbs, this also stores the state in a field of `qp`.
    unsafe {
        let changes = attr::read(attr, mask as u32);
        (*qp).state = verb(qp, |state, qp| {
            state.check_thread_of_queues(qp);
            state.modify_qp_by_hand(qp, &changes).map(Phase::to_c)
        })?;
        Ok(())
    }
}

/// Returns all attributes, whatever the mask, as C may do. Attributes that the mask does not name
/// may hold anything.
pub(super) unsafe fn query_qp(
    qp: *mut ibv_qp,
    mask: c_int,
) -> Verb<(ibv_qp_attr, ibv_qp_init_attr)> {
    let ask = |state: &mut State, number| -> Verb<_> {
        let litters = state.habits.litters();
        let qp = state.qps.get(&number).ok_or(libc::EINVAL)?;
        state.check_alive(qp.device)?;
        let mut now = attr::write(qp);
        let mut phase = qp.phase;
        if state.world.link == Link::Iwarp {
            // `siw_query_qp` of drivers/infiniband/sw/siw/siw_verbs.c does not fill them (R24.16).
            phase = Phase::Reset;
            (now.qp_state, now.cur_qp_state) = (phase.to_c(), phase.to_c());
        }
        if litters {
            attr::litter(&mut now, mask as u32);
        }
        Ok((now, phase, qp.shape))
    };
    // SAFETY: `qp` is live (the verb's contract).
    let (now, phase, shape) = unsafe { verb(qp, ask) }?;
    // SAFETY: `qp` is live (the verb's contract). Its fields were written at creation, except the
    // state, which libibverbs also keeps there.
    let object = unsafe {
        (*qp).state = phase.to_c();
        ptr::read(qp)
    };
    let created = ibv_qp_init_attr {
        qp_context: object.qp_context,
        send_cq: object.send_cq,
        recv_cq: object.recv_cq,
        srq: object.srq,
        cap: shape.cap,
        qp_type: object.qp_type,
        sq_sig_all: shape.sig_all.into(),
        ..zeroed()
    };
    Ok((now, created))
}

pub(super) unsafe fn destroy_qp(qp: *mut ibv_qp) -> Verb {
    // SAFETY: `qp` is live, and not used afterwards (the verb's contract).
    unsafe {
        posting::check_closed(qp);
        destroy(qp, |state, qp| {
            state.check_thread_of_queues(qp);
            state.destroy_qp(qp)
        })
    }
}

pub(super) unsafe fn attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> Verb {
    // SAFETY: `gid` is readable, and any bytes are a value of each of its fields (the verb's
    // contract).
    let group = unsafe { (*gid).raw };
    // SAFETY: `qp` is live (the verb's contract).
    unsafe { verb(qp, |state, qp| state.attach(qp, group, lid)) }
}

pub(super) unsafe fn detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _: u16) -> Verb {
    // SAFETY: `gid` is readable, and any bytes are a value of each of its fields (the verb's
    // contract).
    let group = unsafe { (*gid).raw };
    // SAFETY: `qp` is live (the verb's contract).
    unsafe { verb(qp, |state, qp| state.detach(qp, group)) }
}
