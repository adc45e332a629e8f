//! The objects. Each has only its own data and refers to others by number.

pub(crate) mod channel;
#[cfg(feature = "cm")]
pub(crate) mod cm;
pub(crate) mod cq;
pub(crate) mod device_memory;
pub(crate) mod domains;
pub(crate) mod events;
pub(crate) mod faults;
pub(crate) mod memory;
pub(crate) mod qp;
pub(crate) mod signal;
pub(crate) mod srq;
pub(crate) mod window;

use std::ptr::NonNull;

/// A C object, which events return.
pub(crate) struct Object<T>(pub(crate) NonNull<T>);

impl<T> Clone for Object<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Object<T> {}

#[allow(unsafe_code)] // a pointer that moves between threads
// SAFETY: the fabric only hands the pointer back to the C boundary, and never dereferences it.
unsafe impl<T> Send for Object<T> {}
