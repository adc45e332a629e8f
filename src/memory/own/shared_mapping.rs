//! Mappings of files, which other processes can write.

#![allow(unsafe_code)] // accesses the bytes of a mapping

use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use crate::allows::{Allows, call};
use crate::memory::open::{Open, read_volatile};
use crate::memory::own::map::Map;
use crate::memory::own::mapping::MapOptions;
use crate::memory::{Memory, OutOfBounds, Protection, ReadOnly, Shared, Writable};
use crate::terms::error::Error;

/// A mapping of a file, a memfd or shared memory (mmap(2) with `MAP_SHARED`): [`Memory`] that other
/// processes may write at any time.
///
/// So it cannot be borrowed as a slice, nor used for a pool. The program reads and writes it with
/// copies: here before registration, and through the region afterwards. If `P` is `ReadOnly`, it is
/// mapped read-only.
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
    /// `range` must start at a page boundary. The mapping stays valid after the file is closed.
    ///
    /// # Errors
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): `range` exceeds the file.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if the range is empty or does not start at
    ///   a page boundary, EACCES if the file is not open for reading and writing.
    pub fn file(&self, file: impl AsFd, range: Range<u64>) -> Result<SharedMapping, Error> {
        self.map_file(file.as_fd(), range)
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
        self.map_file(file.as_fd(), range)
    }

    /// Creates and maps a memfd of `len` zeroed bytes (memfd_create(2)), and seals its size.
    /// Another process can map it through the returned descriptor.
    ///
    /// # Errors
    /// As for [`anonymous`](Self::anonymous); EINVAL if `name` has more than 249 bytes or a zero.
    pub fn memfd(&self, name: &str, len: usize) -> Result<(SharedMapping, OwnedFd), Error> {
        let fd = self.0.memfd(name, len)?;
        Ok((self.file(&fd, 0..len as u64)?, fd))
    }

    fn map_file<P: Protection>(
        &self,
        fd: BorrowedFd<'_>,
        range: Range<u64>,
    ) -> Result<SharedMapping<P>, Error> {
        let (map, sealed) = self.0.file(fd, range, P::IS_WRITABLE)?;
        // INVARIANT: just mapped with the protection of `P`.
        Ok(SharedMapping { map, sealed, _protection: PhantomData })
    }
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
    /// Other processes may write these bytes at the same time. Each copied byte is then a value
    /// that was in memory at some moment.
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
