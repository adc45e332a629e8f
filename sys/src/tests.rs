//! Functions that take C's place: what they were called with, what they answer, and contexts that
//! have them.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::ptr;

use super::types::{ibv_context, ibv_device, zeroed};

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    pub static ANSWER: Cell<c_int> = const { Cell::new(0) };
}

pub fn saw(call: impl Into<String>) {
    SEEN.with_borrow_mut(|seen| seen.push(call.into()));
}

pub fn seen() -> Vec<String> {
    SEEN.with_borrow_mut(std::mem::take)
}

/// Notes the call, and answers it; errno is EPERM.
pub fn answered(call: impl Into<String>) -> c_int {
    saw(call);
    // SAFETY: errno is this thread's.
    unsafe { *libc::__errno_location() = libc::EPERM };
    ANSWER.get()
}

/// The end of a `verbs_context`, as far as its operations are looked at, and its device.
#[repr(C)]
struct Fake<const WORDS: usize> {
    operations: [*const (); WORDS],
    context: ibv_context,
    device: ibv_device,
}

/// A context whose `verbs_context` has `size` bytes and these operations, each so many bytes before
/// the context. `WORDS` words are before it. It lives for ever.
pub fn context<const WORDS: usize>(
    size: usize,
    operations: &[(usize, *const ())],
) -> *mut ibv_context {
    let abi_compat = ptr::without_provenance_mut(usize::MAX);
    let context = ibv_context { abi_compat, ..zeroed() };
    let mut fake = Fake { operations: [ptr::null(); WORDS], context, device: zeroed() };
    fake.operations[WORDS - 1] = ptr::without_provenance(size);
    for (distance, function) in operations {
        fake.operations[WORDS - distance / 8] = *function;
    }
    let fake = Box::into_raw(Box::new(fake));
    // SAFETY: the fields of a live object. The pointer is one to the whole, since operations lie
    // before the context.
    unsafe {
        (*fake).context.device = &raw mut (*fake).device;
        fake.byte_add(std::mem::offset_of!(Fake<WORDS>, context)).cast()
    }
}
