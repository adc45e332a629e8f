//! Handles that are linked through their headers.

#![allow(unsafe_code)] // follows the links between headers

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use crate::cold::drop_each;
use crate::memory::header::{Handle, Header};

/// A list of handles that does not allocate.
///
/// # Invariants
/// Links lead from `first`, which may be null, from header to header, and end with null. The list
/// owns the only handles to the headers. They have the type `H`.
pub(crate) struct Chain<H: Handle> {
    first: *mut Header,
    _owns: PhantomData<H>,
}

// SAFETY: a list only owns its handles.
unsafe impl<H: Handle + Send> Send for Chain<H> {}
// SAFETY: a shared list only gives shared access to its handles.
unsafe impl<H: Handle + Sync> Sync for Chain<H> {}

impl<H: Handle> Chain<H> {
    #[inline(always)]
    pub fn new() -> Self {
        Chain { first: ptr::null_mut(), _owns: PhantomData }
    }

    /// # Safety
    /// `first` was returned by `into_first`, or by `first` of a list that the caller does not use
    /// or drop any more.
    #[inline(always)]
    pub unsafe fn from_first(first: *mut Header) -> Self {
        // INVARIANT: required from the caller.
        Chain { first, _owns: PhantomData }
    }

    /// The first header, or null.
    #[inline(always)]
    pub fn first(&self) -> *mut Header {
        self.first
    }

    #[inline(always)]
    pub fn push(&mut self, handle: H) {
        self.push_tagged(handle, 0);
    }

    /// Inserts a handle, with a tag that its link keeps.
    #[inline(always)]
    pub fn push_tagged(&mut self, handle: H, tag: usize) {
        debug_assert!(tag & !H::LINK_TAGS == 0);
        handle.header().link.set_next(self.first.map_addr(|first| first | tag));
        self.first = ManuallyDrop::new(handle).at();
    }

    /// The next header, without the tag of the link.
    #[inline(always)]
    fn untagged(next: *mut Header) -> *mut Header {
        match H::LINK_TAGS {
            0 => next,
            tags => next.map_addr(|next| next & !tags),
        }
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<H> {
        let header = NonNull::new(self.first)?;
        // SAFETY: the list owns the handle, so the header is alive. The handle leaves the list with
        // the first operation and is given up with the second.
        unsafe {
            self.first = Self::untagged(header.as_ref().link.unlink());
            Some(H::from_header(header.as_ptr()))
        }
    }

    /// Appends a list, by walking to the end of this one.
    #[inline(always)]
    pub fn append(&mut self, other: Self) {
        let first = ManuallyDrop::new(other).first;
        let Some(mut last) = NonNull::new(self.first) else {
            self.first = first;
            return;
        };
        // SAFETY: the list owns the handles, so the headers are alive.
        unsafe {
            // The first test is before the loop, so that a list of one handle needs no loop.
            while let Some(next) = NonNull::new(Self::untagged(last.as_ref().link.next())) {
                last = next;
            }
            let link = &last.as_ref().link;
            link.set_next(first.map_addr(|first| first | link.next().addr()));
        }
    }

    pub fn headers(&self) -> impl Iterator<Item = &Header> {
        // SAFETY: the list owns the handles, so the headers are alive.
        self.addresses().map(|header| unsafe { header.as_ref() })
    }

    /// The addresses of the headers, in order.
    pub fn addresses(&self) -> impl Iterator<Item = NonNull<Header>> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let header = NonNull::new(at)?;
            // SAFETY: the list owns the handle, so the header is alive.
            at = Self::untagged(unsafe { header.as_ref() }.link.next());
            Some(header)
        })
    }
}

impl<H: Handle> Drop for Chain<H> {
    #[inline(always)]
    fn drop(&mut self) {
        #[cold]
        #[inline(never)]
        fn rest<H: Handle>(first: *mut Header) {
            // INVARIANT: the list of the other value, which is being dropped.
            let mut rest = ManuallyDrop::new(Chain::<H> { first, _owns: PhantomData });
            drop_each(&mut std::iter::from_fn(|| rest.pop()));
        }
        if !self.first.is_null() {
            rest::<H>(self.first);
        }
    }
}
