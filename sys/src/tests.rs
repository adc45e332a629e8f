//! Stubs of C functions: the calls they record, the results they return, and contexts that have
//! them.

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

/// Records the call, and returns the chosen result; errno is EPERM.
pub fn answered(call: impl Into<String>) -> c_int {
    saw(call);
    // SAFETY: errno belongs to this thread.
    unsafe { *libc::__errno_location() = libc::EPERM };
    ANSWER.get()
}

/// The end of a `verbs_context`, with the operations that are used, and its device.
#[repr(C)]
struct Fake<const WORDS: usize> {
    operations: [*const (); WORDS],
    context: ibv_context,
    device: ibv_device,
}

/// A context whose `verbs_context` has `size` bytes and these operations, each given with its
/// distance before the context. `WORDS` words precede it. It is leaked.
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
    // SAFETY: the fields of a live object. The pointer covers the whole, since operations come
    // before the context.
    unsafe {
        (*fake).context.device = &raw mut (*fake).device;
        fake.byte_add(std::mem::offset_of!(Fake<WORDS>, context)).cast()
    }
}
