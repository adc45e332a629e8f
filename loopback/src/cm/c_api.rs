//! The C boundary of rdma_cm, and its table of calls.
//!
//! Channels and ids (events are in `event`) are C structs followed by the data that the fabric
//! needs. Each is one allocation, freed by the call that destroys it, and no reference to a whole
//! one is ever made.
//!
//! # Safety of the calls
//! They are called as [`Calls`] requires. The SAFETY comments call this *the call's contract*.

#![allow(unsafe_code)] // C objects are handed out and taken as raw pointers.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::ptr;
use std::ptr::NonNull;
use std::sync::Arc;

use libc::{sockaddr, sockaddr_storage};

use super::address::{of_infiniband, to_storage};
use super::connect::{BY_THE_CONSUMER, OF_THE_OPTIONS};
use super::event::{ack_cm_event, get_cm_event};
use crate::c_api::{attributes_to_c, errno_of};
use crate::fabric::Fabric;
use crate::objects::Object;
use crate::objects::cm::{Agreed, Param, Seen, Space};
use crate::shared::Shared;
use crate::state::State;
use crate::words::Verb;
use crate::words::limits::BITS_24;
use proverbs_sys::cm::{Calls, Channel as Owned, from_c, ib_from_c};
use proverbs_sys::control::Created;
use proverbs_sys::handle;
use proverbs_sys::types::*;
use raw::{rdma_cm_id, rdma_conn_param, rdma_event_channel};

#[repr(C)]
struct Channel {
    channel: rdma_event_channel,
    shared: Arc<Shared>,
    number: u32,
}

#[repr(C)]
struct Id {
    id: rdma_cm_id,
    shared: Arc<Shared>,
    number: u32,
    /// Keeps the device behind `id.verbs` open.
    device: Option<Arc<handle::Context>>,
}

/// A call on an id that changes only the state.
macro_rules! on {
    ($id:ident $(, $arg:ident)* => |$state:ident, $number:ident| $body:expr) => {
        |$id $(, $arg)*| {
            let change = |$state: &mut State, $number: u32| $body;
            // SAFETY: the id is live (the call's contract).
            errno_of(unsafe { call($id, change) })
        }
    };
}

/// rdma_cm on a fabric.
static LOOPBACK: Calls = Calls {
    is_system: false,
    create_event_channel,
    destroy_event_channel,
    get_cm_event,
    ack_cm_event,
    create_id,
    destroy_id,
    migrate_id,
    set_option,
    bind_addr,
    resolve_addr,
    resolve_route: on!(id, _timeout => |state, id| state.resolve_route(id)),
    listen,
    connect,
    accept,
    reject: |id, data, len| {
        // SAFETY: the id is live, and the private data readable (the call's contract).
        unsafe { reject(id, data, len, BY_THE_CONSUMER) }
    },
    reject_ece: |id, data, len| {
        // SAFETY: the id is live, and the private data readable (the call's contract).
        unsafe { reject(id, data, len, OF_THE_OPTIONS) }
    },
    set_local_ece: on!(id, ece => |state, id| state.set_local_ece(id, *ece)),
    get_remote_ece: on!(id, ece => |state, id| state.remote_ece(id).map(|theirs| *ece = theirs)),
    establish: on!(id => |state, id| state.establish_id(id)),
    disconnect: on!(id => |state, id| state.disconnect_id(id)),
    notify_comm_est: on!(id => |state, id| state.comm_est(id)),
    init_qp_attr,
    join_multicast,
    // SAFETY: the caller passes this id and address (the call's contract). The kind of the
    // membership is only for switches, and a fabric has none.
    join_multicast_ex: |id, at, _, context| unsafe { join_multicast(id, at, context) },
    leave_multicast,
    write_cm_event: on!(id, status, arg => |state, id| state.write_cm_event(id, status, arg)),
    context,
};

/// Opens an event channel on a fabric.
pub fn open_channel(fabric: &Fabric) -> Result<Owned, c_int> {
    let ptr = new_channel(fabric.shared())?;
    // SAFETY: the channel was just made by this provider, and has no other owner.
    Ok(unsafe { Owned::of(ptr, &LOOPBACK) })
}

