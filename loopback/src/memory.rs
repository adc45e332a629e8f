//! Protection domains and memory regions: keys resolve to the registered pointer and an offset.
//!
//! The device makes no pointer from an address, but for memory of an implicit region. Every access
//! goes through a region that is registered at that moment, under the fabric's lock, so no access
//! can outlive `dereg_mr`. (What an implicit region names stays while a work request names it.)

#![allow(unsafe_code)] // Registered memory is reached through raw pointers.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::Verb;
use super::fabric::State;
use super::on_demand::ON_DEMAND;
use super::strict::broken;
use super::wr::Sge;
use proverbs_sys::control::Holds;
use proverbs_sys::mem::map::Map;
use proverbs_sys::mem::open::Open;
use proverbs_sys::persist::{ACCESS_FLUSH_GLOBAL, ACCESS_FLUSH_PERSISTENT};
use proverbs_sys::provider::Provider;
use proverbs_sys::types::{OPTIONAL_ACCESS, ibv_access_flags as right};

pub(super) const LOCAL_WRITE: u32 = right::IBV_ACCESS_LOCAL_WRITE.0;
pub(super) const REMOTE_WRITE: u32 = right::IBV_ACCESS_REMOTE_WRITE.0;
pub(super) const REMOTE_READ: u32 = right::IBV_ACCESS_REMOTE_READ.0;
pub(super) const REMOTE_ATOMIC: u32 = right::IBV_ACCESS_REMOTE_ATOMIC.0;
pub(super) const REMOTE: u32 = REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC;
const MW_BIND: u32 = right::IBV_ACCESS_MW_BIND.0;
const KNOWN: u32 = LOCAL_WRITE
    | REMOTE
    | MW_BIND
    | right::IBV_ACCESS_HUGETLB.0
    | ACCESS_FLUSH_GLOBAL
    | ACCESS_FLUSH_PERSISTENT
    | OPTIONAL_ACCESS;

/// The shortest time after which a kernel's Soft-RoCE gives up: 200 ticks, of which a second has at
/// most 1,000.
const GIVES_UP_AFTER: Duration = Duration::from_millis(200);

pub(super) struct Pd {
    pub(super) device: u32,
}

pub(super) struct Mr {
    pub(super) pd: u32,
    pub(super) base: Base,
    pub(super) length: usize,
    /// The address of the first byte in work requests.
    pub(super) iova: u64,
    pub(super) access: u32,
    pub(super) backing: Backing,
    /// A message ended its key, as on iWARP messages can.
    pub(super) is_ended: bool,
    /// Peers have or had a right to it, in its own key or by a window.
    pub(super) is_exposed: bool,
    /// `dereg_mr` returned 0, and a peer's request still uses it ([`Fault::GivesUp`]).
    ///
    /// [`Fault::GivesUp`]: super::script::Fault::GivesUp
    pub(super) is_held: bool,
}

/// Whose memory a region is in.
pub(super) enum Backing {
    Program(Holds),
    /// A file's, mapped while it is registered.
    Map(#[allow(dead_code)] Map), // held, not read
    /// A device's, by the number of its `Dm`.
    Device(u32),
    /// None: zeroes are read there, and what is written is gone.
    Null,
    /// All that the process has: the implicit region.
    Whole,
}

impl Mr {
    /// A region of the program's memory, whose addresses are the program's.
    pub(super) fn of_program(pd: u32, base: Base, length: usize, access: u32, holds: Holds) -> Mr {
        Mr {
            iova: base.0.addr().get() as u64,
            is_exposed: access & (REMOTE | MW_BIND) != 0,
            ..Mr::new(pd, base, length, access, Backing::Program(holds))
        }
    }

    /// A region of memory that is not the program's, whose addresses begin at 0.
    pub(super) fn new(pd: u32, base: Base, length: usize, access: u32, backing: Backing) -> Mr {
        let (is_ended, is_exposed, is_held) = (false, false, false);
        Mr { pd, base, length, iova: 0, access, backing, is_ended, is_exposed, is_held }
    }

