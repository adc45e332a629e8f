//! Memory of a device, on the heap.

#![allow(unsafe_code)] // Owns memory that the device accesses.

use std::ptr::NonNull;

use proverbs_sys::mem::open::Open;

/// Memory of a device, aligned to a page. The manual pages do not define its initial content.
pub(crate) struct Dm {
    pub(crate) device: u32,
    pub(crate) base: NonNull<Page>,
    pub(crate) length: usize,
}

#[derive(Clone)]
#[repr(align(4096))]
pub(crate) struct Page(#[allow(dead_code)] [u8; 4096]); // accessed through raw pointers

// SAFETY: it owns its pages, which are accessed only under the fabric's lock.
unsafe impl Send for Dm {}

impl Dm {
    pub(crate) fn new(device: u32, length: usize) -> Dm {
        let pages = vec![Page([0xd7; 4096]); length.div_ceil(4096)].into_boxed_slice();
        Dm { device, base: NonNull::from(Box::leak(pages)).cast(), length }
    }

    pub(crate) fn open(&self) -> Open {
        // SAFETY: the pages exist while the value is used, and are accessed only under the fabric's
        // lock.
        unsafe { Open::new(self.base.cast(), self.length) }
    }
}

impl Drop for Dm {
    fn drop(&mut self) {
        let pages = NonNull::slice_from_raw_parts(self.base, self.length.div_ceil(4096));
        // SAFETY: `new` made the pointer from this box, and it is dropped once. No region refers to
        // the memory any more (`free_dm`).
        drop(unsafe { Box::from_raw(pages.as_ptr()) });
    }
}
