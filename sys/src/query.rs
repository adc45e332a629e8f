//! Verbs that only query. Some are extended operations, which C calls in inline functions; others
//! are looked up on first use, since older libraries lack them.

#![allow(non_camel_case_types)] // C's names

use std::ffi::c_int;

use super::control::{Answer, done};
use super::extended::op;
use super::symbols::symbols;
use super::types::*;

/// How many bytes before the `ibv_context` the pointer to the operation is; see `extended`.
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
    // SAFETY: the functions have always had these types (`bindings::agreement` compares them with
    // the installed headers).
    unsafe struct Symbols of VERBS {
        /// Since rdma-core 28.
        device_index: DeviceIndex = c"ibv_get_device_index",
        /// Since rdma-core 63.
        port_speed: PortSpeed = c"ibv_query_port_speed",
        /// Since rdma-core 40.
        data_in_order: DataInOrder = c"ibv_query_qp_data_in_order",
    }
}

/// `ibv_get_device_index`; negative if the library or the kernel does not report it.
///
/// # Safety
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn device_index(context: *mut ibv_context) -> c_int {
    // SAFETY: the device lives as long as its context.
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
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn query_port_speed(context: *mut ibv_context, port: u8) -> Answer<u64> {
    let ask = symbols().port_speed.ok_or(libc::ENOSYS)?;
    let mut speed = 0;
    // SAFETY: the context is live (the verb's contract), and the speed is a local.
    done(unsafe { ask(context, port.into(), &mut speed) })?;
    Ok(speed)
}

/// `ibv_query_rt_values_ex`, like C's inline function.
///
/// # Safety
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn query_rt_values(
    context: *mut ibv_context,
    values: &mut ibv_values_ex,
) -> Answer {
    // SAFETY: the context is live (the verb's contract), and the values are writable.
    unsafe { done(op::<QueryRtValues>(context, QUERY_RT_VALUES)?(context, values)) }
}

/// `ibv_query_qp_data_in_order`; `false` if the library lacks it.
///
/// # Safety
/// `qp` is live and belongs to libibverbs.
pub(crate) unsafe fn data_in_order(qp: *mut ibv_qp, opcode: u32) -> bool {
    // SAFETY: the queue pair is live (the verb's contract), and the library checks the opcode.
    symbols().data_in_order.is_some_and(|ask| unsafe { ask(qp, opcode, 0) } == 1)
}

#[cfg(test)]
mod tests;
