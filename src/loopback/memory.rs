//! Protection domains and memory regions: keys resolve to the registered pointer and an offset.
//!
//! The device never makes a pointer from an address. Every access goes through a region that is
//! registered at that moment, under the fabric's lock, so none can outlive `dereg_mr`.
#![allow(unsafe_code)] // Registered memory is reached through raw pointers.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::Verb;
use super::fabric::State;
use super::wr::Sge;
use crate::open::Open;
use crate::sys::types::{OPTIONAL_ACCESS, ibv_access_flags as right};

pub(super) const LOCAL_WRITE: u32 = right::IBV_ACCESS_LOCAL_WRITE.0;
pub(super) const REMOTE_WRITE: u32 = right::IBV_ACCESS_REMOTE_WRITE.0;
pub(super) const REMOTE_READ: u32 = right::IBV_ACCESS_REMOTE_READ.0;
pub(super) const REMOTE_ATOMIC: u32 = right::IBV_ACCESS_REMOTE_ATOMIC.0;
const REMOTE: u32 = REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC;
const KNOWN: u32 = LOCAL_WRITE
    | REMOTE
    | right::IBV_ACCESS_MW_BIND.0
    | right::IBV_ACCESS_HUGETLB.0
    | OPTIONAL_ACCESS;

pub(super) struct Pd {
    pub(super) device: u32,
}

pub(super) struct Mr {
    pd: u32,
    base: Base,
    length: usize,
    access: u32,
}

/// The pointer that was registered, with its provenance.
#[derive(Clone, Copy)]
struct Base(NonNull<u8>);

// SAFETY: a bare pointer. It is only used under the contract of `reg_mr`: the memory stays valid for
// the device, whichever thread runs it, until `dereg_mr`.
unsafe impl Send for Base {}

/// Keys differ, so that one used in the other's place is found out.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Local(u32),
    Remote(u32),
}

const LOCAL_TAG: u32 = 0x11;
const REMOTE_TAG: u32 = 0x22;

impl Key {
    fn region(self) -> Option<u32> {
        let (key, tag) = match self {
            Key::Local(key) => (key, LOCAL_TAG),
            Key::Remote(key) => (key, REMOTE_TAG),
        };
        (key & 0xff == tag).then_some(key >> 8)
    }
}

/// A piece of a registered region, checked for range and rights, while the lock is held.
#[derive(Clone, Copy)]
pub(super) struct Span {
    region: Base,
    region_length: usize,
    offset: usize,
    length: usize,
    /// Whether anything but the registering program could write there meanwhile.
    shared: bool,
}

impl State {
    pub(super) fn alloc_pd(&mut self, device: u32) -> Verb<u32> {
        self.check_alive(device)?;
        let number = self.number()?;
        self.pds.insert(number, Pd { device });
        Ok(number)
    }

    pub(super) fn dealloc_pd(&mut self, pd: u32) -> Verb {
        self.destroy_fault(None)?;
        let used = self.mrs.values().any(|mr| mr.pd == pd)
            || self.ahs.values().any(|ah| ah.pd == pd)
            || self.srqs.values().any(|srq| srq.pd == pd)
            || self.qps.values().any(|qp| qp.pd == pd);
        if used {
            return Err(libc::EBUSY);
        }
        self.pds.remove(&pd).map(drop).ok_or(libc::EINVAL)
    }

    /// Gives the number of the region, its lkey and its rkey (0 without a remote right).
    ///
    /// The caller vouches, as `reg_mr` asks, for the memory until `dereg_mr`.
    pub(super) fn reg_mr(
        &mut self,
        pd: u32,
        base: *mut u8,
        length: usize,
        access: u32,
    ) -> Verb<(u32, u32, u32)> {
        self.check_alive_pd(pd)?;
        let writes = access & (REMOTE_WRITE | REMOTE_ATOMIC) != 0;
        if !self.pds.contains_key(&pd)
            || length == 0
            || access & !KNOWN != 0
            || writes && access & LOCAL_WRITE == 0
            || base.addr().checked_add(length).is_none()
        {
            return Err(libc::EINVAL);
        }
        let base = Base(NonNull::new(base).ok_or(libc::EFAULT)?);
        let number = self.number()?;
        self.mrs.insert(number, Mr { pd, base, length, access });
        let rkey = if access & REMOTE != 0 { number << 8 | REMOTE_TAG } else { 0 };
        Ok((number, number << 8 | LOCAL_TAG, rkey))
    }

