//! Anonymous mappings: private memory, optionally in huge pages, on a NUMA node, or locked.

#![allow(unsafe_code)] // hands out the bytes of a mapping

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::memory::own::heap::page;
use crate::memory::own::map::{HugePage, Map};
use crate::memory::{Memory, Private, Writable};
use crate::terms::error::Error;

const VERB: &str = "mmap";

/// Options of a [`Mapping`] or a [`SharedMapping`](crate::memory::SharedMapping).
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
    /// Pages of the default size, on any node, allocated on first access.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses huge pages (`MAP_HUGETLB`): the device needs fewer translations for a large region. A
    /// file always has the pages of its file system.
    pub fn huge(mut self, page: HugePage) -> Self {
        self.huge = Some(page);
        self
    }

    /// Places the pages on a NUMA node (mbind(2) with `MPOL_BIND`), such as the device's node,
    /// which /sys/class/infiniband/DEVICE/device/numa_node contains. Huge pages on a node are
    /// populated immediately, because reserved pages may be on other nodes.
    pub fn node(mut self, node: u32) -> Self {
        self.node = Some(node);
        self
    }

    /// Brings every page into memory immediately (`MADV_POPULATE_WRITE`, or mlock(2) before Linux
    /// 5.14). Registering does so later in any case.
    pub fn populate(mut self) -> Self {
        self.populate = true;
        self
    }

    /// Locks every page into memory (mlock(2), like `MAP_LOCKED`). A registered page is pinned in
    /// any case; this also locks pages that are not registered.
    pub fn locked(mut self) -> Self {
        self.locked = true;
        self
    }

    /// Excludes the mapping from child processes (`MADV_DONTFORK`). A child that accesses it is
    /// killed. Without this, fork(2) copies pinned pages for the child. Before Linux 5.12, it may
    /// instead leave this process with a copy that the device does not use
    /// ([R17.4](crate::guide::rules#r17-4)).
    pub fn dontfork(mut self) -> Self {
        self.dontfork = true;
        self
    }

    /// Maps `len` zeroed bytes of anonymous memory (`MAP_ANONYMOUS | MAP_PRIVATE`).
    ///
    /// # Errors
    /// - [`ErrorKind::HugePages`](crate::ErrorKind::HugePages): there are not enough of them.
    /// - [`ErrorKind::LockedMemory`](crate::ErrorKind::LockedMemory): the limit of locked memory is
    ///   too low.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if `len` is 0 or the node does not exist,
    ///   ENOMEM.
    pub fn anonymous(&self, len: usize) -> Result<Mapping, Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | self.huge_flags(libc::MAP_HUGETLB);
        let size = self.huge.map_or_else(page, HugePage::size);
        let map = Map::new(len, size, libc::PROT_READ | libc::PROT_WRITE, flags, None);
        let map = map.map_err(|errno| self.refused(VERB, errno, format!("{len} bytes"), len))?;
        // INVARIANT: a separate anonymous mapping, readable and writable.
        Ok(Mapping { map: self.apply_to(map, true)? })
    }

    /// `hugetlb` and the page size, as flags of mmap(2) and memfd_create(2), or 0 without huge
    /// pages.
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
            // EINVAL: the kernel does not support pages of this size.
            Some(huge) if len > 0 && matches!(errno, libc::ENOMEM | libc::EINVAL) => {
                huge.none_left(verb, len, None)
            }
            _ => Error::os(verb, errno, asked),
        }
    }

    /// Applies the options to a new mapping.
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

/// An anonymous mapping (mmap(2)), zeroed: private [`Memory`] in whole pages, optionally huge ones,
/// which no other data shares.
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
/// While no pool or region owns it, it is a slice:
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
