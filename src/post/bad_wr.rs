//! C's `bad_wr`, with the queue beside it.
//!
//! After the verb, only a refusal needs the queue again. Were it a plain variable, the hot path
//! would keep it over the call in a register that it has to save and restore. Here it is stored
//! next to `bad_wr`, where the provider might write for all that LLVM knows, so it is loaded again
//! where it is needed. (With `plain`, this saves 4 instructions a post.)

#![allow(unsafe_code)] // a reference through a pointer that a provider could reach

use std::marker::PhantomData;
use std::ptr;

/// The out-parameter `bad_wr` of a verb that posts work requests `W`, and the queue.
#[repr(C)]
pub(super) struct BadWr<'q, W, Q> {
    bad: *mut W,
    queue: *mut Q,
    _queue: PhantomData<&'q mut Q>,
}

impl<'q, W, Q> BadWr<'q, W, Q> {
    #[inline(always)]
    pub fn new(queue: &'q mut Q) -> Self {
        BadWr { bad: ptr::null_mut(), queue, _queue: PhantomData }
    }

    /// For the verb.
    #[inline(always)]
    pub fn out(&mut self) -> *mut *mut W {
        ptr::from_mut(self).cast()
    }

    /// What the verb said, and the queue.
    #[inline(always)]
    pub fn read(self) -> (*mut W, &'q mut Q) {
        // SAFETY: it was borrowed for `'q`, and a provider writes at most `bad`.
        (self.bad, unsafe { &mut *self.queue })
    }
}