    pub(super) fn dereg_mr(&mut self, mr: u32) -> Verb {
        self.destroy_fault(None)?;
        self.check_unused_memory(mr << 8 | LOCAL_TAG);
        self.mrs.remove(&mr).map(drop).ok_or(libc::EINVAL)
    }

    /// The memory that `key` opens at `addr`, if it does: same PD, every right of `rights`, in range.
    pub(super) fn resolve(
        &self,
        pd: u32,
        key: Key,
        addr: u64,
        length: usize,
        rights: u32,
    ) -> Option<Span> {
        let mr = self.mrs.get(&key.region()?)?;
        if mr.pd != pd || mr.access & rights != rights {
            return None;
        }
        let offset = usize::try_from(addr).ok()?.checked_sub(mr.base.0.addr().get())?;
        if offset.checked_add(length)? > mr.length {
            return None;
        }
        Some(Span {
            region: mr.base,
            region_length: mr.length,
            offset,
            length,
            shared: mr.access & LOCAL_WRITE != 0,
        })
    }

    /// The bytes that a gather list names, or `None` if a key, a range or a right is wrong.
    pub(super) fn gather(&self, pd: u32, list: &[Sge]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for sge in list.iter().filter(|sge| sge.length > 0) {
            let length = sge.length as usize;
            self.resolve(pd, Key::Local(sge.lkey), sge.addr, length, 0)?.load(&mut bytes);
        }
        Some(bytes)
    }

    /// Fills a scatter list in its order. Nothing is written unless all that would be touched is open.
    /// The caller has seen that the list is long enough; what is left over is dropped.
    pub(super) fn scatter(&self, pd: u32, list: &[Sge], mut bytes: &[u8]) -> Option<()> {
        let mut spans = Vec::new();
        for sge in list {
            let (piece, rest) = bytes.split_at(bytes.len().min(sge.length as usize));
            bytes = rest;
            if !piece.is_empty() {
                let key = Key::Local(sge.lkey);
                spans.push((self.resolve(pd, key, sge.addr, piece.len(), LOCAL_WRITE)?, piece));
            }
        }
        for (span, piece) in spans {
            span.store(piece);
        }
        Some(())
    }
}

/// Programs may look at memory that is open to the fabric while the device works on it, so both do as `Open`
/// says. Everything else is ordered by the fabric's lock, which every verb takes.
impl Span {
    fn open(&self) -> Open {
        // SAFETY: valid while registered (the contract of `reg_mr`), for writes too (`shared`: LOCAL_WRITE),
        // and the value is used under the lock. Memory that is not open to the fabric is the device's alone
        // while a work request names it; its words are not shared with other buffers, which are
        // whole words.
        unsafe { Open::new(self.region.0, self.region_length) }
    }

    /// Appends the bytes to `out`.
    pub(super) fn load(self, out: &mut Vec<u8>) {
        out.reserve(self.length);
        if self.shared {
            self.open().read(self.offset, self.length, |part| out.extend_from_slice(part));
            return;
        }
        // Nothing but reads can happen to memory registered without LOCAL_WRITE, and it may be
        // behind a shared reference, from which no atomic may be made.
        for at in self.offset..self.offset + self.length {
            // SAFETY: inside the region (`resolve`).
            let byte = unsafe { self.region.0.add(at) };
            // SAFETY: readable while registered (the contract of `reg_mr`).
            out.push(unsafe { byte.read() });
        }
    }

    /// Writes `bytes`, cut to the length of the span.
    pub(super) fn store(self, bytes: &[u8]) {
        self.open().write(self.offset, &bytes[..bytes.len().min(self.length)]);
    }

    /// Runs `change` on the word at the start, if it is a whole aligned word.
    pub(super) fn atomic(self, change: impl FnOnce(&AtomicU64) -> u64) -> Option<u64> {
        if self.length < 8 {
            return None;
        }
        self.open().word(self.offset).map(change)
    }
}
