//! Memory whose bytes the processor cannot access: memory of the device (`ibv_alloc_dm`), and
//! dma-bufs. [`Dm`] and [`DmaBuf`] have examples.
//!
//! The design is in
//! [docs/device-memory.md](https://docs.rs/crate/proverbs/latest/source/docs/device-memory.md).

#![allow(unsafe_code)] // a few verbs

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use crate::device::{Can, Context, DeviceMemory, ProtectionDomain};
use crate::memory::own::heap::page;
use crate::memory::registered::{AccessFlags, Registered, why_not};
use crate::memory::{Access, HasPieces, MemoryRegion};
use crate::sys::control::status;
use crate::sys::handle;
use crate::sys::memory::{DmabufPart, ZERO_BASED, ibv_alloc_dm_attr, ibv_dm};
use crate::terms::error::{Error, ErrorKind, Refused};

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
    /// - [`ErrorKind::ContextMismatch`]: `can` comes from
    ///   another context.
    /// - [`ErrorKind::Limit`]: `len` exceeds `max_dm_size`.
    /// - [`ErrorKind::Os`] with the errno: EINVAL if `len` is 0, ENOMEM if
    ///   not enough memory is left.
    #[doc(alias("ibv_alloc_dm", "ibv_alloc_dm_attr", "log_align_req"))]
    pub fn alloc_dm(
        &self,
        can: &Can<DeviceMemory>,
        len: usize,
        log_align_req: u32,
    ) -> Result<Dm, Error> {
        can.check_is_of(self, VERB, "the ability for device memory and the context")?;
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

    /// Copies `bytes` to `dm_offset` (`ibv_memcpy_to_dm`). If a device or another thread writes the
    /// same bytes at the same time, the result may be a mixture.
    ///
    /// # Errors
    /// - [`ErrorKind::Limit`]: the bytes are not all inside.
    /// - [`ErrorKind::Os`] with the errno: EINVAL on devices that copy whole
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

    /// Frees the memory (`ibv_free_dm`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`] with the errno, and the memory.
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
    /// Registers all of `dm` with the rights `A` (`ibv_reg_dm_mr`). The region's addresses are
    /// offsets from its start ([R6.14](crate::guide::rules#r6-14)). [`Dm`] has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The memory, with [`ErrorKind::ContextMismatch`] if it
    /// belongs to another context ([R12.1](crate::guide::rules#r12-1)), otherwise
    /// [`ErrorKind::Os`] with the errno.
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

const REGISTER_DMABUF: &str = "ibv_reg_dmabuf_mr";

/// A part of a dma-buf: memory of another device, such as a GPU, that its driver exports as a
/// descriptor (ibv_reg_dmabuf_mr(3)).
///
/// The processor cannot access the bytes through it.
/// [`register_dmabuf`](ProtectionDomain::register_dmabuf) registers it as a region, whose
/// [pieces](MemoryRegion::piece) are posted and whose [slices](MemoryRegion::remote) peers use. It
/// cannot be used for a pool, and does not have `read_at`. `destroy` returns it. To register
/// several regions of one dma-buf, duplicate its descriptor (`OwnedFd::try_clone`).
///
/// No field has a default, because a wrong offset refers to other memory. A driver that exports the
/// whole allocation around an address also returns the offset of that address.
///
/// On the [loopback](crate::loopback) device a memfd replaces it, sealed against shrinking, as
/// required by udmabuf:
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::device_memory::DmaBuf;
/// use proverbs::memory::MapOptions;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// let (gpu, fd) = MapOptions::new().memfd("a GPU's memory", 8192)?;
/// let half = DmaBuf { fd, offset: 4096, len: 4096, iova: 0x7000_0000 };
/// let region: MemoryRegion<RemoteWrite, DmaBuf> = pd.register_dmabuf(half)?;
/// assert_eq!((region.len(), region.remote().addr()), (4096, 0x7000_0000));
///
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.copy_from(b"from a peer")?;
/// a.post_send(wr::RdmaWrite::new(buf, region.remote().write()))?;
/// proverbs::loopback::poll(&mut cq, 1)?;
/// let mut there = [0; 11];
/// gpu.read_at(4096, &mut there)?; // as the GPU would
/// assert_eq!(&there, b"from a peer");
/// let half: DmaBuf = region.destroy()?;
/// # drop(half);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DmaBuf {
    /// The dma-buf. The kernel takes its own reference when the region is registered.
    pub fd: OwnedFd,
    /// The start of the part in the dma-buf, in bytes.
    pub offset: u64,
    /// The length of the part in bytes.
    pub len: usize,
    /// The address of its first byte in work requests, here and at peers. It can be any address
    /// that equals `offset` modulo the page size. Usually it is the address that the GPU code uses.
    pub iova: u64,
}

