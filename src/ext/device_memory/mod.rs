//! Memory whose bytes the processor cannot access: memory of the device (`ibv_alloc_dm`), and
//! dma-bufs. [`Dm`] and [`DmaBuf`] have examples.

#![allow(unsafe_code)] // a few verbs

mod dmabuf;
#[cfg(all(test, feature = "loopback"))]
mod tests;

pub use dmabuf::DmaBuf;

use std::ffi::c_int;
use std::sync::Arc;

use crate::device::{Can, Context, DeviceMemory, ProtectionDomain};
use crate::memory::registered::{AccessFlags, Registered};
use crate::memory::{Access, HasPieces, MemoryRegion};
use crate::sys::control::status;
use crate::sys::handle;
use crate::sys::memory::{ZERO_BASED, ibv_alloc_dm_attr, ibv_dm};
use crate::terms::error::{Error, Refused};

const VERB: &str = "ibv_alloc_dm";

/// Memory on the device (`ibv_alloc_dm`), which the device accesses without using the bus.
///
/// The processor can only copy to and from it. [`register_dm`](ProtectionDomain::register_dm)
/// registers it as a region, whose [pieces](MemoryRegion::piece) are posted and whose
/// [slices](MemoryRegion::remote) peers use. It cannot be used for a pool. `destroy` of the region
/// returns it.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::DeviceMemory;
/// use proverbs::ext::device_memory::Dm;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, context, .. } =
/// #     proverbs::loopback::pair()?;
/// // Few devices have such memory, so this needs a proof.
/// let can = context.abilities()?.can::<DeviceMemory>().ok_or("no memory of its own")?;
/// let counters: Dm = context.alloc_dm(&can, 64, 3)?; // aligned to 8 bytes, for atomics
/// counters.memcpy_to_dm(0, &[0; 64])?;               // initially undefined
/// let region: MemoryRegion<RemoteAtomic, Dm> = pd.register_dm(counters)?;
///
/// let ticket = region.remote().atomic(8)?;
/// a.post_send(wr::FetchAndAdd::new(pool.take().ok_or("no buffer")?, ticket, 5))?;
/// proverbs::loopback::poll(&mut cq, 1)?;
/// let mut now = [0; 8];
/// region.memcpy_from_dm(8, &mut now)?;
/// assert_eq!(u64::from_ne_bytes(now), 5);
/// let counters: Dm = region.destroy()?;
/// counters.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_dm")]
pub struct Dm {
    handle: handle::Dm,
    len: usize,
}

impl Context {
    /// Allocates `len` bytes of device memory, aligned to 2 to the power of `log_align_req` bytes
    /// (`ibv_alloc_dm`). Use 3 for atomics, or 0 if alignment does not matter. [`Dm`] has an
    /// example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// - [`ErrorKind::ContextMismatch`](crate::ErrorKind::ContextMismatch): `can` comes from
    ///   another context.
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): `len` exceeds `max_dm_size`.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if `len` is 0, ENOMEM if
    ///   not enough memory is left.
    #[doc(alias("ibv_alloc_dm", "ibv_alloc_dm_attr", "log_align_req"))]
    pub fn alloc_dm(
        &self,
        can: &Can<DeviceMemory>,
        len: usize,
        log_align_req: u32,
    ) -> Result<Dm, Error> {
        can.check_is_of(self, VERB, "the proof of device memory and the context")?;
        let asked = || format!("{len} bytes, log_align_req {log_align_req}");
        if len == 0 {
            return Err(Error::os(VERB, libc::EINVAL, asked()));
        }
        let attr = ibv_alloc_dm_attr { length: len, log_align_req, comp_mask: 0 };
        let control = self.handle.control();
        // SAFETY: its handle keeps the context open.
        let dm = unsafe { (control.alloc_dm)(self.handle.as_ptr(), attr) };
        let dm = dm.map_err(|errno| {
            let most = self.query_device_ex().map_or(u64::MAX, |device| device.max_dm_size);
            if len as u64 > most {
                return Error::limit(VERB, "length", len as u64, most);
            }
            Error::os(VERB, errno, format!("{}; the device has {most} bytes", asked()))
        })?;
        // SAFETY: the object was just created, and has no other owner.
        let handle = unsafe { handle::Dm::new(dm, control, self.handle.clone()) };
        Ok(Dm { handle, len })
    }
}

impl Dm {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: allocating 0 bytes fails.
    pub fn is_empty(&self) -> bool {
        false
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_dm {
        self.handle.as_ptr()
    }

    /// Copies `bytes` to `dm_offset` (`ibv_memcpy_to_dm`). Concurrent writes by a device or another
    /// thread may be mixed with it.
    ///
    /// # Errors
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): the bytes are not all inside.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL on devices that copy whole
    ///   words of 4 bytes, if offset or length is not a multiple of 4.
    #[doc(alias = "ibv_memcpy_to_dm")]
    pub fn memcpy_to_dm(&self, dm_offset: usize, bytes: &[u8]) -> Result<(), Error> {
        const VERB: &str = "ibv_memcpy_to_dm";
        self.copy(VERB, dm_offset, bytes.len(), |dm| {
            // SAFETY: the memory is live, and the bytes are readable.
            unsafe {
                ((*dm).memcpy_to_dm)(dm, dm_offset as u64, bytes.as_ptr().cast(), bytes.len())
            }
        })
    }

