//! Mappings of files, which other processes can write.

#![allow(unsafe_code)] // accesses the bytes of a mapping

use std::ffi::CString;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::allows::{Allows, call};
use crate::memory::open::{Open, read_volatile};
use crate::memory::own::heap::page;
use crate::memory::own::map::{Map, errno};
use crate::memory::own::mapping::MapOptions;
use crate::memory::{Memory, OutOfBounds, Protection, ReadOnly, Shared, Writable};
use crate::terms::error::Error;

const VERB: &str = "mmap";

/// A mapping of a file, a memfd or shared memory (mmap(2) with `MAP_SHARED`): [`Memory`] that other
/// processes may write at any time.
///
/// So it cannot be a slice or a pool. It is read and written by copies, both here and in its region
/// after registration. With `ReadOnly` as `P` it is mapped for reading.
///
/// Other processes can truncate a file while it is mapped. This is sound: the device continues to
/// use the pages that it has pinned, which no longer belong to the file. A program that accesses a
/// page beyond the new end of the file is killed by SIGBUS. [`is_sealed`](Self::is_sealed) reports
/// whether truncation is prevented.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{MapOptions, ReadOnly, SharedMapping};
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// # let path = std::env::temp_dir().join(format!("proverbs-shared-mapping-{}", std::process::id()));
/// std::fs::write(&path, b"a table that is larger than memory")?;
/// let file = std::fs::File::open(&path)?;
/// let table: SharedMapping<ReadOnly> = MapOptions::new().file_read_only(&file, 0..34)?;
/// let region = pd.region::<RemoteRead>().create_in(table)?; // peers read the file
/// let mut word = [0; 5];
/// region.read_at(2, &mut word)?;
/// assert_eq!(&word, b"table");
/// # std::fs::remove_file(&path)?;
///
/// let (memory, fd) = MapOptions::new().memfd("queue", 4096)?; // `fd` is for another process
/// memory.write_at(0, b"hello")?;
/// assert!(memory.is_sealed());
/// let region: MemoryRegion<RemoteWrite, SharedMapping> = pd.region().create_in(memory)?;
/// # drop((fd, region));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedMapping<P = Writable> {
    // Invariants:
    // `map` is readable, and writable if `P` is [`Writable`]. Rust code of this process accesses
    // the bytes only through atomics, or, if they are not writable, with volatile reads.
    map: Map,
    sealed: bool,
    _protection: PhantomData<fn() -> P>,
}

