//! Helpers for cold functions: their results, and what they keep out of registers.

use std::collections::TryReserveError;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};

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
pub fn seldom() {
    #[cold]
    fn cold() {}
    cold();
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// A vector that mostly never had anything: then nothing is called to drop it (20 instructions, and
/// a queue pair's end has several).
pub struct Few<T>(ManuallyDrop<Vec<T>>);

impl<T> Few<T> {
    pub const fn new() -> Self {
        Few(ManuallyDrop::new(Vec::new()))
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few::new()
    }
}

impl<T> Deref for Few<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T> Drop for Few<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // (One that has room for none has no memory either, and no values.)
        if self.0.capacity() != 0 {
            drop_cold(&mut *self.0);
        }
    }
}

/// Drops a value where there is mostly none, by a call: so the others save no registers for it.
///
/// It leaves an empty one, so nothing is dropped twice.
#[cold]
#[inline(never)]
pub fn drop_cold<T: Default>(value: &mut T) {
    drop(std::mem::take(value));
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