    /// Copies the bytes at `dm_offset` to `out` (`ibv_memcpy_from_dm`). A device or another thread
    /// may be writing them at the same time.
    ///
    /// # Errors
    /// As for [`memcpy_to_dm`](Self::memcpy_to_dm).
    #[doc(alias = "ibv_memcpy_from_dm")]
    pub fn memcpy_from_dm(&self, dm_offset: usize, out: &mut [u8]) -> Result<(), Error> {
        const VERB: &str = "ibv_memcpy_from_dm";
        self.copy(VERB, dm_offset, out.len(), |dm| {
            // SAFETY: the memory is live, and the bytes are writable.
            unsafe {
                ((*dm).memcpy_from_dm)(out.as_mut_ptr().cast(), dm, dm_offset as u64, out.len())
            }
        })
    }

    /// Copies `len` bytes from or to `offset`, after checking that they are inside.
    fn copy(
        &self,
        verb: &'static str,
        offset: usize,
        len: usize,
        copy: impl FnOnce(*mut ibv_dm) -> c_int,
    ) -> Result<(), Error> {
        let end = (offset as u64).saturating_add(len as u64);
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::limit(verb, "end of the range", end, self.len as u64));
        }
        let words = match (offset | len) % 4 {
            0 => "",
            _ => "; some devices copy whole words of 4 bytes",
        };
        match copy(self.as_ptr()) {
            0 => Ok(()),
            errno => {
                let asked = format!("{len} bytes at offset {offset}{words}");
                Err(Error::os(verb, status(errno), asked))
            }
        }
    }

    /// Frees it (`ibv_free_dm`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the memory.
    #[doc(alias = "ibv_free_dm")]
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        let closed = self.handle.close();
        closed.map_err(|errno| Refused::new(self, Error::os("ibv_free_dm", errno, "")))
    }
}

impl HasPieces for DmaBuf {}
impl HasPieces for Dm {}

impl_debug!(Dm, |it| "Dm({} bytes)", it.len);

impl ProtectionDomain {
    /// Registers all of `dm` with the rights `A` (`ibv_reg_dm_mr`). Peers use offsets as its
    /// addresses ([R6.14](crate::guide::rules#r6-14)). [`Dm`] has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The memory, with [`ErrorKind::ContextMismatch`](crate::ErrorKind::ContextMismatch) if it
    /// belongs to another context ([R12.1](crate::guide::rules#r12-1)), otherwise
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias("ibv_reg_dm_mr", "IBV_ACCESS_ZERO_BASED"))]
    pub fn register_dm<A: Access>(&self, dm: Dm) -> Result<MemoryRegion<A, Dm>, Refused<Dm>> {
        const VERB: &str = "ibv_reg_dm_mr";
        let is_one = Arc::ptr_eq(dm.handle.parents(), &self.handle().parents().context);
        let what = "the device memory and the protection domain";
        or_refused!(dm, Error::unless_one_context(VERB, what, is_one));
        let access = AccessFlags::from_bits_retain(A::FLAGS);
        let len = dm.len;
        // SAFETY: domain and memory are live, and the memory stays allocated until the region is
        // deregistered. The region is new and belongs to the domain.
        let region = unsafe {
            Registered::without_bytes(self, dm, 0, len, |dm, pd| {
                let register = pd.control().reg_dm_mr;
                register(pd.as_ptr(), dm.as_ptr(), 0, dm.len, access.bits() | ZERO_BASED)
            })
        };
        let refused = |(dm, errno)| {
            let asked = format!("{len} bytes of device memory, {access:?}");
            Refused::new(dm, Error::os(VERB, errno, asked))
        };
        region.map(MemoryRegion::of).map_err(refused)
    }
}

impl<A: Access> MemoryRegion<A, Dm> {
    /// Like [`Dm::memcpy_to_dm`], while it is registered.
    ///
    /// # Errors
    /// As for [`Dm::memcpy_to_dm`].
    #[doc(alias = "ibv_memcpy_to_dm")]
    pub fn memcpy_to_dm(&self, dm_offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.registered().owner::<Dm>().memcpy_to_dm(dm_offset, bytes)
    }

    /// Like [`Dm::memcpy_from_dm`], while it is registered.
    ///
    /// # Errors
    /// As for [`Dm::memcpy_to_dm`].
    #[doc(alias = "ibv_memcpy_from_dm")]
    pub fn memcpy_from_dm(&self, dm_offset: usize, out: &mut [u8]) -> Result<(), Error> {
        self.registered().owner::<Dm>().memcpy_from_dm(dm_offset, out)
    }
}
