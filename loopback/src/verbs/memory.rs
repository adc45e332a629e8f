//! Protection domains and memory regions.

use std::ptr::NonNull;
use std::time::Duration;

use crate::objects::domains::Pd;
use crate::objects::memory::{
    Backing, Base, Key, LOCAL_TAG, LOCAL_WRITE, MW_BIND, Mr, ON_DEMAND, REMOTE, REMOTE_ATOMIC,
    REMOTE_TAG, REMOTE_WRITE, Span, check_pages, number_of,
};
use crate::state::State;
use crate::words::Verb;
use crate::words::contract::broken;
use crate::words::script::Occasion;
use crate::words::wr::{Payload, Remote, Sge};
use proverbs_sys::control::Holds;
use proverbs_sys::persist::{ACCESS_FLUSH_GLOBAL, ACCESS_FLUSH_PERSISTENT};
use proverbs_sys::provider::Provider;
use proverbs_sys::types::{OPTIONAL_ACCESS, ibv_access_flags};

const KNOWN: u32 = LOCAL_WRITE
    | REMOTE
    | MW_BIND
    | ibv_access_flags::IBV_ACCESS_HUGETLB.0
    | ACCESS_FLUSH_GLOBAL
    | ACCESS_FLUSH_PERSISTENT
    | OPTIONAL_ACCESS;

/// The shortest time after which a kernel's Soft-RoCE gives up: 200 ticks, at no more than 1,000 a
/// second.
const GIVES_UP_AFTER: Duration = Duration::from_millis(200);
impl State {
    pub(crate) fn alloc_pd(&mut self, device: u32) -> Verb<u32> {
        self.check_alive(device)?;
        let number = self.number()?;
        self.pds.insert(number, Pd { device });
        Ok(number)
    }

    pub(crate) fn dealloc_pd(&mut self, pd: u32) -> Verb {
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
    /// The caller guarantees, as `reg_mr` requires, that the memory is valid until `dereg_mr`.
    pub(crate) fn reg_mr(
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

    /// The checks of every registration.
    pub(crate) fn check_region(&self, pd: u32, length: usize, access: u32) -> Verb {
        self.check_alive_pd(pd)?;
        if length == 0 {
            broken("a region must have at least one byte (R6.4)");
        }
        let writes = access & (REMOTE_WRITE | REMOTE_ATOMIC) != 0;
        if !self.pds.contains_key(&pd)
            || length == 0
            || length as u64 > self.world.region
            || access & !KNOWN != 0
            // Soft-RoCE persists only in persistent memory, which the program's memory is not.
            || access & ACCESS_FLUSH_PERSISTENT != 0 && self.habits.is_rxe()
            || writes && access & LOCAL_WRITE == 0
        {
            return Err(libc::EINVAL);
        }
        Ok(())
    }

    pub(crate) fn add_region(&mut self, mr: Mr) -> Verb<(u32, u32, u32)> {
        let number = self.number()?;
        Ok(self.insert_region(number, mr))
    }

    pub(crate) fn insert_region(&mut self, number: u32, mr: Mr) -> (u32, u32, u32) {
        let rkey = if mr.access & REMOTE != 0 { number << 8 | REMOTE_TAG } else { 0 };
        self.mrs.insert(number, mr);
        (number, number << 8 | LOCAL_TAG, rkey)
    }

    pub(crate) fn dereg_mr(&mut self, mr: u32) -> Verb {
        self.destroy_fault(None)?;
        self.check_unused_memory(mr);
        // Most devices refuse to deregister a region that a window is bound to (R6.11).
        if self.has_windows(mr) && self.habits.checks_windows() {
            return Err(libc::EINVAL);
        }
        let may_give_up = self.world.provider == Provider::Rxe
            && self.mrs.get(&mr).is_some_and(Mr::is_reached_by_peers);
        if may_give_up && self.decide(Occasion::Dereg).is_some() {
            std::thread::sleep(GIVES_UP_AFTER);
            self.mrs.get_mut(&mr).ok_or(libc::EINVAL)?.is_held = true;
            return Ok(());
        }
        self.mrs.remove(&mr).map(drop).ok_or(libc::EINVAL)
    }

    /// The memory at `addr` that `key` gives access to. It must be in the same PD, all of `rights`
    /// must be granted, and the range must be inside the region.
    pub(crate) fn resolve(
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
            // The only place where an address becomes a pointer. The code that posted it has
            // exposed it.
            let region = Base(NonNull::new(std::ptr::with_exposed_provenance_mut(at))?);
            let (region_length, offset, is_null, is_opaque) = (length, 0, false, false);
            return Some(Span {
                region,
                region_length,
                offset,
                length,
                shared,
                is_null,
                is_opaque,
            });
        }
        let is_null = matches!(mr.backing, Backing::Null);
        let offset = usize::try_from(addr.checked_sub(mr.iova)?).ok()?;
        if !is_null && offset.checked_add(length)? > mr.length {
            return None;
        }
        let (region, region_length) = (mr.base, mr.length);
        let is_opaque = matches!(mr.backing, Backing::Program(Holds::Opaque));
        let span = Span { region, region_length, offset, length, shared, is_null, is_opaque };
        let is_alone = matches!(mr.backing, Backing::Program(Holds::Buffers));
        Some(if is_alone { span.alone() } else { span })
    }

    /// Whether this key belongs to a region of the queue pair's domain with these rights.
    pub(crate) fn region_of(&self, qp: u32, pd: u32, rkey: u32, rights: u32) -> bool {
        let mr = number_of(rkey, REMOTE_TAG).and_then(|number| self.mrs.get(&number));
        let may_be = |mr: &Mr| mr.access & ON_DEMAND == 0 || self.pages_for(qp, rights).is_some();
        mr.is_some_and(|mr| {
            !mr.is_ended && mr.pd == pd && mr.access & rights == rights && may_be(mr)
        })
    }

    /// The memory that a request to this queue pair names. A message of no bytes needs no key
    /// (R3.4).
    pub(crate) fn open(
        &self,
        qp: u32,
        at: Remote,
        length: usize,
        right: u32,
    ) -> Result<Option<Span>, ()> {
        let key = Key::Remote(at.rkey, qp);
        let span = |pd| self.resolve(pd, key, at.addr, length, right).map(Some).ok_or(());
        if length == 0 { Ok(None) } else { span(self.qps.get(&qp).ok_or(())?.pd) }
    }

    /// The bytes of a gather list; `None` if a key, a range or a right is wrong.
    pub(crate) fn gather(&self, pd: u32, list: &[Sge]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for sge in list.iter().filter(|sge| sge.length > 0) {
            let length = sge.length as usize;
            self.resolve(pd, Key::Local(sge.lkey), sge.addr, length, 0)?.load(&mut bytes);
        }
        Some(bytes)
    }

    /// Fills a scatter list in order. Nothing is written unless all memory that would be written is
    /// accessible. The caller has checked that the list is long enough; unused elements stay
    /// unchanged.
    pub(crate) fn scatter(&self, pd: u32, list: &[Sge], mut bytes: &[u8]) -> Option<()> {
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

    /// The data to send; `None` if a gather element is not accessible to the domain.
    pub(crate) fn payload(&self, pd: u32, payload: &Payload) -> Option<Vec<u8>> {
        match payload {
            Payload::Inline(bytes) => Some(bytes.clone()),
            Payload::List(list) => self.gather(pd, list),
        }
    }
}
