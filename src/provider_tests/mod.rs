//! The calls that the safe interface makes to a provider, checked by stub functions. They test the
//! modules of `proverbs-sys` that a queue pair, a region or a completion queue reaches.

#![allow(unsafe_code)] // functions in C's place

#[cfg(feature = "cm")]
pub(crate) mod cm;
mod cold_calls;
mod lanes;
mod memory;
mod polling;
mod refused;
mod xrc;

use crate::sys::control::Control;
use crate::sys::handle::{Handle, Object};

/// Replaces the provider of an object by one that answers what the test says.
pub(crate) trait SetControl {
    fn set_control(&mut self, control: &'static Control);
}

impl<O: Object> SetControl for Handle<O> {
    fn set_control(&mut self, control: &'static Control) {
        // SAFETY: the tables of these tests do what the loopback's, or C's stub, do with the same
        // objects, or answer an errno.
        unsafe { self.replace_control(control) };
    }
}
