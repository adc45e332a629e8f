//! Heap memory: values of the program, and allocations of this crate.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::mem::own::{Memory, Private, ReadOnly, Writable};
use crate::terms::error::Error;

/// Integers and floats: any bytes that the device writes are a valid value.
#[diagnostic::on_unimplemented(
    message = "not every byte is a `{Self}`, so no device may write one",
    label = "memory of `{Self}` cannot be registered",
    note = "register memory of integers or floats, such as `Vec<u8>` (R18.3)"
)]
pub trait Number: sealed::Sealed + Send + 'static {}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl sealed::Sealed for $t {}
        impl Number for $t {}
    )*};
}
numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

/// The bytes of `numbers`.
fn bytes_of<T: Number>(numbers: &mut [T]) -> NonNull<[u8]> {
    let len = size_of_val(numbers);
    NonNull::slice_from_raw_parts(NonNull::from(numbers).cast(), len)
}

// SAFETY: the slice is on the heap, initialised, and owned by the box. Numbers have no padding, and
// any bytes are a valid number. A boxed slice is never reallocated.
unsafe impl<T: Number> Memory for Box<[T]> {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        bytes_of(self)
    }
}

// SAFETY: the elements are on the heap, initialised up to the length, and owned by the vector.
// Numbers have no padding, and any bytes are a valid number. Only methods that take the vector
// mutably reallocate, and they cannot be called while it is given away. The spare capacity is not
// part of the range.
unsafe impl<T: Number> Memory for Vec<T> {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        bytes_of(self)
    }
}

// SAFETY: an exclusive reference with static lifetime, to initialised memory that no other code
// accesses and that is never freed. Numbers have no padding, and any bytes are a valid number.
unsafe impl<T: Number> Memory for &'static mut [T] {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        bytes_of(self)
    }
}

// SAFETY: initialised numbers on the heap, which live as long as one `Arc`. They are not written:
// `Arc::get_mut` needs the only `Arc`.
unsafe impl<T: Number + Sync> Memory for Arc<[T]> {
    type Sharing = Private;
    type Protection = ReadOnly;

    fn bytes(&mut self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(NonNull::from(&**self).cast(), size_of_val(&**self))
    }
}

// SAFETY: initialised numbers that are never freed and never written.
unsafe impl<T: Number + Sync> Memory for &'static [T] {
    type Sharing = Private;
    type Protection = ReadOnly;

    fn bytes(&mut self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(NonNull::from(*self).cast(), size_of_val(*self))
    }
}

/// Whole, zeroed pages on the heap: the [`Memory`] that [`create_pool`] and [`register`] allocate.
/// No other data shares the pages.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Pages;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteRead>(64)?;
/// region.write_at(0, b"hello")?;
/// let pages: Pages = region.destroy()?; // no device uses them any more, so they are a slice again
/// assert_eq!((&pages[..5], pages.len()), (&b"hello"[..], 64));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`create_pool`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.ProtectionDomain.html#method.create_pool
/// [`register`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.ProtectionDomain.html#method.register
pub struct Pages {
    // Invariants:
    // `base` is an initialised allocation of `layout`, at least `len` bytes long, owned by the
    // value.
    base: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: the value owns its memory, as a boxed slice does.
unsafe impl Send for Pages {}
// SAFETY: a shared value only gives shared access to its bytes.
unsafe impl Sync for Pages {}

/// The system's page size in bytes. Kernels pin whole pages and keep them from a child process
/// (`MADV_DONTFORK`), so allocations here do not share their pages with other data.
pub fn page() -> usize {
    // SAFETY: sysconf(3) with a valid name only reads.
    pages_of(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
}

/// The page size that the system reports, or 4096 if the value is invalid.
fn pages_of(size: libc::c_long) -> usize {
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

impl Pages {
    /// Allocates memory for `verb`, which errors name.
    #[doc(hidden)]
    pub fn new(verb: &'static str, len: usize) -> Result<Self, Error> {
        let asked = || format!("{len} bytes");
        if len == 0 {
            let asked = "cannot register 0 bytes";
            return Err(Error::os(verb, libc::EINVAL, asked));
        }
        let page = page();
        let layout = len.checked_next_multiple_of(page);
        let layout = layout.and_then(|size| Layout::from_size_align(size, page).ok());
        let no_memory = || Error::os(verb, libc::ENOMEM, asked());
        let layout = layout.ok_or_else(no_memory)?;
        debug_assert!(layout.size() != 0);
        // SAFETY: the size is not 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_memory)?;
        // INVARIANT: just allocated with this layout, zeroed, and `len` was rounded up.
        Ok(Pages { base, len, layout })
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: initialised and owned (invariant). While the value is given away, this cannot be
        // called.
        unsafe { NonNull::slice_from_raw_parts(self.base, self.len).as_ref() }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: initialised and owned (invariant), and borrowed exclusively.
        unsafe { NonNull::slice_from_raw_parts(self.base, self.len).as_mut() }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout (invariant), and dropped once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

impl_debug!(Pages, |it| "Pages({} bytes)", it.len);

// SAFETY: a separate, initialised allocation, freed only by `drop` and accessed only through the
// value.
unsafe impl Memory for Pages {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base, self.len)
    }
}

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_size_that_the_system_says() {
        assert_eq!([4096, 16384, 65536, 1 << 21].map(pages_of), [4096, 16384, 65536, 1 << 21]);
        assert_eq!([-1, 0, 5000].map(pages_of), [4096; 3]);
    }
}
