//! Spare headers of handles, as `src/memory/spares.rs` keeps them, but two threads never pass one
//! on: so no lock of theirs orders what the model is about.

use std::cell::RefCell;
use std::ptr::NonNull;

use crate::memory::lent::LentHeader;
use crate::sync::{Mutex, global};

// By their addresses: loom's statics must be `Send`.
global! {
    static MADE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
}

loom::thread_local! {
    static OWN: RefCell<Vec<NonNull<LentHeader>>> = RefCell::new(Vec::new());
}

pub fn take() -> NonNull<LentHeader> {
    OWN.with(|own| own.borrow_mut().pop()).unwrap_or_else(|| {
        let header = NonNull::from(Box::leak(Box::new(LentHeader::spare())));
        // SAFETY: a new header, which does not move any more.
        unsafe { LentHeader::place(header) };
        MADE.lock().unwrap().push(header.as_ptr().expose_provenance());
        header
    })
}

pub fn take_chain(n: usize) -> NonNull<LentHeader> {
    assert_eq!(n, 1, "no model shares with several at once");
    take()
}

/// # Safety
/// The header is the caller's alone.
pub unsafe fn put(header: NonNull<LentHeader>) -> bool {
    OWN.with(|own| own.borrow_mut().push(header));
    false
}

pub fn fewer() {
    unreachable!("no list is long");
}

pub fn each(mut see: impl FnMut(NonNull<LentHeader>)) {
    for &header in MADE.lock().unwrap().iter() {
        see(NonNull::new(std::ptr::with_exposed_provenance_mut(header)).unwrap());
    }
}