    /// Whether a request of a peer may use memory of the program through it. One that began before
    /// the region lost its rights goes on.
    fn is_reached_by_peers(&self) -> bool {
        matches!(self.backing, Backing::Program(_)) && self.is_exposed
    }
}

/// The pointer that was registered, with its provenance.
#[derive(Clone, Copy)]
pub(super) struct Base(pub(super) NonNull<u8>);

// SAFETY: a plain pointer. It is used only under the contract of `reg_mr`: the memory stays valid
// for the device, on whatever thread the device runs, until `dereg_mr`. (What is not the program's
// is kept by the region, or by the device.)
unsafe impl Send for Base {}

/// lkeys and rkeys differ, so that using one as the other is detected.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Local(u32),
    /// With the queue pair that it came to.
    Remote(u32, u32),
}

pub(super) const LOCAL_TAG: u32 = 0x11;
pub(super) const REMOTE_TAG: u32 = 0x22;

/// The number of the object whose key this is, if it has that tag.
pub(super) fn number_of(key: u32, tag: u32) -> Option<u32> {
    (key & 0xff == tag).then_some(key >> 8)
}

/// A piece of a registered region, checked for range and rights while the lock is held.
#[derive(Clone, Copy)]
pub(super) struct Span {
    region: Base,
    region_length: usize,
    offset: usize,
    length: usize,
    /// Whether anything but the registering program could write there meanwhile.
    shared: bool,
    /// Whether there is no memory.
    is_null: bool,
}

/// The rights for which the kernel pins pages to be written: `ib_access_writable` of
/// include/rdma/ib_verbs.h.
const PINS_TO_WRITE: u32 = LOCAL_WRITE | REMOTE_WRITE | REMOTE_ATOMIC | MW_BIND;

/// EFAULT for rights of which some write, if a page is mapped read-only.
pub(super) fn check_pages(base: Base, length: usize, access: u32) -> Verb {
    let start = base.0.addr().get();
    match access & PINS_TO_WRITE != 0 && has_read_only_pages(start, start + length) {
        true => Err(libc::EFAULT),
        false => Ok(()),
    }
}

