//! Anonymous mappings: private memory, optionally in huge pages, on a NUMA node, or locked.

#![allow(unsafe_code)] // hands out the bytes of a mapping

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::memory::own::map::{HugePage, Map};
use crate::memory::{Memory, Private, Writable};
use crate::sys::mem::options;
use crate::terms::error::Error;

/// Options of a [`Mapping`] or a [`SharedMapping`](crate::memory::SharedMapping).
#[doc(alias = "mmap")]
#[derive(Clone, Copy, Default)]
pub struct MapOptions(pub(super) options::MapOptions);

impl_debug!(MapOptions, |it| "{:?}", it.0);

impl MapOptions {
    /// Pages of the default size, on any node, allocated on first access.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses huge pages (`MAP_HUGETLB`), so that the device needs fewer translations for a large
    /// region. A mapping of a file always has the page size of the file system.
    pub fn huge(mut self, page: HugePage) -> Self {
        self.0.huge = Some(page);
        self
    }

    /// Places the pages on a NUMA node (mbind(2) with `MPOL_BIND`), such as the node of the device
    /// (see /sys/class/infiniband/DEVICE/device/numa_node). Huge pages on a node are populated
    /// immediately, because reserved pages may be on other nodes.
    pub fn node(mut self, node: u32) -> Self {
        self.0.node = Some(node);
        self
    }

    /// Brings every page into memory immediately (`MADV_POPULATE_WRITE`, or mlock(2) before Linux
    /// 5.14). Without this, registering the memory does so later.
    pub fn populate(mut self) -> Self {
        self.0.populate = true;
        self
    }

    /// Locks every page into memory (mlock(2), like `MAP_LOCKED`). A registered page is pinned in
    /// any case; this also locks pages that are not registered.
    pub fn locked(mut self) -> Self {
        self.0.locked = true;
        self
    }

    /// Excludes the mapping from child processes (`MADV_DONTFORK`). A child that accesses it is
    /// killed. Without this, fork(2) copies pinned pages for the child. Before Linux 5.12, fork(2)
    /// may instead leave this process with a copy that the device does not use
    /// ([R17.4](crate::guide::rules#r17-4)).
    pub fn dontfork(mut self) -> Self {
        self.0.dontfork = true;
        self
    }

    /// Maps `len` zeroed bytes of anonymous memory (`MAP_ANONYMOUS | MAP_PRIVATE`).
    ///
    /// # Errors
    /// - [`ErrorKind::HugePages`](crate::ErrorKind::HugePages): there are not enough huge pages.
    /// - [`ErrorKind::LockedMemory`](crate::ErrorKind::LockedMemory): the limit of locked memory is
    ///   too low.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if `len` is 0 or the node does not exist,
    ///   ENOMEM.
    pub fn anonymous(&self, len: usize) -> Result<Mapping, Error> {
        // INVARIANT: a separate anonymous mapping, readable and writable.
        Ok(Mapping { map: self.0.anonymous(len)? })
    }
}

/// An anonymous mapping (mmap(2)), zeroed: private [`Memory`] in whole pages, which contain no
/// other data. The pages can be huge.
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
/// While no pool or region owns the mapping, it dereferences to a slice:
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
    /// Maps `len` zeroed bytes in pages of the default size. See [`MapOptions`] for other pages.
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
        // SAFETY: mapped readable, zeroed by the kernel, and accessed only through this value.
        unsafe { self.map.bytes().as_ref() }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped writable, and accessed only through this value, which is borrowed
        // exclusively.
        unsafe { self.map.bytes().as_mut() }
    }
}

// SAFETY: the mapping stays where it is until `Map` is dropped. It is zeroed, readable and
// writable, and accessed only through this value. It is private: a child process has a copy.
unsafe impl Memory for Mapping {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        self.map.bytes()
    }
}

impl_debug!(Mapping, |it| "Mapping({} bytes)", it.map.len());
