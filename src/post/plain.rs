//! A value without a niche.
//!
//! `Result<(), PostError>` would keep its discriminant in a niche of the error's fields, so that
//! each way through a post writes those. Without niches it is a byte of its own, a constant on each
//! way. (With `bad_wr`, this saves 4 instructions a post.)

#![allow(unsafe_code)] // reads what was written

use std::mem::MaybeUninit;

/// Hides the niche of `T`.
#[derive(Clone, Copy)]
pub(super) struct Plain<T: Copy>(MaybeUninit<T>);

impl<T: Copy> Plain<T> {
    pub fn new(value: T) -> Self {
        Plain(MaybeUninit::new(value))
    }

    pub fn get(&self) -> T {
        // SAFETY: `new` wrote it, and nothing else makes one.
        unsafe { self.0.assume_init() }
    }
}
