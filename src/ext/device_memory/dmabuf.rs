//! Memory behind a file descriptor, such as GPU memory.

#![allow(unsafe_code)] // one verb

use std::os::fd::{AsRawFd, OwnedFd};

use crate::device::ProtectionDomain;
use crate::memory::own::heap::page;
use crate::memory::registered::{AccessFlags, Registered, why_not};
use crate::memory::{Access, MemoryRegion};
use crate::sys::memory::DmabufPart;
use crate::terms::error::{Error, ErrorKind, Refused};

const VERB: &str = "ibv_reg_dmabuf_mr";

/// A part of a dma-buf: memory of another device, such as a GPU, that its driver exports as a
/// descriptor (ibv_reg_dmabuf_mr(3)).
///
/// The processor cannot access the bytes through it.
/// [`register_dmabuf`](ProtectionDomain::register_dmabuf) registers it as a region, whose
/// [pieces](MemoryRegion::piece) are posted and whose [slices](MemoryRegion::remote) peers use. It
/// cannot be used for a pool, and does not have `read_at`. `destroy` returns it. To register
/// several regions of one dma-buf, duplicate its descriptor (`OwnedFd::try_clone`).
///
/// No field has a default. If a driver exports a whole allocation for an address inside it, it also
/// returns the offset of that address, and a wrong offset names other memory.
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
    /// with the same offset within its page as `offset`. Usually it is the address in the GPU's
    /// program.
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
            Err(Error::os(VERB, libc::EINVAL, format!("{}; {why}", self.asked(access))))
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
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if it is empty
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
                let why = "not all of it is in the dma-buf, or the descriptor is not a dma-buf";
                return Error::os(VERB, errno, format!("{}; {why}", dmabuf.asked(access)));
            }
            _ => return why_not(VERB, self, dmabuf.len, dmabuf.asked(access), errno),
        };
        let instead = "copy through host memory, a region or a pool";
        let asked = dmabuf.asked(access);
        Error::new(VERB, ErrorKind::Unsupported { asked, lacks, instead })
    }
}
