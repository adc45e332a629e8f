//! The owner of a mapping, and the memory management calls that it needs.
//!
//! The calls are made through libc, which the crate has anyway. Crates that wrap mmap(2) hand out
//! slices, or lack mbind(2) or 1 GiB pages, and their owners cannot be taken apart.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::ptr::{self, NonNull};

use crate::mem::locked::locked_memory;
use crate::terms::error::{Error, ErrorKind};

/// The size of the reserved huge pages of a [`Mapping`] (`MAP_HUGETLB` of mmap(2)).
///
/// [`Mapping`]: https://docs.rs/proverbs/latest/proverbs/memory/struct.Mapping.html
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePage {
    /// 2 MiB: `vm.nr_hugepages` of sysctl(8).
    MiB2,
    /// 1 GiB: `hugepagesz=1G hugepages=N` of the kernel's command line.
    GiB1,
}

impl HugePage {
    /// The number of bytes, as a power of two.
    pub fn log2(self) -> c_int {
        match self {
            HugePage::MiB2 => 21,
            HugePage::GiB1 => 30,
        }
    }

    /// The number of bytes.
    pub fn size(self) -> usize {
        1 << self.log2()
    }

    /// The free pages, on `node` or on all of them, from the kernel's files in `sys`.
    fn free(self, sys: &Path, node: Option<u32>) -> u64 {
        let whose = node.map_or("kernel/mm".into(), |n| format!("devices/system/node/node{n}"));
        let name = format!("hugepages/hugepages-{}kB", self.size() / 1024);
        let dir = sys.join(whose).join(name);
        let number = |name| {
            let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
            text.trim().parse::<u64>().unwrap_or(0)
        };
        // For the whole machine, the kernel counts reserved pages as free.
        number("free_hugepages").saturating_sub(number("resv_hugepages"))
    }

    pub fn none_left(self, verb: &'static str, len: usize, node: Option<u32>) -> Error {
        let (page, pages) = (self.size() as u64, len.div_ceil(self.size()) as u64);
        let free = self.free("/sys".as_ref(), node);
        Error::new(verb, ErrorKind::HugePages { page, asked: pages, free, node })
    }
}

/// The errno of the last call.
pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// The largest number of NUMA nodes.
const NODES: usize = 1024;
const WORD: usize = libc::c_ulong::BITS as usize;

/// The set that contains only this NUMA node, in the format of mbind(2).
fn only(node: u32) -> Option<[libc::c_ulong; NODES / WORD]> {
    let mut nodes = [0; NODES / WORD];
    *nodes.get_mut(node as usize / WORD)? = 1 << (node as usize % WORD);
    Some(nodes)
}

