//! The C boundary. Functions here read each C pointer once and pass numbers to the rest of the
//! crate.
//!
//! Each C object is one allocation, freed when the verb that destroys it succeeds. Its pointer is
//! derived once, and no reference to a whole object is ever made, since users may read its fields
//! at any time.
//!
//! # Safety of the verbs
//! The `unsafe` functions of these tables are called as the manual pages require. The SAFETY
//! comments call this *the verb's contract*: objects are live, were made by this provider, and are
//! not used after the verb that destroys them succeeds; attributes are readable as far as the mask
//! says, and writable where the verb returns something; registered memory stays valid until it is
//! deregistered.

#![allow(unsafe_code)] // C objects are handed out and taken as raw pointers.

mod attr;
mod completion;
mod context;
mod device_memory;
mod lanes;
mod memory;
mod ops;
mod pair;
mod polling;
mod posting;
mod read_wr;
mod table;
mod window;
mod write_wc;
mod xrc;

#[cfg(feature = "cm")]
pub(crate) use attr::attributes_to_c;
pub(crate) use context::open;
#[cfg(feature = "cm")]
pub(crate) use memory::address_to;
pub use table::LOOPBACK;
pub(crate) use table::number_on;

use std::ffi::c_int;
use std::ptr;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::shared::{Call, Shared};
use crate::state::State;
use crate::words::Verb;
use polling::Queue;
use posting::Pair;
use xrc::XrcDomain;

use proverbs_sys::lanes::ibv_td;
use proverbs_sys::memory::ibv_dm;
use proverbs_sys::types::*;
use proverbs_sys::xrc::ibv_xrcd;

/// An open device. The context is the first field, so a pointer to it is also a pointer to the
/// device.
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

/// A protection domain, or a parent domain. A parent domain has its own number and the number of
/// the domain below it.
#[repr(C)]
struct Domain {
    pd: ibv_pd,
    joint: Option<u32>,
}

/// A thread domain.
#[repr(C)]
struct Thread {
    td: ibv_td,
    number: u32,
}

/// A C object with a context and a number.
///
/// # Safety
/// `locate` returns the context and number that the object was created with; for a context, it
/// returns those in the `Device` around it. Each object was handed out as the beginning of a
/// `Whole`.
unsafe trait Object {
    /// The object, and what is allocated with it.
    type Whole;

    /// Whether the object may be restricted to one thread.
    const MAY_BE_IN_A_LANE: bool = false;

    /// The context that the object belongs to, and its number on the fabric.
    ///
    /// # Safety
    /// `this` is a live object of this provider.
    unsafe fn locate(this: *mut Self) -> (*mut ibv_context, u32);
}

macro_rules! objects {
    ($($object:ty as $whole:ty: $($context:ident).+, $($number:ident).+ $(, $lane:expr)?;)*) => {$(
        // SAFETY: both fields are written at creation and never after.
        unsafe impl Object for $object {
            type Whole = $whole;

            $(const MAY_BE_IN_A_LANE: bool = $lane;)?

            unsafe fn locate(this: *mut Self) -> (*mut ibv_context, u32) {
                let this = this.cast::<Self::Whole>();
                // SAFETY: the object is live (this function's contract), and was made as a
                // `$whole`.
                unsafe { ((*this).$($context).+, (*this).$($number).+) }
            }
        }
    )*};
}

objects! {
    ibv_pd as Domain: pd.context, pd.handle;
    ibv_td as Thread: td.context, number;
    ibv_mr as ibv_mr: context, handle;
    ibv_mw as ibv_mw: context, handle, true;
    ibv_dm as ibv_dm: context, handle;
    ibv_ah as ibv_ah: context, handle;
    ibv_cq as Queue: ex.cq.context, ex.cq.handle, true;
    ibv_srq as ibv_srq: context, handle, true;
    ibv_qp as Pair: ex.of_24.qp_base.context, ex.of_24.qp_base.handle, true;
    ibv_comp_channel as Channel: channel.context, number;
    ibv_xrcd as XrcDomain: xrcd.context, number;
}

// SAFETY: the device's number is written at creation and never after.
unsafe impl Object for ibv_context {
    type Whole = Device;

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
    // SAFETY: the object is live (this function's contract). Its context outlives it, since
    // `close_device` refuses while a device has objects, and is the first field of a `Device`.
    unsafe {
        let (context, number) = T::locate(object);
        (Arc::clone(&(*context.cast::<Device>()).shared), number)
    }
}

/// Runs a verb on an object.
///
/// # Safety
/// `object` is a live object of this provider.
unsafe fn verb<T: Object, R>(object: *mut T, verb: impl FnOnce(&mut State, u32) -> R) -> R {
    // SAFETY: the object is live (this function's contract).
    let (shared, number) = unsafe { locate(object) };
    shared.verb(|state| {
        if T::MAY_BE_IN_A_LANE {
            state.check_thread(number);
        }
        verb(state, number)
    })
}

/// Runs a verb of the data path, which only one caller at a time may use. A post returns before the
/// devices work; a poll lets them work first.
///
/// # Safety
/// `object` is a live object of this provider.
unsafe fn alone<T: Object, R>(
    object: *mut T,
    call: Call,
    verb: impl FnOnce(&mut State, u32) -> R,
) -> R {
    // SAFETY: the object is live (this function's contract).
    let (shared, number) = unsafe { locate(object) };
    let _begun = shared.begin(call, number);
    let run = |state: &mut State| {
        state.check_thread(number);
        verb(state, number)
    };
    if call == Call::Poll { shared.verb(run) } else { shared.post(run) }
}

/// Runs a verb that destroys an object, and frees the object if it succeeded.
///
/// # Safety
/// `object` is a live object of this provider. If the verb succeeds it is not used afterwards.
unsafe fn destroy<T: Object>(object: *mut T, end: impl FnOnce(&mut State, u32) -> Verb) -> Verb {
    // SAFETY: the object is live (this function's contract).
    unsafe { verb(object, end) }?;
    // SAFETY: made as a `Whole` (`Object`), and freed only once, since it is not used afterwards.
    drop(unsafe { Box::from_raw(object.cast::<T::Whole>()) });
    Ok(())
}

/// Allocates an object, and returns the pointer that C uses for it.
fn hand_out<T>(object: T) -> NonNull<T> {
    NonNull::from(Box::leak(Box::new(object)))
}

pub(crate) fn errno_of(result: Verb) -> c_int {
    result.err().unwrap_or(0)
}

/// Whether two objects belong to one context. The number of an object is valid only on the fabric
/// of its context.
///
/// # Safety
/// Both are live objects of this provider.
unsafe fn same_context<A: Object, B: Object>(a: *mut A, b: *mut B) -> bool {
    // SAFETY: both objects are live (this function's contract).
    unsafe { A::locate(a).0 == B::locate(b).0 }
}

/// The number of `object`, if it is not null and belongs to the same context as `beside`.
///
/// # Safety
/// `beside` is a live object of this provider; `object` is one or null.
unsafe fn number_beside<A: Object, T: Object>(beside: *mut A, object: *mut T) -> Option<u32> {
    if object.is_null() {
        return None;
    }
    // SAFETY: both objects are live (this function's contract, and not null).
    unsafe { same_context(beside, object).then(|| T::locate(object).1) }
}
