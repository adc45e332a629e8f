//! The calls that the safe interface makes to a provider, checked by stub functions. They test the
//! modules of `proverbs-sys` that a queue pair, a region or a completion queue reaches.

#![allow(unsafe_code)] // stubs of C functions

#[cfg(feature = "cm")]
pub(crate) mod cm;
mod cold_calls;
mod lanes;
mod memory;
mod polling;
mod refused;
mod wrong_value;
mod xrc;

use std::sync::Arc;

use crate::device::context::Context;
use crate::loopback::Fabric;
use crate::sys::control::Control;
use crate::sys::handle::{Handle, Object};

impl Fabric {
    /// A device whose context has no other handle.
    pub(crate) fn open_alone(&self) -> Context {
        Context { handle: self.0.open_alone().into() }
    }
}

/// A device of the fabric with this table of verbs.
pub(crate) fn device_with(fabric: Fabric, control: Control) -> Context {
    let mut context = fabric.open_alone();
    let handle = Arc::get_mut(&mut context.handle).unwrap();
    handle.set_control(Box::leak(Box::new(control)));
    context
}

/// Replaces the provider of an object with one that the test controls.
pub(crate) trait SetControl {
    fn set_control(&mut self, control: &'static Control);
}

impl<O: Object> SetControl for Handle<O> {
    fn set_control(&mut self, control: &'static Control) {
        // SAFETY: the tables of these tests do the same with the same objects as the loopback's, or
        // as C's stub, or return an errno.
        unsafe { self.replace_control(control) };
    }
}