/// Raises an event on an id of this fabric. Returns false if the id belongs to another provider or
/// fabric, or if an event of this kind needs other objects.
pub fn raise(fabric: &Fabric, id: &proverbs_sys::cm::Id, kind: u32, status: c_int) -> bool {
    let raised = id.of_provider(&LOOPBACK, |id| {
        let id = id.cast::<Id>();
        // SAFETY: the id is live and of this provider.
        let (shared, number) = unsafe { (Arc::clone(&(*id).shared), (*id).number) };
        Arc::ptr_eq(&shared, fabric.shared())
            && shared.verb(|state| state.raise(number, kind, status))
    });
    raised.unwrap_or(false)
}

fn new_channel(shared: &Arc<Shared>) -> Created<rdma_event_channel> {
    let (number, fd) = shared.verb(State::create_event_channel)?;
    let channel = rdma_event_channel { fd };
    let whole = Box::leak(Box::new(Channel { channel, shared: Arc::clone(shared), number }));
    Ok(NonNull::from(whole).cast())
}

/// Makes a call on an id.
///
/// # Safety
/// `id` is a live id of this provider.
unsafe fn call<R>(id: *mut rdma_cm_id, call: impl FnOnce(&mut State, u32) -> R) -> R {
    let id = id.cast::<Id>();
    // SAFETY: the id is live (this function's contract), and both fields are written at creation
    // and never after.
    let (shared, number) = unsafe { (Arc::clone(&(*id).shared), (*id).number) };
    shared.verb(|state| call(state, number))
}

/// The fabric and the number of a channel.
///
/// # Safety
/// `channel` is a live channel of this provider.
pub(super) unsafe fn locate(channel: *mut rdma_event_channel) -> (Arc<Shared>, u32) {
    let channel = channel.cast::<Channel>();
    // SAFETY: the channel is live (this function's contract), and both fields are written at
    // creation and never after.
    unsafe { (Arc::clone(&(*channel).shared), (*channel).number) }
}

unsafe fn create_event_channel(beside: *mut rdma_event_channel) -> Created<rdma_event_channel> {
    // SAFETY: the channel is live (the call's contract).
    new_channel(&unsafe { locate(beside) }.0)
}

unsafe fn destroy_event_channel(channel: *mut rdma_event_channel) {
    // SAFETY: the channel is live (the call's contract).
    let (shared, number) = unsafe { locate(channel) };
    shared.verb(|state| state.destroy_event_channel(number));
    // SAFETY: `new_channel` made it as a `Channel`, and it is destroyed once.
    drop(unsafe { Box::from_raw(channel.cast::<Channel>()) });
}

/// The C object of an id.
pub(super) fn new_id(
    shared: &Arc<Shared>,
    number: u32,
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    seen: Seen,
) -> NonNull<rdma_cm_id> {
    let qp_type = match seen.ps {
        raw::rdma_port_space::RDMA_PS_UDP => raw::ibv_qp_type::IBV_QPT_UD,
        _ => raw::ibv_qp_type::IBV_QPT_RC,
    };
    let id = rdma_cm_id { channel, context, ps: seen.ps, qp_type, ..zeroed() };
    let whole = Box::new(Id { id, shared: Arc::clone(shared), number, device: None });
    let id: NonNull<rdma_cm_id> = NonNull::from(Box::leak(whole)).cast();
    shared.verb(|state| state.name_id(number, Object(id)));
    id
}

unsafe fn create_id(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    ps: u32,
) -> Created<rdma_cm_id> {
    // SAFETY: the channel is live (the call's contract).
    let (shared, on) = unsafe { locate(channel) };
    let (number, seen) = shared.verb(|state| {
        let number = state.create_id(on, ps)?;
        Ok::<_, c_int>((number, state.see(number)?))
    })?;
    Ok(new_id(&shared, number, channel, context, seen))
}

