//! Memory regions: keys resolve to the registered pointer and an offset.
//!
//! The device makes no pointer from an address, except in an implicit region. Every access goes
//! through a region that is registered at that moment, under the fabric's lock, so no access can
//! outlive `dereg_mr`. (Memory in an implicit region stays valid while a work request names it.)

// No model: the atomics are the device's accesses to memory of the program, as
// `sys::mem::open` makes them.

#![allow(unsafe_code)] // Registered memory is reached through raw pointers.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::words::Verb;
use proverbs_sys::control::Holds;
use proverbs_sys::mem::exact;
use proverbs_sys::mem::map::Map;
use proverbs_sys::mem::open::Open;
use proverbs_sys::types::{ibv_access_flags, ibv_access_flags as right};

pub(crate) const LOCAL_WRITE: u32 = right::IBV_ACCESS_LOCAL_WRITE.0;
pub(crate) const REMOTE_WRITE: u32 = right::IBV_ACCESS_REMOTE_WRITE.0;
pub(crate) const REMOTE_READ: u32 = right::IBV_ACCESS_REMOTE_READ.0;
pub(crate) const REMOTE_ATOMIC: u32 = right::IBV_ACCESS_REMOTE_ATOMIC.0;
pub(crate) const REMOTE: u32 = REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC;
pub(crate) const MW_BIND: u32 = right::IBV_ACCESS_MW_BIND.0;
pub(crate) const ON_DEMAND: u32 = ibv_access_flags::IBV_ACCESS_ON_DEMAND.0;

pub(crate) struct Mr {
    pub(crate) pd: u32,
    pub(crate) base: Base,
    pub(crate) length: usize,
    /// The address of the first byte, as work requests give it.
    pub(crate) iova: u64,
    pub(crate) access: u32,
    pub(crate) backing: Backing,
    /// A message invalidated its key, which is possible on iWARP.
    pub(crate) is_ended: bool,
    /// Peers have or had access to it, by its own key or by a window.
    pub(crate) is_exposed: bool,
    /// `dereg_mr` returned 0, but a peer's request still uses it ([`Fault::GivesUp`]).
    ///
    /// [`Fault::GivesUp`]: crate::Fault::GivesUp
    pub(crate) is_held: bool,
}

/// The owner of a region's memory.
pub(crate) enum Backing {
    Program(Holds),
    /// A file, mapped while the region is registered.
    Map(#[allow(dead_code)] Map), // held, not read
    /// A device's memory, by the number of its `Dm`.
    Device(u32),
    /// No memory: reads return zeroes, and writes are discarded.
    Null,
    /// The whole address space of the process: the implicit region.
    Whole,
}

impl Mr {
    /// A region of the program's memory, with the program's addresses.
    pub(crate) fn of_program(pd: u32, base: Base, length: usize, access: u32, holds: Holds) -> Mr {
        Mr {
            iova: base.0.addr().get() as u64,
            is_exposed: access & (REMOTE | MW_BIND) != 0,
            ..Mr::new(pd, base, length, access, Backing::Program(holds))
        }
    }

    /// A region of memory that does not belong to the program; its addresses begin at 0.
    pub(crate) fn new(pd: u32, base: Base, length: usize, access: u32, backing: Backing) -> Mr {
        let (is_ended, is_exposed, is_held) = (false, false, false);
        Mr { pd, base, length, iova: 0, access, backing, is_ended, is_exposed, is_held }
    }

    /// Whether a peer's request may access the program's memory through it. A request that began
    /// before the region lost its rights continues.
    pub(crate) fn is_reached_by_peers(&self) -> bool {
        matches!(self.backing, Backing::Program(_)) && self.is_exposed
    }
}

/// The pointer that was registered, with its provenance.
#[derive(Clone, Copy)]
pub(crate) struct Base(pub(crate) NonNull<u8>);

// SAFETY: this is a plain pointer. It is used only under the contract of `reg_mr`: the memory stays
// valid for the device, on any thread that the device runs on, until `dereg_mr`. (The region or the
// device keeps memory that does not belong to the program.)
unsafe impl Send for Base {}

/// lkeys and rkeys differ, so that using one as the other is detected.
#[derive(Clone, Copy)]
pub(crate) enum Key {
    Local(u32),
    /// With the number of the queue pair that received it.
    Remote(u32, u32),
}

pub(crate) const LOCAL_TAG: u32 = 0x11;
pub(crate) const REMOTE_TAG: u32 = 0x22;

/// The number of the object that this key belongs to, if the key has that tag.
pub(crate) fn number_of(key: u32, tag: u32) -> Option<u32> {
    (key & 0xff == tag).then_some(key >> 8)
}

/// A piece of a registered region, checked for range and rights while the lock is held.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) region: Base,
    pub(crate) region_length: usize,
    pub(crate) offset: usize,
    pub(crate) length: usize,
    /// Whether anything but the registering program could write there at the same time.
    pub(crate) shared: bool,
    /// Whether there is no memory.
    pub(crate) is_null: bool,
    /// Whether the program accesses the memory in its own ways, so the device must touch exactly
    /// the named bytes.
    pub(crate) is_opaque: bool,
}

