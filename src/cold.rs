//! Helpers for cold functions: their results, and what they keep out of registers.

#![allow(unsafe_code)] // out-pointers

use std::mem::MaybeUninit;

/// Calls `fill` with the place of a result, in a local of its own. A cold function that returns a
/// large value writes it to the place of the hot path's result, which then has to be in memory;
/// this way it need not be.
#[inline(always)]
pub(crate) fn out_of_line<R>(fill: impl FnOnce(*mut R)) -> R {
    let mut out = MaybeUninit::uninit();
    fill(out.as_mut_ptr());
    // SAFETY: `fill` wrote it, as asked of the callers.
    unsafe { out.assume_init() }
}

/// Tells the optimiser which way is taken seldom, and to forget there what it knows of memory: else
/// it keeps values of before in registers for that way, on all others too.
#[inline(always)]
pub(crate) fn seldom() {
    #[cold]
    fn cold() {}
    cold();
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// Drops what an iterator yields. If a drop, which is the user's code, panics, the others are still
/// dropped.
pub(crate) fn drop_each<I: Iterator>(entries: &mut I) {
    struct Rest<'a, I: Iterator>(&'a mut I);
    impl<I: Iterator> Drop for Rest<'_, I> {
        fn drop(&mut self) {
            drop_each(self.0);
        }
    }
    let rest = Rest(entries);
    for entry in rest.0.by_ref() {
        drop(entry);
    }
    std::mem::forget(rest);
}
