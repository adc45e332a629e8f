//! Memory that is registered and owned: the basis of pools and regions.

#![allow(unsafe_code)] // owns registered memory

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use bitflags::bitflags;

use crate::device::pd::ProtectionDomain;
use crate::memory::open::Open;
use crate::memory::remote::OutOfBounds;
use crate::sys::handle;
use crate::sys::types::ibv_access_flags;
use crate::terms::error::Error;

bitflags! {
    /// `access` of ibv_reg_mr(3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct AccessFlags: u32 {
        const LOCAL_WRITE = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        const REMOTE_WRITE = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        const REMOTE_READ = ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;
        const REMOTE_ATOMIC = ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0;
    }
}

/// The system's page size in bytes. Registered memory begins with a page and consists of whole
/// ones: kernels pin pages and keep them from a child process (`MADV_DONTFORK`), so nothing else
/// may share them.
fn page() -> usize {
    // SAFETY: sysconf(3) with a valid name only reads.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

/// Memory that is registered and owned.
///
/// # Invariants
/// `base` is an allocation of `layout`, whole pages, initialised. Its first `len` bytes are
/// registered as `mr`. It does not move and is freed only after `ibv_dereg_mr` returned 0 (R6.9).
pub(crate) struct Registered {
    mr: handle::Mr,
    base: NonNull<u8>,
    len: usize,
    layout: Layout,
    pd: u32,
}

// SAFETY: the memory is owned. The handles to it decide which code may touch its bytes.
unsafe impl Send for Registered {}
// SAFETY: shared access gives addresses only.
unsafe impl Sync for Registered {}

impl Registered {
    pub(crate) fn new(
        pd: &ProtectionDomain,
        len: usize,
        access: AccessFlags,
    ) -> Result<Self, Error> {
        const VERB: &str = "ibv_reg_mr";
        let asked = || format!("{len} bytes");
        if len == 0 {
            return Err(Error::os(VERB, libc::EINVAL, asked()));
        }
        let page = page();
        let layout = len.checked_next_multiple_of(page);
        let layout = layout.and_then(|size| Layout::from_size_align(size, page).ok());
        let layout = layout.ok_or_else(|| Error::os(VERB, libc::ENOMEM, asked()))?;
        // SAFETY: the size is not 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })
            .ok_or_else(|| Error::os(VERB, libc::ENOMEM, asked()))?;
        let handle = pd.handle();
        let control = handle.control();
        // SAFETY: the protection domain is live, and the memory is ours for the length.
        let mr = unsafe { (control.reg_mr)(handle.as_ptr(), base.as_ptr(), len, access.bits()) };
        match mr {
            Ok(mr) => {
                // SAFETY: the object was just created, and has no other owner.
                let mr = unsafe { handle::Mr::new(mr, control, handle.clone()) };
                Ok(Registered { mr, base, len, layout, pd: pd.id() })
            }
            Err(errno) => {
                // SAFETY: allocated above with this layout, and not registered.
                unsafe { dealloc(base.as_ptr(), layout) };
                let asked = format!("{len} bytes, {access:?}; see `ulimit -l` for locked memory");
                Err(Error::os(VERB, errno, asked))
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of the byte at `offset`, which is within the region.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.len());
        // SAFETY: the offset is within the allocation, as asked of the callers.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// The region as memory that others may touch meanwhile. Pools do not use it, since they own
    /// their bytes.
    pub(crate) fn open(&self) -> Open {
        // SAFETY: the bytes are valid while `self` lives, and the callers use the value no longer.
        // Rust code touches the bytes of a region that is open to the fabric through such values
        // only; the device, which Rust does not see, is no part of its memory model.
        unsafe { Open::new(self.base, self.len()) }
    }

    #[cfg(feature = "rdma-sys")]
    pub(crate) fn mr(&self) -> *mut crate::sys::types::ibv_mr {
        self.mr.as_ptr()
    }

    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: the region is registered while `self` lives.
        unsafe { (*self.mr.as_ptr()).lkey }
    }

    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: the region is registered while `self` lives.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    pub(crate) fn pd(&self) -> u32 {
        self.pd
    }

    pub(crate) fn check(&self, offset: usize, len: usize) -> Result<(), OutOfBounds> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(OutOfBounds {
                offset: offset as u64,
                len: len as u64,
                available: self.len() as u64,
                misaligned: false,
            }),
        }
    }

    /// Deregisters now. If the device refuses, the memory stays registered and leaks.
    pub(crate) fn close(&mut self) -> Result<(), i32> {
        self.mr.close()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.close().is_ok() {
            // SAFETY: allocated in `new` with this layout; deregistered, so no device uses it.
            unsafe { dealloc(self.base.as_ptr(), self.layout) };
        }
    }
}
