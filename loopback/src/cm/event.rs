//! Events at the C boundary: see `c_api`.

#![allow(unsafe_code)] // C objects are handed out and taken as raw pointers.

use std::ffi::c_void;
use std::ptr;
use std::ptr::NonNull;

use super::attributes::QKEY_OF_DATAGRAMS;
use super::c_api::{locate, new_id, show};
use crate::c_api::address_to;
use crate::objects::Object;
use crate::objects::cm::{Arm, ReportedEvent};
use crate::words::limits::BITS_24;
use proverbs_sys::control::Created;
use proverbs_sys::types::*;
use raw::{rdma_cm_event, rdma_conn_param, rdma_event_channel, rdma_ud_param};

#[repr(C)]
struct Event {
    event: rdma_cm_event,
    /// `event` points into this vector.
    data: Vec<u8>,
}

/// Creates the id of a request here.
pub(super) unsafe fn get_cm_event(channel: *mut rdma_event_channel) -> Created<rdma_cm_event> {
    // SAFETY: the channel is live (the call's contract).
    let (shared, number) = unsafe { locate(channel) };
    let ReportedEvent { event, number, object, listener, seen } =
        shared.verb(|state| state.take_event(number))?;
    let id = match object {
        Some(Object(id)) => id,
        None => new_id(&shared, number, channel, ptr::null_mut(), seen),
    };
    // SAFETY: the id is live, since it has this event. It is on this channel, whose lock is held
    // (the call's contract).
    unsafe { show(id.as_ptr(), seen) };
    let data = event.data;
    let (private_data, private_data_len) = match data.len() {
        0 => (ptr::null(), 0),
        bytes => (data.as_ptr().cast::<c_void>(), bytes as u8),
    };
    let ud = |to, qp_num| rdma_ud_param {
        private_data,
        private_data_len,
        ah_attr: address_to(to),
        qp_num,
        qkey: QKEY_OF_DATAGRAMS,
    };
    // Users read the union arm of the id's port space, whatever the event is. So it starts as
    // zeroes.
    let mut c = rdma_cm_event {
        id: id.as_ptr(),
        listen_id: listener.map_or(ptr::null_mut(), |Object(id)| id.as_ptr()),
        event: event.kind,
        status: event.status,
        ..zeroed()
    };
    match &event.arm {
        Arm::None => {}
        Arm::Conn(param) => {
            c.param.conn = rdma_conn_param {
                private_data,
                private_data_len,
                responder_resources: param.agreed.responder_resources,
                initiator_depth: param.agreed.initiator_depth,
                retry_count: param.agreed.retry_count,
                rnr_retry_count: param.agreed.rnr_retry_count,
                srq: param.srq.into(),
                qp_num: param.qp_num,
                ..zeroed()
            };
        }
        Arm::Ud { to, qp_num } => c.param.ud = ud(to, *qp_num),
        Arm::User(arg) => {
            // SAFETY: a local, larger than this integer and aligned for it.
            unsafe { (&raw mut c.param).cast::<u64>().write(*arg) };
        }
        Arm::Group { to, context } => {
            let private_data = ptr::with_exposed_provenance(*context);
            c.param.ud = rdma_ud_param { private_data, ..ud(to, BITS_24) };
        }
    }
    Ok(NonNull::from(Box::leak(Box::new(Event { event: c, data }))).cast())
}

pub(super) unsafe fn ack_cm_event(event: *mut rdma_cm_event) {
    // SAFETY: `get_cm_event` made it as an `Event`, and it is acknowledged once (the call's
    // contract).
    drop(unsafe { Box::from_raw(event.cast::<Event>()) });
}