/// Programs may access memory that is open to the fabric while the device works on it, so both
/// sides follow the rules of `Open`. The fabric's lock, which every verb takes, orders all other
/// accesses.
impl Span {
    /// The same bytes as a separate region. Bytes that share a word with them are not touched: they
    /// may be part of another buffer, of which the program has slices.
    pub(crate) fn alone(self) -> Span {
        let region = Base(self.first());
        Span { region, region_length: self.length, offset: 0, ..self }
    }

    /// The first byte.
    fn first(&self) -> NonNull<u8> {
        // SAFETY: inside the region (`resolve`).
        unsafe { self.region.0.add(self.offset) }
    }

    pub(crate) fn open(&self) -> Open {
        // SAFETY: the memory is valid while registered (the contract of `reg_mr`), for writes too
        // (`shared` implies LOCAL_WRITE), and the value is used under the lock. A span that is
        // `alone` belongs to the device while a work request names it. All other memory is open to
        // the fabric, and programs access it through `Open` as well.
        unsafe { Open::new(self.region.0, self.region_length) }
    }

    /// Appends the bytes to `out`.
    pub(crate) fn load(self, out: &mut Vec<u8>) {
        let before = out.len();
        if self.shared {
            out.append(&mut vec![0; self.length]); // (`resize` writes byte by byte in a debug build)
            if self.is_null {
                return;
            }
            let out = &mut out[before..];
            if self.is_opaque {
                // SAFETY: inside the region (`resolve`), and valid while registered, for writes
                // too. Programs access opaque memory as they would with a real device: see `exact`.
                return unsafe { exact::copy(self.first(), out) };
            }
            let copied = self.open().copy(self.offset, out);
            return copied.expect("inside the region (`resolve`)");
        }
        // Memory registered without LOCAL_WRITE is only read. It may be behind a shared reference,
        // from which no atomic may be made. Other processes may write it (a file), so the reads are
        // volatile.
        for at in self.offset..self.offset + self.length {
            // SAFETY: inside the region (`resolve`), and readable while registered (the contract of
            // `reg_mr`).
            out.push(unsafe { self.region.0.add(at).read_volatile() });
        }
    }

    /// Writes `bytes`, truncated to the length of the span.
    pub(crate) fn store(self, bytes: &[u8]) {
        if self.is_null {
            return;
        }
        let bytes = &bytes[..bytes.len().min(self.length)];
        if self.is_opaque {
            // SAFETY: as in `load`.
            return unsafe { exact::write(self.first(), bytes) };
        }
        let written = self.open().write(self.offset, bytes);
        written.expect("inside the region (`resolve`)");
    }

    /// Runs `change` on the first word, if it is whole and aligned.
    pub(crate) fn atomic(self, change: impl FnOnce(&AtomicU64) -> u64) -> Option<u64> {
        if self.length < 8 || self.is_null {
            return None;
        }
        self.open().word(self.offset).map(change)
    }
}

/// The rights for which the kernel pins pages for writing: `ib_access_writable` of
/// include/rdma/ib_verbs.h.
pub(crate) const PINS_TO_WRITE: u32 = LOCAL_WRITE | REMOTE_WRITE | REMOTE_ATOMIC | MW_BIND;

/// Fails with EFAULT if a right allows writes and a page is mapped read-only.
pub(crate) fn check_pages(base: Base, length: usize, access: u32) -> Verb {
    let start = base.0.addr().get();
    let writes = access & PINS_TO_WRITE != 0;
    if writes && has_read_only_pages(start, start + length) { Err(libc::EFAULT) } else { Ok(()) }
}

/// Whether a read-only mapping of this process overlaps these addresses (proc(5)). Miri has none.
pub(crate) fn has_read_only_pages(start: usize, end: usize) -> bool {
    if cfg!(miri) {
        return false;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let parts = || {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let hex = |number| usize::from_str_radix(number, 16).ok();
            Some((hex(from)?, hex(to)?, rest.as_bytes().get(1) == Some(&b'w')))
        };
        parts().is_some_and(|(from, to, is_writable)| from < end && start < to && !is_writable)
    })
}