/// A mapping.
pub struct Map {
    // Invariants: `mapped` bytes at `base` are a mapping that this value owns, and that nothing
    // else unmaps or remaps. `len` of them were requested, which is at least 1 and at most
    // `mapped`.
    base: NonNull<u8>,
    len: usize,
    mapped: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Map {}
// SAFETY: a shared reference gives only its address.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `len` bytes in pages of `page` bytes (mmap(2)).
    ///
    /// A file is passed as a borrowed descriptor instead of a number, because a number may name a
    /// descriptor of other code:
    ///
    /// ```compile_fail,E0308
    /// # use proverbs_sys::mem::map::Map;
    /// let (page, read, shared) = (4096, 1, 1);
    /// let map = Map::new(page, page, read, shared, Some((3, 0)));
    /// ```
    pub fn new(
        len: usize,
        page: usize,
        protection: c_int,
        flags: c_int,
        file: Option<(BorrowedFd<'_>, u64)>,
    ) -> Result<Map, c_int> {
        let mapped = len.checked_next_multiple_of(page).ok_or(libc::ENOMEM)?;
        let (fd, offset) = file.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset));
        let offset = libc::off_t::try_from(offset).map_err(|_| libc::EOVERFLOW)?;
        if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | libc::MAP_GROWSDOWN) != 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: a new mapping, at an address that the kernel chooses (no MAP_FIXED), touches no
        // existing memory. The kernel rejects 0 bytes (EINVAL), and more than half of the address
        // space (ENOMEM).
        let base = unsafe { libc::mmap(ptr::null_mut(), mapped, protection, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(errno());
        }
        // INVARIANT: just mapped, and `len` was rounded up.
        NonNull::new(base.cast()).map(|base| Map { base, len, mapped }).ok_or(libc::ENOMEM)
    }

    pub fn bytes(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base, self.len)
    }

    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[allow(clippy::len_without_is_empty)] // it is at least 1
    pub fn len(&self) -> usize {
        self.len
    }

    fn advise(&self, advice: c_int) -> Result<(), c_int> {
        // SAFETY: this value owns the mapping. The advice used here changes neither its contents
        // nor the rights of this process.
        let code = unsafe { libc::madvise(self.base.as_ptr().cast(), self.mapped, advice) };
        if code == 0 { Ok(()) } else { Err(errno()) }
    }

    /// Binds the mapping, which must have no pages yet, to a NUMA node (mbind(2)).
    pub fn bind(&self, node: u32) -> Result<(), Error> {
        const VERB: &str = "mbind";
        const MPOL_BIND: c_int = 2;
        /// The kernel expects one more than the number of bits that it reads.
        const BITS: usize = NODES + 1;
        let Some(nodes) = only(node) else {
            return Err(Error::limit(VERB, "node", node.into(), NODES as u64 - 1));
        };
        let (base, nodes) = (self.base.as_ptr(), nodes.as_ptr());
        // SAFETY: this value owns the mapping, and `nodes` is a local with a bit for each node. The
        // policy decides where pages come from, and changes no contents.
        let code =
            unsafe { libc::syscall(libc::SYS_mbind, base, self.mapped, MPOL_BIND, nodes, BITS, 0) };
        if code == 0 {
            return Ok(());
        }
        let errno = errno();
        let online = std::fs::read_to_string("/sys/devices/system/node/online");
        let online = online.map_or("unknown".into(), |text| text.trim().to_owned());
        Err(Error::os(VERB, errno, format!("node {node}, online nodes: {online}")))
    }

    /// Brings every page into memory. Unlike MAP_POPULATE it reports failure, and runs after
    /// mbind(2).
    pub fn populate(&self, writable: bool) -> Result<(), Error> {
        let advice = if writable { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
        match self.advise(advice) {
            Ok(()) => Ok(()),
            // A kernel before 5.14.
            Err(libc::EINVAL) => self.populate_by_locks(),
            Err(errno) => {
                let asked = format!("MADV_POPULATE_WRITE of {} bytes", self.mapped);
                Err(Error::os("madvise", errno, asked))
            }
        }
    }

    /// Does the same with mlock(2), which populates the pages that it locks.
    fn populate_by_locks(&self) -> Result<(), Error> {
        self.lock()?;
        // SAFETY: this value owns the mapping, and unlocking changes no contents.
        unsafe { libc::munlock(self.base.as_ptr().cast(), self.mapped) };
        Ok(())
    }

    /// Locks every page into memory (mlock(2)). Unlike MAP_LOCKED it reports failure, and runs
    /// after mbind(2).
    pub fn lock(&self) -> Result<(), Error> {
        // SAFETY: this value owns the mapping, and locking changes no contents.
        if unsafe { libc::mlock(self.base.as_ptr().cast(), self.mapped) } == 0 {
            return Ok(());
        }
        let asked = format!("{} bytes", self.mapped);
        match errno() {
            libc::ENOMEM | libc::EPERM => Err(locked_memory("mlock", "VmLck", asked, self.mapped)),
            errno => Err(Error::os("mlock", errno, asked)),
        }
    }

    /// Keeps the mapping out of child processes (MADV_DONTFORK).
    pub fn dontfork(&self) -> Result<(), Error> {
        let asked = || format!("MADV_DONTFORK of {} bytes", self.mapped);
        self.advise(libc::MADV_DONTFORK).map_err(|errno| Error::os("madvise", errno, asked()))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping (invariant), and unmaps it once. It is not in use: a
        // region or pool whose bytes a device may access drops this value after the region is
        // deregistered.
        let code = unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
        debug_assert_eq!(code, 0, "munmap: errno {}", errno());
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