impl DmaBuf {
    fn asked(&self, access: AccessFlags) -> String {
        let DmaBuf { fd, offset, len, iova } = self;
        let fd = fd.as_raw_fd();
        format!("{len} bytes at offset {offset:#x} of descriptor {fd}, iova {iova:#x}, {access:?}")
    }

    /// Checks that do not need the device.
    fn check(&self, access: AccessFlags) -> Result<(), Error> {
        let refused = |why: String| {
            Err(Error::os(REGISTER_DMABUF, libc::EINVAL, format!("{}; {why}", self.asked(access))))
        };
        if self.len == 0 {
            return refused("cannot register 0 bytes".into());
        }
        let page = page() as u64;
        if self.offset % page != self.iova % page {
            return refused(format!("offset and iova differ modulo the page size of {page} bytes"));
        }
        let len = self.len as u64;
        let last = usize::try_from(self.iova).ok().and_then(|iova| iova.checked_add(self.len - 1));
        if self.offset.checked_add(len).is_none() || last.is_none() {
            return refused("it ends past the end of the address space".into());
        }
        Ok(())
    }
}

impl ProtectionDomain {
    /// Registers a part of a dma-buf with the rights `A` (`ibv_reg_dmabuf_mr`). [`DmaBuf`] has an
    /// example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The part, with
    /// - [`ErrorKind::Unsupported`]: the device, its driver or libibverbs (before rdma-core 34)
    ///   does not support this verb.
    /// - [`ErrorKind::Limit`]: it is longer than the device's `max_mr_size`.
    /// - [`ErrorKind::Os`]: EINVAL if it is empty
    ///   ([R6.4](crate::guide::rules#r6-4)), if `offset` and `iova` differ modulo the page size
    ///   ([R18.12](crate::guide::rules#r18-12)), if it is not all inside the dma-buf, or if the
    ///   descriptor is not a dma-buf.
    #[doc(alias = "ibv_reg_dmabuf_mr")]
    pub fn register_dmabuf<A: Access>(
        &self,
        dmabuf: DmaBuf,
    ) -> Result<MemoryRegion<A, DmaBuf>, Refused<DmaBuf>> {
        let access = AccessFlags::from_bits_retain(A::FLAGS);
        or_refused!(dmabuf, dmabuf.check(access));
        let (iova, len) = (dmabuf.iova as usize, dmabuf.len);
        // SAFETY: the domain is live. The region is new and belongs to the domain.
        let region = unsafe {
            Registered::without_bytes(self, dmabuf, iova, len, |dmabuf, pd| {
                let DmaBuf { fd, offset, len, iova } = dmabuf;
                let fd = fd.as_raw_fd();
                let part = DmabufPart { fd, offset: *offset, length: *len, iova: *iova };
                (pd.control().reg_dmabuf_mr)(pd.as_ptr(), part, access.bits())
            })
        };
        let refused = |(dmabuf, errno)| {
            let error = self.no_dmabuf(&dmabuf, access, errno);
            Refused::new(dmabuf, error)
        };
        region.map(MemoryRegion::of).map_err(refused)
    }

    #[cold]
    fn no_dmabuf(&self, dmabuf: &DmaBuf, access: AccessFlags, errno: i32) -> Error {
        let lacks = match errno {
            libc::ENOSYS => "this libibverbs is older than rdma-core 34".into(),
            libc::EOPNOTSUPP => format!("{} does not support dma-bufs", self.context().name()),
            libc::EINVAL => {
                let why = "the range exceeds the dma-buf, or the descriptor is not a dma-buf";
                let asked = format!("{}; {why}", dmabuf.asked(access));
                return Error::os(REGISTER_DMABUF, errno, asked);
            }
            _ => return why_not(REGISTER_DMABUF, self, dmabuf.len, dmabuf.asked(access), errno),
        };
        let instead = "copy through host memory, a region or a pool";
        let asked = dmabuf.asked(access);
        Error::new(REGISTER_DMABUF, ErrorKind::Unsupported { asked, lacks, instead })
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
