//! What the hot path leaves to cold functions, and their results.

#![allow(unsafe_code)] // out-pointers

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// What `fill` writes. A cold function that returns a large value writes it to the place of the hot path's
/// result, which then has to be in memory; through a local of its own it does not.
#[inline(always)]
pub(crate) fn out_of_line<R>(fill: impl FnOnce(*mut R)) -> R {
    let mut out = MaybeUninit::uninit();
    fill(out.as_mut_ptr());
    // SAFETY: `fill` wrote it.
    unsafe { out.assume_init() }
}

/// Where a device says from which work request `W` on it refused a list, and beside it what is needed then: in
/// memory that the device's function could reach, so that no register is kept for it over the call.
#[repr(C)]
pub(crate) struct Outcome<'a, W, C> {
    bad: *mut W,
    context: *mut C,
    _context: PhantomData<&'a mut C>,
}

impl<'a, W, C> Outcome<'a, W, C> {
    #[inline(always)]
    pub(crate) fn new(context: &'a mut C) -> Self {
        Outcome { bad: ptr::null_mut(), context, _context: PhantomData }
    }

    /// For `bad_wr`.
    #[inline(always)]
    pub(crate) fn bad(&mut self) -> *mut *mut W {
        ptr::from_mut(self).cast()
    }

    /// What the device said, and the context.
    #[inline(always)]
    pub(crate) fn read(self) -> (*mut W, &'a mut C) {
        // SAFETY: it was borrowed for `'a`, and a device writes at most `bad`.
        (self.bad, unsafe { &mut *self.context })
    }
}

/// Drops what an iterator gives. If a drop panics, which is the user's code, the others are dropped all the same.
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

/// A value in which no other is stored (see `Option`).
#[derive(Clone, Copy)]
pub(crate) struct Plain<T: Copy>(MaybeUninit<T>);

impl<T: Copy> Plain<T> {
    pub(crate) fn new(value: T) -> Self {
        Plain(MaybeUninit::new(value))
    }

    pub(crate) fn get(&self) -> T {
        // SAFETY: written in `new`.
        unsafe { self.0.assume_init() }
    }
}
