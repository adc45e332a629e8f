//! The contents of `sync` under `cfg(loom)`: loom's types, which try every possible order.

pub use std::sync::atomic::Ordering;

pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

#[doc(hidden)]
#[macro_export]
macro_rules! __global {
    ($(#[$page:meta])* static $name:ident: $type:ty = $value:expr;) => {
        $crate::sync::lazy_static! {
            $(#[$page])*
            static ref $name: $type = $value;
        }
    };
}

pub use crate::__global as global;
pub use loom::lazy_static;

pub fn lock<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap()
}

pub fn try_lock<T: ?Sized>(of: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    of.try_lock().ok()
}

pub fn wait(_: u32) {
    loom::thread::yield_now();
}
