//! A device for the models, which run with loom's atomics and locks: `cargo xtask test loom`.
//! Nothing completes on it.

#![allow(unsafe_code)] // stubs of C functions

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock};

use crate::device::{Context, ProtectionDomain};
use crate::sys::control::{Answer, Control, Created, Holds, LIBIBVERBS};
use crate::sys::handle;
use crate::sys::provider::Provider;
use crate::sys::types::{ibv_context, ibv_cq, ibv_mr, ibv_pd, zeroed};

static CONTROL: LazyLock<Control> = LazyLock::new(|| Control {
    close_device: free,
    provider: |_| Provider::Mlx5,
    alloc_pd,
    dealloc_pd: free,
    reg_mr,
    dereg_mr: free,
    destroy_cq: free,
    ..LIBIBVERBS
});

fn made<T>(object: T) -> NonNull<T> {
    NonNull::from(Box::leak(Box::new(object)))
}

/// # Safety
/// `made` returned the object, which is not used again.
unsafe fn free<T>(object: *mut T) -> Answer {
    // SAFETY: it came from a box (this function's contract).
    drop(unsafe { Box::from_raw(object) });
    Ok(())
}

unsafe fn alloc_pd(context: *mut ibv_context) -> Created<ibv_pd> {
    Ok(made(ibv_pd { context, ..zeroed() }))
}

unsafe fn reg_mr(pd: *mut ibv_pd, _: *mut u8, _: usize, _: u32, _: Holds) -> Created<ibv_mr> {
    Ok(made(ibv_mr { pd, ..zeroed() }))
}

fn device() -> Context {
    // SAFETY: the object was just created, and `free` ends it. The functions of the table that the
    // models reach do what their namesakes do, without a device.
    let handle = unsafe { handle::Context::new(made(zeroed()), &CONTROL, Default::default()) };
    Context { handle: Arc::new(handle) }
}

/// A protection domain.
pub(crate) fn pd() -> ProtectionDomain {
    device().alloc_pd().unwrap()
}

/// A completion queue.
pub(crate) fn cq(capacity: u32) -> Arc<handle::Cq> {
    let parents = handle::CqParents { context: device().handle, channel: None };
    let cq = made(ibv_cq { cqe: capacity as c_int, ..zeroed() });
    // SAFETY: as for the device.
    Arc::new(unsafe { handle::Cq::new(cq, &CONTROL, parents) })
}

/// Runs a model in every order with at most `stops` preemptions. (All possible orders would take
/// minutes to hours.)
pub(crate) fn model(stops: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(stops);
    builder.check(run);
}