impl MapOptions {
    /// Maps the bytes `range` of a file that is open for reading and writing. Shared memory is also
    /// a file: shm_open(3) opens a file in /dev/shm.
    ///
    /// `range` must start at a page. The mapping remains after the file is closed.
    ///
    /// # Errors
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): `range` exceeds the file.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if the range is empty or does not start at
    ///   a page, EACCES if the file is not open for reading and writing.
    pub fn file(&self, file: impl AsFd, range: Range<u64>) -> Result<SharedMapping, Error> {
        self.map_file(file.as_fd(), range, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Like [`file`](Self::file), for reading only.
    ///
    /// Linux before 6.2 cannot register a read-only mapping of a file (EFAULT).
    ///
    /// # Errors
    /// As for [`file`](Self::file).
    pub fn file_read_only(
        &self,
        file: impl AsFd,
        range: Range<u64>,
    ) -> Result<SharedMapping<ReadOnly>, Error> {
        self.map_file(file.as_fd(), range, libc::PROT_READ)
    }

    /// Creates and maps a memfd of `len` zeroed bytes (memfd_create(2)), and seals its size.
    /// Another process can map it through the returned descriptor.
    ///
    /// # Errors
    /// As for [`anonymous`](Self::anonymous); EINVAL if `name` has more than 249 bytes or a zero.
    pub fn memfd(&self, name: &str, len: usize) -> Result<(SharedMapping, OwnedFd), Error> {
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
        Ok((self.file(&fd, 0..len as u64)?, fd))
    }

    fn map_file<P: Protection>(
        &self,
        fd: BorrowedFd<'_>,
        range: Range<u64>,
        protection: libc::c_int,
    ) -> Result<SharedMapping<P>, Error> {
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
        let map = self.apply_to(map, protection & libc::PROT_WRITE != 0)?;
        // SAFETY: reads the seals of an open descriptor. This fails with EINVAL for a file without
        // seals.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        let sealed = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
        // INVARIANT: just mapped with the protection of `P`, which the callers pass.
        Ok(SharedMapping { map, sealed, _protection: PhantomData })
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

impl<P> SharedMapping<P> {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Always false: empty mappings are rejected.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether the file cannot be truncated (`F_SEAL_SHRINK` of fcntl(2)). True for a
    /// [`memfd`](MapOptions::memfd).
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Copies bytes at `offset` into `out`.
    ///
    /// Other processes may write them at the same time. Each byte is then one that was in memory at
    /// some moment.
    ///
    /// # Errors
    /// [`OutOfBounds`] if the bytes are not all inside. Nothing is read then.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds>
    where
        Self: Memory,
    {
        if <Self as Memory>::Protection::IS_WRITABLE {
            // SAFETY: the mapping is writable, as declared by `P`. It lives as long as `self`, and
            // this process accesses its bytes only atomically (invariant).
            return unsafe { Open::new(self.map.base(), self.len()) }.copy(offset, out);
        }
        OutOfBounds::check(offset, out.len(), self.len())?;
        // SAFETY: inside the mapping (checked), which is readable, and lives as long as `self`. It
        // is read-only, so no Rust code writes it.
        unsafe { read_volatile(self.map.base(), offset, out) };
        Ok(())
    }

    /// Copies `bytes` into the mapping at `offset`.
    ///
    /// # Errors
    /// [`OutOfBounds`] if the bytes are not all inside. Nothing is written then.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds>
    where
        Self: Allows<call::WriteAt>,
    {
        // SAFETY: mapped writable (`P`), and alive as long as `self`. This process accesses the
        // bytes only atomically (invariant).
        unsafe { Open::new(self.map.base(), self.len()) }.write(offset, bytes)
    }
}

ruled_by! { WriteAt: [P: Protection] SharedMapping<P>, SharedMapping<P>; }

// SAFETY: the mapping stays where it is until `Map` is dropped, and has the protection of `P`
// (invariant). Its bytes come from a file, so they are initialised. This process accesses them only
// through this value. If the file is truncated, a program that accesses the missing pages is
// killed. No access can reach other memory, because the mapping stays.
unsafe impl<P: Protection> Memory for SharedMapping<P> {
    type Sharing = Shared;
    type Protection = P;

    fn bytes(&mut self) -> NonNull<[u8]> {
        self.map.bytes()
    }
}

impl_debug!([P] SharedMapping<P>, |it| "SharedMapping({} bytes)", it.len());

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// If the kernel cannot extend a file, the verb that creates it fails. Here a limit of the
    /// process causes this (setrlimit(2)), in a separate process.
    #[test]
    fn a_file_that_cannot_have_its_length() {
        const CHILD: &str = "PROVERBS_SHORT_FILES";
        if std::env::var_os(CHILD).is_none() {
            let this = std::env::current_exe().unwrap();
            let name = "memory::own::shared_mapping::tests::a_file_that_cannot_have_its_length";
            let child = std::process::Command::new("sh")
                .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact \"$1\""])
                .args([this.as_os_str(), name.as_ref()])
                .env(CHILD, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout);
            assert!(child.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let error = MapOptions::new().memfd("long", 1 << 20).unwrap_err();
        assert_eq!((error.verb(), error.errno()), ("memfd_create", Some(libc::EFBIG)));
    }

    /// A file can be created without a single huge page. Only its mapping takes some.
    #[test]
    fn a_file_of_huge_pages_is_mapped_in_those() {
        let fd = |flags| {
            // SAFETY: the name is a C string, and a valid descriptor has no other owner.
            unsafe {
                let fd = libc::memfd_create(c"pages".as_ptr(), libc::MFD_CLOEXEC | flags);
                (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
            }
        };
        assert_eq!(page_of(fd(0).unwrap().as_fd()), page());
        match fd(libc::MFD_HUGETLB | libc::MFD_HUGE_2MB) {
            Some(huge) => assert_eq!(page_of(huge.as_fd()), 2 << 20),
            None => println!("skipped: this kernel has no pages of 2 MiB"),
        }
    }
}
