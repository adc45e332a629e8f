//! Verbs that only ask: extended operations, which C's inlines call, and functions that are looked
//! up when used, since older libraries lack them.

#![allow(non_camel_case_types)] // C's names

use std::ffi::c_int;

use super::control::{Answer, done, errno};
use super::extended::op;
use super::symbols::symbols;
use super::types::*;

/// The distance of the operation before the context, bytes: see `extended`.
pub const QUERY_RT_VALUES: usize = 128;

/// `IBV_VALUES_MASK_RAW_CLOCK`.
pub const RAW_CLOCK: u32 = 1;

/// C's struct.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_values_ex {
    pub comp_mask: u32,
    pub raw_clock: libc::timespec,
}

// SAFETY: it consists of integers.
unsafe impl Zeroes for ibv_values_ex {}

type QueryRtValues = unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int;
pub(crate) type DeviceIndex = unsafe extern "C" fn(*mut ibv_device) -> c_int;
pub(crate) type PortSpeed = unsafe extern "C" fn(*mut ibv_context, u32, *mut u64) -> c_int;
pub(crate) type DataInOrder = unsafe extern "C" fn(*mut ibv_qp, u32, u32) -> c_int;

symbols! {
    // SAFETY: the functions have had these types since they are there (`bindings::agreement` holds
    // those of installed headers against them).
    unsafe struct Symbols of VERBS {
        /// Since rdma-core 28.
        device_index: DeviceIndex = c"ibv_get_device_index",
        /// Since rdma-core 63.
        port_speed: PortSpeed = c"ibv_query_port_speed",
        /// Since rdma-core 40.
        data_in_order: DataInOrder = c"ibv_query_qp_data_in_order",
    }
}

/// `ibv_get_device_index`; negative if library or kernel do not tell.
///
/// # Safety
/// `context` is live and of libibverbs.
pub(crate) unsafe fn device_index(context: *mut ibv_context) -> c_int {
    // SAFETY: a device is live as long as a context of it.
    unsafe { index_of_device((*context).device) }
}

/// The same, of a device.
///
/// # Safety
/// `device` is a live device of libibverbs.
pub(crate) unsafe fn index_of_device(device: *mut ibv_device) -> c_int {
    match symbols().device_index {
        // SAFETY: the device is live (this function's contract).
        Some(index) => unsafe { index(device) },
        None => -1,
    }
}

/// `ibv_query_port_speed`; ENOSYS if the library lacks it.
///
/// # Safety
/// `context` is live and of libibverbs.
pub(crate) unsafe fn query_port_speed(context: *mut ibv_context, port: u8) -> Answer<u64> {
    let ask = symbols().port_speed.ok_or(libc::ENOSYS)?;
    let mut speed = 0;
    // SAFETY: the context is the verb's, and the speed is a local.
    match unsafe { ask(context, port.into(), &mut speed) } {
        0 => Ok(speed),
        answer if answer < 0 => Err(errno()),
        answer => Err(answer),
    }
}

/// `ibv_query_rt_values_ex`, as C's inline does it.
///
/// # Safety
/// `context` is live and of libibverbs.
pub(crate) unsafe fn query_rt_values(
    context: *mut ibv_context,
    values: &mut ibv_values_ex,
) -> Answer {
    // SAFETY: the context is the verb's, and the values are writable.
    unsafe { done(op::<QueryRtValues>(context, QUERY_RT_VALUES)?(context, values)) }
}

/// `ibv_query_qp_data_in_order`; a library without it promises nothing.
///
/// # Safety
/// `qp` is live and of libibverbs.
pub(crate) unsafe fn data_in_order(qp: *mut ibv_qp, opcode: u32) -> bool {
    // SAFETY: the queue pair is the verb's, and the opcode a number that the library looks at.
    symbols().data_in_order.is_some_and(|ask| unsafe { ask(qp, opcode, 0) } == 1)
}

#[cfg(test)]
mod tests;