/// Whether a mapping of this process that cannot be written is among these addresses (proc(5)).
/// Miri has none.
fn has_read_only_pages(start: usize, end: usize) -> bool {
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

impl State {
    pub(super) fn alloc_pd(&mut self, device: u32) -> Verb<u32> {
        self.check_alive(device)?;
        let number = self.number()?;
        self.pds.insert(number, Pd { device });
        Ok(number)
    }

    pub(super) fn dealloc_pd(&mut self, pd: u32) -> Verb {
        self.destroy_fault(None)?;
        let used = self.mrs.values().any(|mr| mr.pd == pd && !mr.is_held)
            || self.ahs.values().any(|ah| ah.pd == pd)
            || self.srqs.values().any(|srq| srq.pd == pd)
            || self.windows.values().any(|window| window.pd == pd)
            || self.qps.values().any(|qp| qp.pd == pd)
            || self.is_joined(pd);
        if used {
            return Err(libc::EBUSY);
        }
        self.mrs.retain(|_, mr| mr.pd != pd);
        self.pds.remove(&pd).map(drop).ok_or(libc::EINVAL)
    }

    /// Returns the number of the region, its lkey and its rkey (0 without a remote right).
    ///
    /// The caller guarantees, as `reg_mr` asks, that the memory is valid until `dereg_mr`.
    pub(super) fn reg_mr(
        &mut self,
        pd: u32,
        base: *mut u8,
        length: usize,
        access: u32,
        holds: Holds,
    ) -> Verb<(u32, u32, u32)> {
        self.check_on_demand(access)?;
        if base.is_null() && length == usize::MAX && access & ON_DEMAND != 0 {
            self.check_region(pd, 1, access & !ON_DEMAND)?;
            let (base, backing) = (Base(NonNull::dangling()), Backing::Whole);
            return self.add_region(Mr::new(pd, base, length, access, backing));
        }
        self.check_region(pd, length, access & !ON_DEMAND)?;
        base.addr().checked_add(length).ok_or(libc::EINVAL)?;
        let base = Base(NonNull::new(base).ok_or(libc::EFAULT)?);
        check_pages(base, length, access)?;
        self.add_region(Mr::of_program(pd, base, length, access, holds))
    }

    /// What every registration is looked at for.
    pub(super) fn check_region(&self, pd: u32, length: usize, access: u32) -> Verb {
        self.check_alive_pd(pd)?;
        if length == 0 {
            broken("a region of no bytes (R6.4)");
        }
        let writes = access & (REMOTE_WRITE | REMOTE_ATOMIC) != 0;
        if !self.pds.contains_key(&pd)
            || length == 0
            || length as u64 > self.world.region
            || access & !KNOWN != 0
            // Soft-RoCE persists in persistent memory alone, and the program's is none.
            || access & ACCESS_FLUSH_PERSISTENT != 0 && self.habits.is_rxe()
            || writes && access & LOCAL_WRITE == 0
        {
            return Err(libc::EINVAL);
        }
        Ok(())
    }

    pub(super) fn add_region(&mut self, mr: Mr) -> Verb<(u32, u32, u32)> {
        let number = self.number()?;
        Ok(self.insert_region(number, mr))
    }

    pub(super) fn insert_region(&mut self, number: u32, mr: Mr) -> (u32, u32, u32) {
        let rkey = if mr.access & REMOTE != 0 { number << 8 | REMOTE_TAG } else { 0 };
        self.mrs.insert(number, mr);
        (number, number << 8 | LOCAL_TAG, rkey)
    }

    pub(super) fn dereg_mr(&mut self, mr: u32) -> Verb {
        self.destroy_fault(None)?;
        self.check_unused_memory(mr);
        // Most devices keep a region registered that a window is bound to (R6.11).
        if self.has_windows(mr) && self.habits.checks_windows() {
            return Err(libc::EINVAL);
        }
        let may_give_up = self.world.provider == Provider::Rxe
            && self.mrs.get(&mr).is_some_and(Mr::is_reached_by_peers);
        if may_give_up && self.gives_up_fault() {
            std::thread::sleep(GIVES_UP_AFTER);
            self.mrs.get_mut(&mr).ok_or(libc::EINVAL)?.is_held = true;
            return Ok(());
        }
        self.mrs.remove(&mr).map(drop).ok_or(libc::EINVAL)
    }

    /// The memory at `addr` that `key` gives access to: the PD is the same, all of `rights` are
    /// granted, and the range is inside the region.
    pub(super) fn resolve(
        &self,
        pd: u32,
        key: Key,
        addr: u64,
        length: usize,
        rights: u32,
    ) -> Option<Span> {
        let (mr, addr, granted) = match key {
            Key::Local(key) => (number_of(key, LOCAL_TAG)?, addr, None),
            Key::Remote(key, qp) => match self.through_window(key, qp, addr, length) {
                Some(place) => place.ok().map(|at| (at.mr, at.addr, Some(at.rights)))?,
                None => (number_of(key, REMOTE_TAG)?, addr, None),
            },
        };
        let mr = self.mrs.get(&mr)?;
        if mr.is_ended || mr.pd != pd || granted.unwrap_or(mr.access) & rights != rights {
            return None;
        }
        match key {
            Key::Remote(_, qp) if mr.access & ON_DEMAND != 0 => self.pages_for(qp, rights)?,
            _ => {}
        }
        let shared = mr.access & LOCAL_WRITE != 0;
        if matches!(mr.backing, Backing::Whole) {
            let at = usize::try_from(addr).ok()?;
            at.checked_add(length)?;
            // The one place where an address becomes a pointer: whoever posts it has exposed it.
            let region = Base(NonNull::new(std::ptr::with_exposed_provenance_mut(at))?);
            return Some(Span {
                region,
                region_length: length,
                offset: 0,
                length,
                shared,
                is_null: false,
            });
        }
        let is_null = matches!(mr.backing, Backing::Null);
        let offset = usize::try_from(addr.checked_sub(mr.iova)?).ok()?;
        if !is_null && offset.checked_add(length)? > mr.length {
            return None;
        }
        let (region, region_length) = (mr.base, mr.length);
        let span = Span { region, region_length, offset, length, shared, is_null };
        let is_alone = matches!(mr.backing, Backing::Program(Holds::Buffers));
        Some(if is_alone { span.alone() } else { span })
    }

    /// Whether this is the key of a region of the queue pair's domain with these rights.
    pub(super) fn region_of(&self, qp: u32, pd: u32, rkey: u32, rights: u32) -> bool {
        let mr = number_of(rkey, REMOTE_TAG).and_then(|number| self.mrs.get(&number));
        let may_be = |mr: &Mr| mr.access & ON_DEMAND == 0 || self.pages_for(qp, rights).is_some();
        mr.is_some_and(|mr| {
            !mr.is_ended && mr.pd == pd && mr.access & rights == rights && may_be(mr)
        })
    }

    /// The bytes of a gather list; `None` if a key, a range or a right is wrong.
    pub(super) fn gather(&self, pd: u32, list: &[Sge]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for sge in list.iter().filter(|sge| sge.length > 0) {
            let length = sge.length as usize;
            self.resolve(pd, Key::Local(sge.lkey), sge.addr, length, 0)?.load(&mut bytes);
        }
        Some(bytes)
    }

    /// Fills a scatter list in its order. Nothing is written unless all memory that would be
    /// written is accessible. The caller has checked that the list is long enough; the rest of it
    /// stays unchanged.
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

/// Programs may access memory that is open to the fabric while the device works on it, so both
/// follow the rules of `Open`. All else is ordered by the fabric's lock, which every verb takes.
impl Span {
    /// The same bytes as a region of their own: what shares a word with them is not touched. It may
    /// be part of another buffer, of which the program has slices.
    fn alone(self) -> Span {
        // SAFETY: inside the region (`resolve`).
        let region = Base(unsafe { self.region.0.add(self.offset) });
        Span { region, region_length: self.length, offset: 0, ..self }
    }

    fn open(&self) -> Open {
        // SAFETY: the memory is valid while registered (the contract of `reg_mr`), for writes too
        // (`shared` implies LOCAL_WRITE), and the value is used under the lock. What is `alone`
        // belongs to the device while a work request names it. All else is open to the fabric, and
        // programs touch it through such values.
        unsafe { Open::new(self.region.0, self.region_length) }
    }

    /// Appends the bytes to `out`.
    pub(super) fn load(self, out: &mut Vec<u8>) {
        let before = out.len();
        if self.shared {
            out.resize(before + self.length, 0);
            if self.is_null {
                return;
            }
            let copied = self.open().copy(self.offset, &mut out[before..]);
            return copied.expect("inside the region (`resolve`)");
        }
        // Memory registered without LOCAL_WRITE is only read, and may be behind a shared reference,
        // from which no atomic may be made. Other processes may be writing it (a file), so the
        // reads are volatile.
        for at in self.offset..self.offset + self.length {
            // SAFETY: inside the region (`resolve`), and readable while registered (the contract of
            // `reg_mr`).
            out.push(unsafe { self.region.0.add(at).read_volatile() });
        }
    }

    /// Writes `bytes`, cut to the length of the span.
    pub(super) fn store(self, bytes: &[u8]) {
        if self.is_null {
            return;
        }
        let written = self.open().write(self.offset, &bytes[..bytes.len().min(self.length)]);
        written.expect("inside the region (`resolve`)");
    }

    /// Runs `change` on the word at the start, if it is whole and aligned.
    pub(super) fn atomic(self, change: impl FnOnce(&AtomicU64) -> u64) -> Option<u64> {
        if self.length < 8 || self.is_null {
            return None;
        }
        self.open().word(self.offset).map(change)
    }
}