unsafe fn destroy_id(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the id is live (the call's contract).
    let result = unsafe { call(id, State::destroy_id) };
    if result.is_ok() {
        // SAFETY: `new_id` made it as an `Id`, and it is destroyed once.
        drop(unsafe { Box::from_raw(id.cast::<Id>()) });
    }
    errno_of(result)
}

unsafe fn migrate_id(id: *mut rdma_cm_id, to: *mut rdma_event_channel) -> c_int {
    // SAFETY: the channel is live (the call's contract).
    let (shared, channel) = unsafe { locate(to) };
    // SAFETY: the id is live (the call's contract).
    if !Arc::ptr_eq(&shared, unsafe { &(*id.cast::<Id>()).shared }) {
        return libc::EINVAL;
    }
    // SAFETY: the id is live (the call's contract).
    let result = unsafe { call(id, |state, id| state.migrate_id(id, channel)) };
    if result.is_ok() {
        // SAFETY: the id is live, and the locks of both its channels are held (the call's
        // contract).
        unsafe { (*id).channel = to };
    }
    errno_of(result)
}

unsafe fn set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: usize,
) -> c_int {
    if level != 0 {
        return libc::ENOSYS;
    }
    // SAFETY: the option is readable (the call's contract).
    let value = unsafe { bytes(value, len) };
    // SAFETY: the id is live (the call's contract).
    errno_of(unsafe { call(id, |state, id| state.set_option(id, option, &value)) })
}

/// Copies the bytes at `at`; returns an empty vector if there are none.
///
/// # Safety
/// `at` is readable for `len` bytes, or null.
unsafe fn bytes(at: *const c_void, len: usize) -> Vec<u8> {
    if at.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: readable (this function's contract), and not null.
    unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) }.to_vec()
}

/// Writes the fabric's state of an id into the C struct.
///
/// # Safety
/// `id` is a live id of this provider, and the lock of its channel is held.
pub(super) unsafe fn show(id: *mut rdma_cm_id, seen: Seen) {
    let whole = id.cast::<Id>();
    let space = Space::of(seen.ps).unwrap_or(Space::Tcp);
    let storage =
        |address: Option<SocketAddr>| address.map_or(zeroed(), |at| to_storage(at, space));
    // SAFETY: the id is live, and with the lock held nothing else uses its fields (this function's
    // contract). Each union has the size and alignment of its `sockaddr_storage`.
    unsafe {
        let addr = &raw mut (*id).route.addr;
        (&raw mut (*addr).src_addr_union).cast::<sockaddr_storage>().write(storage(seen.local));
        (&raw mut (*addr).dst_addr_union).cast::<sockaddr_storage>().write(storage(seen.remote));
        if (*whole).device.is_none() {
            // None if the device is being closed, as if it were gone already.
            (*whole).device = seen.device.and_then(|device| (*whole).shared.context(device));
        }
        let verbs = (*whole).device.as_ref().map(|context| context.as_ptr());
        (*id).verbs = verbs.unwrap_or(ptr::null_mut());
        (*id).port_num = verbs.is_some().into();
    }
}

/// The address that an argument names.
///
/// # Safety
/// `at` is readable for as many bytes as its family says, and aligned to 4.
unsafe fn address(at: *mut sockaddr) -> Verb<SocketAddr> {
    // SAFETY: readable and aligned (this function's contract).
    unsafe { from_c(at) }.ok_or(libc::EAFNOSUPPORT)
}

/// The address that an argument names: IP or native InfiniBand.
///
/// # Safety
/// As for `address`; and `id` is a live id of this provider.
unsafe fn address_of(id: *mut rdma_cm_id, at: *mut sockaddr) -> Verb<SocketAddr> {
    // SAFETY: readable and aligned, and the id is live (this function's contract).
    match unsafe { (ib_from_c(at), (*id).ps) } {
        (Some(own), ps) => of_infiniband(own, Space::of(ps)?),
        // SAFETY: readable and aligned (this function's contract).
        (None, _) => unsafe { address(at) },
    }
}

/// Makes a call that changes fields of the C struct.
///
/// # Safety
/// `id` is a live id of this provider, and the lock of its channel is held.
unsafe fn change(id: *mut rdma_cm_id, change: impl FnOnce(&mut State, u32) -> Verb) -> c_int {
    // SAFETY: the id is live (this function's contract).
    let changed = unsafe {
        call(id, |state, number| {
            change(state, number)?;
            state.see(number)
        })
    };
    // SAFETY: the id is live and its channel locked (this function's contract).
    errno_of(changed.map(|seen| unsafe { show(id, seen) }))
}

