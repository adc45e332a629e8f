//! Memory on the heap: what programs have there, and what the crate allocates.

#![allow(unsafe_code)] // promises what `Memory` asks for, and owns an allocation

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::memory::{Memory, Private, ReadOnly, Writable};
use crate::terms::error::Error;

/// Integers and floats: whatever bytes the device writes, they are a value.
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

// SAFETY: the slice is in the heap, initialised, and the box owns it alone. Numbers have no
// padding, and any bytes are one. Nothing reallocates a boxed slice.
unsafe impl<T: Number> Memory for Box<[T]> {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        bytes_of(self)
    }
}

// SAFETY: the elements are in the heap, initialised up to the length, and the vector owns them
// alone. Numbers have no padding, and any bytes are one. Only methods that take the vector
// mutably reallocate, and nobody can call them while it is given away. What the capacity exceeds
// the length by is not part of the range.
unsafe impl<T: Number> Memory for Vec<T> {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        bytes_of(self)
    }
}

// SAFETY: an exclusive reference for ever: to initialised memory that nothing else touches and that
// is never freed. Numbers have no padding, and any bytes are one.
unsafe impl<T: Number> Memory for &'static mut [T] {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        bytes_of(self)
    }
}

// SAFETY: initialised numbers in the heap, which stay as long as one `Arc` does. Nobody writes
// them: `Arc::get_mut` needs the only one.
unsafe impl<T: Number + Sync> Memory for Arc<[T]> {
    type Sharing = Private;
    type Protection = ReadOnly;

    fn bytes(&mut self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(NonNull::from(&**self).cast(), size_of_val(&**self))
    }
}

// SAFETY: initialised numbers that stay for ever, and that nobody writes.
unsafe impl<T: Number + Sync> Memory for &'static [T] {
    type Sharing = Private;
    type Protection = ReadOnly;

    fn bytes(&mut self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(NonNull::from(*self).cast(), size_of_val(*self))
    }
}

/// Whole pages of the program's heap, zeroed: the [`Memory`] of
/// [`create_pool`](crate::ProtectionDomain::create_pool) and
/// [`register`](crate::ProtectionDomain::register). No other data shares them.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Pages;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteRead>(64)?;
/// region.write_at(0, b"hello")?;
/// let pages: Pages = region.destroy()?; // no device uses them any more: they are a slice
/// assert_eq!((&pages[..5], pages.len()), (&b"hello"[..], 64));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pages {
    // Invariants:
    // `base` is an allocation of `layout`, initialised, at least `len` bytes long. The value owns
    // it.
    base: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: the value owns its memory, as a boxed slice does.
unsafe impl Send for Pages {}
// SAFETY: shared, it gives shared access to its bytes.
unsafe impl Sync for Pages {}

/// The system's page size in bytes. Kernels pin pages and keep them from a child process
/// (`MADV_DONTFORK`), so what is allocated here shares its pages with nothing.
pub(crate) fn page() -> usize {
    // SAFETY: sysconf(3) with a valid name only reads.
    pages_of(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
}

/// What a system says of its pages; 4096 if that is no size of pages.
fn pages_of(size: libc::c_long) -> usize {
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

impl Pages {
    /// Allocates for `verb`.
    pub(crate) fn new(verb: &'static str, len: usize) -> Result<Self, Error> {
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

impl Pages {}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: initialised and owned (invariant); while the value is given away nobody has it.
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

// SAFETY: an allocation of its own, initialised, freed by `drop` only and reached through the
// value only.
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
