//! The options of a mapping, and the calls that map with them.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::mem::heap::page;
use crate::mem::map::{HugePage, Map, errno};
use crate::terms::error::Error;

const VERB: &str = "mmap";

/// The options of `proverbs::memory::MapOptions`, which documents them.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapOptions {
    pub huge: Option<HugePage>,
    pub node: Option<u32>,
    pub populate: bool,
    pub locked: bool,
    pub dontfork: bool,
}

impl MapOptions {
    /// Maps `len` zeroed bytes: anonymous, private, readable and writable.
    pub fn anonymous(&self, len: usize) -> Result<Map, Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | self.huge_flags(libc::MAP_HUGETLB);
        let size = self.huge.map_or_else(page, HugePage::size);
        let map = Map::new(len, size, libc::PROT_READ | libc::PROT_WRITE, flags, None);
        let map = map.map_err(|errno| self.refused(VERB, errno, format!("{len} bytes"), len))?;
        self.apply_to(map, true)
    }

    /// Creates a memfd of `len` zeroed bytes (memfd_create(2)), and seals its size.
    pub fn memfd(&self, name: &str, len: usize) -> Result<OwnedFd, Error> {
        const VERB: &str = "memfd_create";
        let asked = || format!("`{name}`, {len} bytes");
        let refused = |errno| Error::os(VERB, errno, asked());
        let name = CString::new(name).map_err(|_| refused(libc::EINVAL))?;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let flags = flags | self.huge_flags(libc::MFD_HUGETLB as libc::c_int) as libc::c_uint;
        // SAFETY: the name is a C string. The descriptor is new, and has no other owner.
        let fd = unsafe {
            let fd = libc::memfd_create(name.as_ptr(), flags);
            if fd == -1 {
                return Err(self.refused(VERB, errno(), asked(), len));
            }
            OwnedFd::from_raw_fd(fd)
        };
        let size = self.huge.map_or(1, |huge| huge.size());
        let size = len.checked_next_multiple_of(size).and_then(|size| size.try_into().ok());
        let size: libc::off_t = size.ok_or_else(|| refused(libc::ENOMEM))?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
        // SAFETY: calls on a descriptor that we own.
        let made = unsafe {
            libc::ftruncate(fd.as_raw_fd(), size) == 0
                && libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) == 0
        };
        if !made {
            return Err(self.refused(VERB, errno(), asked(), len));
        }
        Ok(fd)
    }

    /// Maps the bytes `range` of a file for reading, and for writing if `writable`. Returns also
    /// whether the file is sealed against truncation.
    pub fn file(
        &self,
        fd: BorrowedFd<'_>,
        range: Range<u64>,
        writable: bool,
    ) -> Result<(Map, bool), Error> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let asked = || format!("bytes {range:?} of a file");
        let refused = |errno| Error::os(VERB, errno, asked());
        let mut stat = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the descriptor is open, and the call fills the local if it returns 0.
        let size = unsafe {
            if libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) != 0 {
                return Err(Error::os("fstat", errno(), asked()));
            }
            u64::try_from(stat.assume_init().st_size).unwrap_or(0)
        };
        Error::at_most(VERB, "end of the range", range.end, size)?;
        // (The kernel rejects a range that is empty or does not start at a page.)
        let len = range.end.checked_sub(range.start).and_then(|len| len.try_into().ok());
        let len = len.ok_or_else(|| refused(libc::EINVAL))?;
        let page = page_of(fd);
        let map = Map::new(len, page, protection, libc::MAP_SHARED, Some((fd, range.start)));
        let map = map.map_err(|errno| self.refused(VERB, errno, asked(), len))?;
        let map = self.apply_to(map, writable)?;
        // SAFETY: reads the seals of an open descriptor. This fails with EINVAL for a file without
        // seals.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        let sealed = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
        Ok((map, sealed))
    }

    /// `hugetlb` and the page size, as flags of mmap(2) and memfd_create(2), or 0 without huge
    /// pages.
    fn huge_flags(&self, hugetlb: libc::c_int) -> libc::c_int {
        self.huge.map_or(0, |page| hugetlb | page.log2() << libc::MAP_HUGE_SHIFT)
    }

    fn refused(&self, verb: &'static str, errno: i32, asked: String, len: usize) -> Error {
        match self.huge {
            // EINVAL: the kernel does not support pages of this size.
            Some(huge) if len > 0 && matches!(errno, libc::ENOMEM | libc::EINVAL) => {
                huge.none_left(verb, len, None)
            }
            _ => Error::os(verb, errno, asked),
        }
    }

    /// Applies the options to a new mapping.
    fn apply_to(&self, map: Map, writable: bool) -> Result<Map, Error> {
        if self.dontfork {
            map.dontfork()?;
        }
        if let Some(node) = self.node {
            map.bind(node)?;
        }
        if self.populate || self.node.is_some() && self.huge.is_some() {
            if let Err(error) = map.populate(writable) {
                let len = map.len();
                // Unmap the pages first, so that the error counts them as free.
                drop(map);
                return Err(match (self.huge, error.errno()) {
                    (Some(huge), Some(libc::EFAULT | libc::ENOMEM)) => {
                        huge.none_left(VERB, len, self.node)
                    }
                    _ => error,
                });
            }
        }
        if self.locked {
            map.lock()?;
        }
        Ok(map)
    }
}

/// The page size of a file's mappings.
fn page_of(fd: BorrowedFd<'_>) -> usize {
    let mut system = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the call fills the local if it returns 0.
    let system = unsafe {
        (libc::fstatfs(fd.as_raw_fd(), system.as_mut_ptr()) == 0).then(|| system.assume_init())
    };
    // The two types differ on musl.
    let is_huge =
        |system: &libc::statfs| i128::from(system.f_type) == i128::from(libc::HUGETLBFS_MAGIC);
    let huge = system.filter(is_huge);
    huge.and_then(|system| usize::try_from(system.f_bsize).ok()).unwrap_or_else(page)
}

#[cfg(all(test, not(miri)))]
mod tests;
