//! Anonymous mappings: memory of the program's own in huge pages, on a node, locked.

#![allow(unsafe_code)] // hands out the bytes of a mapping

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::memory::own::heap::page;
use crate::memory::own::map::{HugePage, Map};
use crate::memory::{Memory, Private, Writable};
use crate::terms::error::Error;

const VERB: &str = "mmap";

/// What a mapping is to be like: see [`Mapping`] and
/// [`SharedMapping`](crate::memory::SharedMapping).
#[doc(alias = "mmap")]
#[derive(Clone, Copy, Debug, Default)]
pub struct MapOptions {
    pub(crate) huge: Option<HugePage>,
    pub(crate) node: Option<u32>,
    pub(crate) populate: bool,
    pub(crate) locked: bool,
    pub(crate) dontfork: bool,
}

impl MapOptions {
    /// Pages of the usual size, wherever the system has them, when they are first touched.
    pub fn new() -> Self {
        Self::default()
    }

    /// In huge pages (`MAP_HUGETLB`): for a large region a device needs fewer translations. A file
    /// has the pages of its file system, whatever is said here.
    pub fn huge(mut self, page: HugePage) -> Self {
        self.huge = Some(page);
        self
    }

    /// On a NUMA node (mbind(2) with `MPOL_BIND`), such as that of the device: the number in
    /// /sys/class/infiniband/DEVICE/device/numa_node. Huge pages on a node are populated at once,
    /// since what is reserved need not be on that node.
    pub fn node(mut self, node: u32) -> Self {
        self.node = Some(node);
        self
    }

    /// Brings every page into memory at once (`MADV_POPULATE_WRITE`, or mlock(2) before Linux
    /// 5.14). Registering does so later anyway.
    pub fn populate(mut self) -> Self {
        self.populate = true;
        self
    }

    /// Locks every page into memory (mlock(2), which `MAP_LOCKED` stands for). A registered page is
    /// pinned in any case; this also keeps one that is not registered.
    pub fn locked(mut self) -> Self {
        self.locked = true;
        self
    }

    /// Leaves the mapping out of child processes (`MADV_DONTFORK`), where it is not mapped then: to
    /// touch it there ends the child. fork(2) copies pinned pages for the child otherwise, or,
    /// before Linux 5.12, may leave this process with a copy that the device does not know
    /// ([R17.4](crate::guide::rules#r17-4)).
    pub fn dontfork(mut self) -> Self {
        self.dontfork = true;
        self
    }

    /// Maps `len` zeroed bytes of no file (`MAP_ANONYMOUS | MAP_PRIVATE`).
    ///
    /// # Errors
    /// [`ErrorKind::HugePages`](crate::ErrorKind::HugePages) if there are too few of them,
    /// [`ErrorKind::LockedMemory`](crate::ErrorKind::LockedMemory) if the process may not lock so
    /// much, otherwise [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if `len` is 0 or there is
    /// no such node, ENOMEM.
    pub fn anonymous(&self, len: usize) -> Result<Mapping, Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | self.huge_flags(libc::MAP_HUGETLB);
        let size = self.huge.map_or_else(page, HugePage::size);
        let map = Map::new(len, size, libc::PROT_READ | libc::PROT_WRITE, flags, None);
        let map = map.map_err(|errno| self.refused(VERB, errno, format!("{len} bytes"), len))?;
        // INVARIANT: an anonymous mapping of its own, readable and writable.
        Ok(Mapping { map: self.apply_to(map, true)? })
    }

    /// `hugetlb`, and the size of the pages as mmap(2) and memfd_create(2) take it; else 0.
    pub(crate) fn huge_flags(&self, hugetlb: libc::c_int) -> libc::c_int {
        self.huge.map_or(0, |page| hugetlb | page.log2() << libc::MAP_HUGE_SHIFT)
    }

    pub(crate) fn refused(
        &self,
        verb: &'static str,
        errno: i32,
        asked: String,
        len: usize,
    ) -> Error {
        match self.huge {
            // EINVAL: the kernel has no pages of this size.
            Some(huge) if len > 0 && matches!(errno, libc::ENOMEM | libc::EINVAL) => {
                huge.none_left(verb, len, None)
            }
            _ => Error::os(verb, errno, asked),
        }
    }

    /// Does with a new mapping what was asked for.
    pub(crate) fn apply_to(&self, map: Map, writable: bool) -> Result<Map, Error> {
        if self.dontfork {
            map.dontfork()?;
        }
        if let Some(node) = self.node {
            map.bind(node)?;
        }
        if self.populate || self.node.is_some() && self.huge.is_some() {
            if let Err(error) = map.populate(writable) {
                let len = map.len();
                // What it got of the pages is free again, and counted as such.
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

/// An anonymous mapping (mmap(2)), zeroed: [`Memory`] that is private and in whole pages, huge ones
/// if asked for, and that no other data shares.
///
/// ```no_run
/// # use proverbs::prelude::*;
/// use proverbs::memory::{HugePage, MapOptions, Mapping};
/// # fn example(pd: ProtectionDomain) -> Result<(), Box<dyn std::error::Error>> {
/// let memory = MapOptions::new().huge(HugePage::GiB1).node(1).anonymous(4 << 30)?;
/// let pool: Pool<(), Mapping> = pd.pool(1 << 20).create_in(memory)?; // 4096 buffers of 1 MiB
/// # drop(pool);
/// # Ok(())
/// # }
/// ```
///
/// While it is no pool's or region's, it is a slice:
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Mapping;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let mut table = Mapping::new(1 << 16)?;
/// table[..5].copy_from_slice(b"hello");
/// let region = pd.region::<RemoteRead>().create_in(table)?;
/// let table: Mapping = region.destroy()?;
/// assert_eq!((&table[..5], table.len()), (&b"hello"[..], 1 << 16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "mmap")]
pub struct Mapping {
    // Invariants:
    // `map` is anonymous, private, readable and writable.
    map: Map,
}

impl Mapping {
    /// Maps `len` zeroed bytes in pages of the usual size. [`MapOptions`] says more.
    ///
    /// # Errors
    /// As for [`MapOptions::anonymous`].
    pub fn new(len: usize) -> Result<Self, Error> {
        MapOptions::new().anonymous(len)
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped readable, zeroed by the kernel, and reached through this value only.
        unsafe { self.map.bytes().as_ref() }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped writable, and reached through this value only, which is borrowed
        // exclusively.
        unsafe { self.map.bytes().as_mut() }
    }
}

// SAFETY: the mapping stays where it is until `Map` is dropped, is zeroed, readable and writable,
// and is reached through this value only. It is private: a child process has a copy.
unsafe impl Memory for Mapping {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        self.map.bytes()
    }
}

impl_debug!(Mapping, |it| "Mapping({} bytes)", it.map.len());
