//! Helpers for cold functions: their results, and what they keep out of registers.

use std::collections::TryReserveError;
use std::mem::MaybeUninit;

/// An empty vector with room for `len` elements.
pub fn reserve<T>(len: usize) -> Result<Vec<T>, TryReserveError> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len)?;
    Ok(vec)
}

/// Calls `fill` with the place of a result, in a local of its own. A cold function that returns a
/// large value writes it to the place of the hot path's result, which then has to be in memory;
/// this way it need not be.
///
/// # Safety
/// `fill` writes to the place, or does not return.
#[inline(always)]
pub unsafe fn out_of_line<R>(fill: impl FnOnce(*mut R)) -> R {
    let mut out = MaybeUninit::uninit();
    fill(out.as_mut_ptr());
    // SAFETY: `fill` returned, so it wrote there (this function's contract).
    unsafe { out.assume_init() }
}

/// Marks the branch that it is called on as rare. The branch is moved behind the others, so that
/// these have a jump less. And the compiler may not assume there that memory is as it was: else it
/// would load values early, for the rare branch, and keep them in registers on all branches. Where
/// what that saves was counted, the comment at the call says so: 4 instructions in
/// `Completion::outcome`, and a jump in each copy of whole words.
#[inline(always)]
pub fn cold_path() {
    #[cold]
    fn cold() {}
    cold();
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// Drops what an iterator yields. If a drop, which is the user's code, panics, the others are still
/// dropped.
pub fn drop_each<I: Iterator>(entries: &mut I) {
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