unsafe fn bind_addr(id: *mut rdma_cm_id, at: *mut sockaddr) -> c_int {
    // SAFETY: the address is readable and the id live (the call's contract).
    let at = unsafe { address_of(id, at) };
    // SAFETY: the id is live and its channel locked (the call's contract).
    unsafe { change(id, |state, id| state.bind_id(id, at?)) }
}

unsafe fn resolve_addr(id: *mut rdma_cm_id, to: *mut sockaddr, _: c_int) -> c_int {
    // SAFETY: the address is readable and the id live (the call's contract).
    let to = unsafe { address_of(id, to) };
    // SAFETY: the id is live (the call's contract). The result is written with the event.
    errno_of(unsafe { call(id, |state, id| state.resolve_addr(id, to?)) })
}

unsafe fn listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    let backlog = usize::try_from(backlog).unwrap_or(0);
    // SAFETY: the id is live and its channel locked (the call's contract).
    unsafe { change(id, |state, id| state.listen(id, backlog)) }
}

/// The parameters and the private data.
///
/// # Safety
/// `param` is readable, and so is its private data.
unsafe fn read(param: *const rdma_conn_param) -> (Param, Vec<u8>) {
    // SAFETY: both are readable (this function's contract).
    let (c, data) = unsafe {
        let c = param.read();
        (c, bytes(c.private_data, c.private_data_len.into()))
    };
    let agreed = Agreed {
        responder_resources: c.responder_resources,
        initiator_depth: c.initiator_depth,
        retry_count: c.retry_count.min(7),
        rnr_retry_count: c.rnr_retry_count.min(7),
    };
    (Param { agreed, srq: c.srq != 0, qp_num: c.qp_num & BITS_24 }, data)
}

unsafe fn connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    // SAFETY: the parameters are readable (the call's contract).
    let (param, data) = unsafe { read(param) };
    // SAFETY: the id is live (the call's contract).
    errno_of(unsafe { call(id, |state, id| state.connect_id(id, param, &data)) })
}

unsafe fn accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    // SAFETY: the parameters are readable (the call's contract).
    let (param, data) = unsafe { read(param) };
    // SAFETY: the id is live (the call's contract).
    errno_of(unsafe { call(id, |state, id| state.accept_request(id, param, &data)) })
}

unsafe fn reject(id: *mut rdma_cm_id, data: *const c_void, len: u8, reason: c_int) -> c_int {
    // SAFETY: the private data is readable (the call's contract).
    let data = unsafe { bytes(data, len.into()) };
    // SAFETY: the id is live (the call's contract).
    errno_of(unsafe { call(id, |state, id| state.reject_id(id, reason, &data)) })
}

unsafe fn init_qp_attr(id: *mut rdma_cm_id, attr: *mut ibv_qp_attr, mask: *mut c_int) -> c_int {
    // SAFETY: `attr` is readable and names the state (the call's contract).
    let to = unsafe { (*attr).qp_state };
    // SAFETY: the id is live (the call's contract).
    let found = unsafe { call(id, |state, id| state.attributes_of(id, to)) };
    // SAFETY: both are writable (the call's contract).
    errno_of(found.map(|(now, which)| unsafe {
        attr.write(ibv_qp_attr { qp_state: to, ..attributes_to_c(&now) });
        mask.write(which as c_int);
    }))
}

unsafe fn join_multicast(id: *mut rdma_cm_id, at: *mut sockaddr, context: *mut c_void) -> c_int {
    // SAFETY: the address is readable (the call's contract).
    let at = unsafe { address(at) };
    // It is only returned with the event.
    let context = context.expose_provenance();
    // SAFETY: the id is live (the call's contract).
    errno_of(unsafe { call(id, |state, id| state.join_group(id, at?, context)) })
}

unsafe fn leave_multicast(id: *mut rdma_cm_id, at: *mut sockaddr) -> c_int {
    // SAFETY: the address is readable (the call's contract).
    let at = unsafe { address(at) };
    // SAFETY: the id is live (the call's contract).
    errno_of(unsafe { call(id, |state, id| state.leave_group(id, at?)) })
}

unsafe fn context(id: *mut rdma_cm_id) -> Option<Arc<handle::Context>> {
    // SAFETY: the id is live, and with the lock of its channel held nothing writes the field (the
    // call's contract).
    unsafe { (*id.cast::<Id>()).device.clone() }
}
