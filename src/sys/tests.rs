//! What functions that take C's place were called with, and what they answer.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    pub(super) static ANSWER: Cell<c_int> = const { Cell::new(0) };
}

pub(super) fn saw(call: impl Into<String>) {
    SEEN.with_borrow_mut(|seen| seen.push(call.into()));
}

pub(super) fn seen() -> Vec<String> {
    SEEN.with_borrow_mut(std::mem::take)
}

/// Notes the call, and answers it; errno is EPERM.
pub(super) fn answered(call: impl Into<String>) -> c_int {
    saw(call);
    // SAFETY: errno is this thread's.
    unsafe { *libc::__errno_location() = libc::EPERM };
    ANSWER.get()
}
