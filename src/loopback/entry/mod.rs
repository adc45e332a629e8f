//! The C boundary: pointers come in, are read once, and numbers go on.
//!
//! Each C object is one allocation, freed when the verb that destroys it succeeded. Its pointer is derived
//! once, and no reference to a whole object is ever made, since users read its fields meanwhile.
#![allow(unsafe_code)] // C objects are handed out and taken as raw pointers.

mod asynchronous;
mod attr;
mod completion;
mod context;
mod memory;
mod ops;
mod pair;
mod read_wr;
mod write_wc;

pub(super) use asynchronous::*;
pub(super) use completion::*;
pub(super) use context::*;
pub(super) use memory::*;
pub(super) use pair::*;

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::Verb;
use super::fabric::{Shared, State};
use crate::sys::types::*;

/// An open device. The context comes first, so a pointer to it is one to this.
#[repr(C)]
struct Device {
    context: ibv_context,
    device: ibv_device,
    shared: Arc<Shared>,
    number: u32,
}

/// A completion channel, whose C struct has no room for a number.
#[repr(C)]
struct Channel {
    channel: ibv_comp_channel,
    number: u32,
}

/// What a C object says about itself.
///
/// # Safety
/// `locate` gives what the object was created with; for a context, that of the `Device` around it.
unsafe trait Object {
    /// The context that the object belongs to, and its number on the fabric.
    ///
    /// # Safety
    /// `this` is a live object of this provider.
    unsafe fn locate(this: *mut Self) -> (*mut ibv_context, u32);
}

macro_rules! objects {
    ($($object:ty as $whole:ty: $($context:ident).+, $number:ident;)*) => {$(
        // SAFETY: both fields are written at creation and by nobody after.
        unsafe impl Object for $object {
            unsafe fn locate(this: *mut Self) -> (*mut ibv_context, u32) {
                let this = this.cast::<$whole>();
                // SAFETY: live, by the caller's contract, and made as a `$whole`.
                let context = unsafe { (*this).$($context).+ };
                // SAFETY: as above.
                (context, unsafe { (*this).$number })
            }
        }
    )*};
}

objects! {
    ibv_pd as ibv_pd: context, handle;
    ibv_mr as ibv_mr: context, handle;
    ibv_ah as ibv_ah: context, handle;
    ibv_cq as ibv_cq: context, handle;
    ibv_srq as ibv_srq: context, handle;
    ibv_qp as ibv_qp: context, handle;
    ibv_comp_channel as Channel: channel.context, number;
}

// SAFETY: the number is that of the device, written at creation and never after.
unsafe impl Object for ibv_context {
    unsafe fn locate(this: *mut Self) -> (*mut ibv_context, u32) {
        // SAFETY: a live context is the first field of a `Device`, and keeps its provenance.
        (this, unsafe { (*this.cast::<Device>()).number })
    }
}

/// The fabric of an object, kept alive for the call, and the object's number.
///
/// # Safety
/// `object` is a live object of this provider.
unsafe fn locate<T: Object>(object: *mut T) -> (Arc<Shared>, u32) {
    // SAFETY: the caller's contract.
    let (context, number) = unsafe { T::locate(object) };
    let device = context.cast::<Device>();
    // SAFETY: the context outlives its objects (`close_device` refuses otherwise).
    let shared = unsafe { Arc::clone(&(*device).shared) };
    (shared, number)
}

/// Runs a verb on an object.
///
/// # Safety
/// `object` is a live object of this provider.
unsafe fn verb<T: Object, R>(object: *mut T, verb: impl FnOnce(&mut State, u32) -> R) -> R {
    // SAFETY: the caller's contract.
    let (shared, number) = unsafe { locate(object) };
    shared.verb(|state| verb(state, number))
}

/// Runs a verb that destroys an object, and frees the object when it did.
///
/// # Safety
/// `object` is a live object of this provider, `T` all of its allocation, and nobody uses it after.
unsafe fn destroy<T: Object>(object: *mut T, end: fn(&mut State, u32) -> Verb) -> c_int {
    // SAFETY: the caller's contract.
    let result = unsafe { verb(object, end) };
    if result.is_ok() {
        // SAFETY: made by `hand_out::<T>`, and destroyed only once.
        drop(unsafe { Box::from_raw(object) });
    }
    errno_of(result)
}

/// The number of a device, if it is one of this fabric.
pub(super) fn number_on(
    shared: &Arc<Shared>,
    context: &crate::sys::handle::Context,
) -> Option<u32> {
    if !ptr::eq(context.control(), &super::LOOPBACK) {
        return None;
    }
    // SAFETY: a live context of this provider.
    let (fabric, number) = unsafe { locate(context.as_ptr()) };
    Arc::ptr_eq(&fabric, shared).then_some(number)
}

/// The pointer by which C knows an object from now on.
fn hand_out<T>(object: T) -> NonNull<T> {
    NonNull::from(Box::leak(Box::new(object)))
}

fn errno_of(result: Verb) -> c_int {
    result.err().unwrap_or(0)
}

/// Whether two objects are of one context: numbers mean nothing on another fabric.
///
/// # Safety
/// Both are live objects of this provider.
unsafe fn same_context<A: Object, B: Object>(a: *mut A, b: *mut B) -> bool {
    // SAFETY: the caller's contract.
    let (a, _) = unsafe { A::locate(a) };
    // SAFETY: the caller's contract.
    let (b, _) = unsafe { B::locate(b) };
    a == b
}
