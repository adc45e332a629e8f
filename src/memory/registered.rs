//! Memory that is registered and owned: the basis of pools and regions.

#![allow(unsafe_code)] // owns registered memory

use std::any::Any;
use std::ptr::NonNull;

use bitflags::bitflags;

use crate::device::pd::ProtectionDomain;
use crate::memory::open::{Open, read_volatile};
use crate::memory::own::locked::locked_memory;
use crate::memory::own::{Memory, Protection};
use crate::memory::remote::OutOfBounds;
use crate::sys::handle;
use crate::sys::types::{ibv_access_flags, ibv_mr};
use crate::terms::error::{Error, Refused};

const VERB: &str = "ibv_reg_mr";

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

/// Memory that is registered, and the value that owns it.
///
/// # Invariants
/// The `len` bytes at `base` are registered as `mr`. They are of `memory`, as its [`Memory::bytes`]
/// said after it was moved here for the last time, so what its implementation promises holds for
/// them. `memory` is neither touched, nor moved out of its box, nor dropped before `ibv_dereg_mr`
/// returned 0 (R6.9). It is `None` only once it was given back.
pub(crate) struct Registered {
    mr: handle::Mr,
    base: NonNull<u8>,
    len: usize,
    memory: Option<Box<dyn Any + Send>>,
    is_writable: bool,
    pd: u32,
}

// SAFETY: the memory is owned, and `Send`. The handles to it decide which code may touch its bytes.
unsafe impl Send for Registered {}
// SAFETY: shared access gives addresses only.
unsafe impl Sync for Registered {}

impl Registered {
    /// Registers that part of `memory` which `choose` names, as an offset and a length within its
    /// bytes. A refusal gives the memory back.
    pub(crate) fn new<M: Memory>(
        pd: &ProtectionDomain,
        memory: M,
        access: AccessFlags,
        choose: impl FnOnce(NonNull<[u8]>) -> Result<(usize, usize), Error>,
    ) -> Result<Self, Refused<M>> {
        let mut memory = Box::new(memory);
        let bytes = memory.bytes();
        let (offset, len) = match choose(bytes) {
            Ok(part) => part,
            Err(error) => return Err(Refused::new(*memory, error)),
        };
        debug_assert!(offset.checked_add(len).is_some_and(|end| end <= bytes.len()));
        if len == 0 {
            let error = Error::os(VERB, libc::EINVAL, "0 bytes");
            return Err(Refused::new(*memory, error));
        }
        // SAFETY: `choose` returned a part of the range.
        let base = unsafe { bytes.cast::<u8>().add(offset) };
        // Every right of a type includes LOCAL_WRITE, which read-only memory cannot have (R6.3).
        let is_writable = M::Protection::IS_WRITABLE;
        let access = if is_writable { access } else { access - AccessFlags::LOCAL_WRITE };
        let handle = pd.handle();
        let control = handle.control();
        // SAFETY: the protection domain is live. `memory` keeps the range valid for what `access`
        // allows, and is kept until the region is deregistered.
        let mr = unsafe { (control.reg_mr)(handle.as_ptr(), base.as_ptr(), len, access.bits()) };
        match mr {
            Ok(mr) => {
                // SAFETY: the object was just created, and has no other owner.
                let mr = unsafe { handle::Mr::new(mr, control, handle.clone()) };
                Ok(Registered { mr, base, len, memory: Some(memory), is_writable, pd: pd.id() })
            }
            Err(errno) => {
                let error = why_not(pd, len, access, errno);
                Err(Refused::new(*memory, error))
            }
        }
    }

    /// A region that was registered elsewhere, over all of `memory`. It is not deregistered here:
    /// dropping `memory` does that.
    ///
    /// # Safety
    /// `mr` is a region of the domain over the bytes of `memory`, and live until that is dropped.
    pub(crate) unsafe fn elsewhere<M: Memory>(
        pd: &ProtectionDomain,
        mr: NonNull<ibv_mr>,
        memory: M,
    ) -> Self {
        let mut memory = Box::new(memory);
        let (bytes, handle) = (memory.bytes(), pd.handle());
        // SAFETY: the region lives as long as the memory (this function's contract), which is
        // dropped after the handle.
        let mr = unsafe { handle::Mr::kept(mr, handle.control(), handle.clone(), Box::new(())) };
        let is_writable = M::Protection::IS_WRITABLE;
        let (base, len) = (bytes.cast(), bytes.len());
        Registered { mr, base, len, memory: Some(memory), is_writable, pd: pd.id() }
    }

    /// The value that owns the memory.
    ///
    /// # Panics
    /// If [`close`](Self::close) did not succeed before, or `M` is another type.
    pub(crate) fn give_back<M: Memory>(&mut self) -> M {
        assert!(self.mr.is_closed(), "the memory is still registered");
        let memory = self.memory.take().and_then(|memory| memory.downcast().ok());
        *memory.expect("the type that was given")
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
    /// their bytes; nor do regions of read-only memory.
    pub(crate) fn open(&self) -> Open {
        debug_assert!(self.is_writable);
        // SAFETY: the bytes are valid while `self` lives, for writes too, and the callers use the value no longer.
        // Rust code touches the bytes of a region that is open to the fabric through such values
        // only; the device, which Rust does not see, is no part of its memory model.
        unsafe { Open::new(self.base, self.len()) }
    }

    /// Copies bytes out that others may be writing.
    pub(crate) fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(offset, out.len())?;
        if self.is_writable {
            self.open().copy(offset, out);
        } else {
            // SAFETY: within the region, which is valid for reads while `self` lives. It is
            // read-only memory, so nothing in this process writes it (`Memory`).
            unsafe { read_volatile(self.base, offset, out) };
        }
        Ok(())
    }

    pub(crate) fn mr(&self) -> *mut ibv_mr {
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
        OutOfBounds::check(offset, len, self.len())
    }

    /// Deregisters now. If the device refuses, the memory stays registered and leaks.
    pub(crate) fn close(&mut self) -> Result<(), i32> {
        self.mr.close()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.close().is_err() {
            // The device still has it.
            std::mem::forget(self.memory.take());
        }
        // Else the field is dropped, by code that may be the user's and may panic.
    }
}

/// Why `len` bytes were not registered.
#[cold]
fn why_not(pd: &ProtectionDomain, len: usize, access: AccessFlags, errno: i32) -> Error {
    let most = pd.context().query_device().map_or(u64::MAX, |device| device.max_mr_size);
    if len as u64 > most {
        return Error::limit(VERB, "length", len as u64, most);
    }
    let asked = format!("{len} bytes, {access:?}");
    match errno {
        libc::ENOMEM => locked_memory(VERB, "VmPin", asked, len),
        libc::EFAULT => {
            let why = "a page is beyond the end of its file, or this kernel pins no read-only file";
            Error::os(VERB, errno, format!("{asked}; {why}"))
        }
        _ => Error::os(VERB, errno, asked),
    }
}
