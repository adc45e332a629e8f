//! One memory window: C's object, whom it is shared with, and what its last work request does.

// No model: one owner uses and ends the C object under its lock alone, nothing else is locked
// meanwhile, and what goes with the object is dropped outside the lock. The flag that it has ended
// is stored before a load by whoever may post the windows of its queue pair: the exclusive borrow
// of the queue pair orders the two. The holder of the window stores the key that a completion may
// name. The thread that ends the window reads it without an order: an older value keeps one more
// key as stale, which is then not bound again.

#![allow(unsafe_code)] // a handle that travels as a word

use std::ffi::c_int;
use std::ptr;

use crate::counters::queue_counters::{CompletionCounter, QueueCounters, SEND};
use crate::counters::type_tag;
use crate::device::ProtectionDomain;
use crate::memory::header_slab::HeaderSlab;
use crate::memory::owning_handle::{HandleBytes, KeptAlive, OwningHandle, owning_handle};
use crate::memory::registered::Registered;
use crate::memory::window::stale::StaleKeys;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};
use crate::sys::handle;
use crate::sys::types::{ibv_mr, ibv_mw};
use crate::sys::window::{MwParents, alloc_mw, kind};
use crate::terms::error::Error;
use crate::terms::threads::Threads;

/// A region that is held, of a type that its holder need not know.
type Held = std::sync::Arc<dyn Send + Sync>;

/// The owner of C's object: the window's, and its queue pair's, which ends it first. (The key of a
/// type 2 window is the queue pair's. Soft-RoCE waits for such windows when a queue pair is
/// destroyed, in vain, and frees it under them.)
///
/// # Invariants
/// - `is_over` says that there is no object any more; who may post its queue pair's windows sees
///   it: the one who ended them did so with the queue pair.
/// - `named` has the key that a completion may name as ended, and `IS_NAMED`; 0 if no completion
///   can. When the object ends, it goes to `stale`.
pub(crate) struct Owner {
    mw: Mutex<Option<handle::Mw>>,
    is_over: AtomicBool,
    named: AtomicU64,
    /// Those of the queue whose receives name its keys; `None` for type 1, whose keys no message
    /// ends.
    stale: Option<Arc<StaleKeys>>,
}

/// In `Owner::named`, above the key.
const IS_NAMED: u64 = 1 << 32;

impl Owner {
    /// The owner of a new window of this domain (`ibv_alloc_mw`), of a type that has this name.
    pub(crate) fn alloc(
        pd: &std::sync::Arc<handle::Pd>,
        kind: kind::Type,
        name: &str,
        stale: Option<Arc<StaleKeys>>,
    ) -> Result<Arc<Self>, Error> {
        // On the domain below a lane: a window may end on any thread, and must not keep the lane.
        let pd = pd.parents().joins.as_ref().map_or(pd, |lane| &lane.pd);
        // SAFETY: the domain is live.
        let mw = unsafe { alloc_mw(pd.as_ptr(), kind) };
        let mw = mw.map_err(|errno| Error::os("ibv_alloc_mw", errno, name))?;
        let parents = MwParents { pd: pd.clone(), region: None, next: None };
        // SAFETY: the object was just created, and has no other owner.
        let mw = unsafe { handle::Mw::new(mw, pd.control(), parents) };
        Ok(Arc::new(Owner {
            mw: Mutex::new(Some(mw)),
            is_over: AtomicBool::new(false),
            named: AtomicU64::new(0),
            stale,
        }))
    }

    /// Deallocates the window, if nobody did: its key is no longer valid. If the device refuses,
    /// the window lives on.
    ///
    /// With what is given the region may go, and with that code of the program's run, which may
    /// panic: the caller drops it where that does no harm.
    pub(crate) fn end(&self) -> Result<Option<handle::Mw>, c_int> {
        // Before the device can give the key to another window.
        let named = self.named.load(Ordering::Relaxed);
        if let (Some(stale), true) = (&self.stale, named & IS_NAMED != 0 && !self.is_over()) {
            stale.add(named as u32);
        }
        let mut mw = lock(&self.mw);
        if let Some(mw) = mw.as_mut() {
            mw.close()?;
        }
        self.is_over.store(true, Ordering::Relaxed);
        Ok(mw.take())
    }

    /// Whether the object is gone, for who may post the windows of its queue pair. (Without the
    /// lock: posts take none.)
    #[inline(always)]
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// From now on a completion may name this key as ended, or none may.
    fn may_be_named(&self, key: Option<u32>) {
        let named = key.map_or(0, |key| IS_NAMED | u64::from(key));
        self.named.store(named, Ordering::Relaxed);
    }

    /// Holds other regions: `to` is given those that it holds, for what is bound and for a bind.
    fn change(&self, to: impl FnOnce(&MwParents) -> (Option<Held>, Option<Held>)) {
        let mut before = None;
        if let Some(mw) = lock(&self.mw).as_mut() {
            let pd = mw.parents().pd.clone();
            let (region, next) = to(mw.parents());
            let parents = MwParents { pd, region, next };
            // SAFETY: the same domain, and the regions that the caller says the window needs.
            before = Some(unsafe { mw.set_parents(parents) });
        }
        // Outside the lock: a region may go, and with it code of the program's run.
        drop(before);
    }

    /// Binds the window by a verb that writes its key into C's object. Until that has returned,
    /// nobody deallocates the window, or asks for its key, though its completion may have been
    /// polled.
    pub(crate) fn while_bound<R>(&self, bind: impl FnOnce() -> R) -> R {
        let _mw = lock(&self.mw);
        bind()
    }

    /// The key that C's object has; 0 if that is gone.
    fn key(&self) -> u32 {
        // SAFETY: the object is live while its owner has it. The verb that writes the key does so
        // under the lock, which is held.
        lock(&self.mw).as_ref().map_or(0, |mw| unsafe { (*mw.as_ptr()).rkey })
    }
}

/// What the last work request of a window does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// BIND_MW.
    Bind,
    /// BIND_MW, with a key that a message of the peer's ends.
    Lend,
    /// LOCAL_INV.
    Invalidate,
    /// `ibv_bind_mw`, of a window of type 1.
    Rebind,
    /// `ibv_bind_mw` of no bytes, of a window of type 1.
    Unbind,
}

/// What is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was refused: the window is as it was before.
    Refused,
    /// It may be with the device: its own completion has not come, and nothing else is proof.
    Nothing,
    Done,
    /// It failed or was flushed: nobody knows what the device did.
    Failed,
}

/// The range of a region that a window opens.
#[derive(Clone, Copy, Default)]
pub(crate) struct Range {
    /// The address of the first byte in the peer's work requests.
    pub addr: u64,
    pub len: u64,
    /// `mw_access_flags`.
    pub rights: u32,
}

/// What a range is of.
#[derive(Clone, Copy)]
pub(crate) struct Opened {
    pub range: Range,
    pub mr: *mut ibv_mr,
}

/// Whose a window is.
pub(crate) enum Of {
    /// Of type 2: a queue pair's with this number. No other has the address of its counters while
    /// they are kept. Its receives are of the queue with the second counters: its own, or those of
    /// a shared receive queue.
    Pair(Arc<QueueCounters>, Arc<QueueCounters>, u32),
    /// Of type 1: a protection domain's with this number.
    Domain(u32),
}

/// What a window's handle keeps.
///
/// # Invariants
/// - `mw` is `owner`'s object. It is live as long as the queue pair of its counters has these
///   counters and did not end it, or, of type 1, for ever; unless the handle is gone.
/// - `known` is `Nothing` from the making of a work request until its refusal or its completion.
/// - `owner` holds the regions of `at` and `next`, and that which a window of type 2 opens or may
///   still open.
pub(crate) struct Core {
    pub mw: *mut ibv_mw,
    pub owner: Arc<Owner>,
    pub of: Of,
    /// Whether the device is Soft-RoCE.
    pub is_soft_roce: bool,
    /// The key that was bound last; the number before the first one.
    pub rkey: u32,
    /// The key that is bound by the work request of a window of type 2.
    pub binds: u32,
    /// Whether a completion that names the key that is bound can only be of this bind.
    pub is_fresh: bool,
    pub range: Range,
    /// Of type 1: the region that it is bound to, and what it is to be bound to.
    pub at: *mut ibv_mr,
    pub next: Option<Opened>,
    pub last: Last,
    pub known: Known,
    /// The header of its handle.
    _slab: std::sync::Arc<HeaderSlab>,
}

// SAFETY: the pointers to C's objects may be used by any thread, and what else is there is `Send`.
unsafe impl Send for Core {}
// SAFETY: a shared core only tells what it is.
unsafe impl Sync for Core {}

/// The handle of a window.
///
/// # Invariants
/// Its kept memory is a `Core`, which nothing else refers to.
#[repr(transparent)]
#[doc(hidden)]
pub struct Window(OwningHandle);

impl Window {
    pub(crate) fn new(owner: Arc<Owner>, of: Of, is_soft_roce: bool) -> Self {
        let pd = match &of {
            Of::Pair(counters, ..) => counters.pd,
            Of::Domain(pd) => *pd,
        };
        let mw = lock(&owner.mw).as_ref().map_or(ptr::null_mut(), |mw| mw.as_ptr());
        // SAFETY: the window was just allocated, by its owner's caller.
        let rkey = if mw.is_null() { 0 } else { unsafe { (*mw).rkey } };
        let slab = HeaderSlab::new(pd);
        let core = Core {
            mw,
            owner,
            of,
            is_soft_roce,
            rkey,
            binds: rkey,
            is_fresh: false,
            range: Range::default(),
            at: ptr::null_mut(),
            next: None,
            last: Last::Bind,
            known: Known::Refused,
            _slab: slab.clone(),
        };
        // One byte that is never sent, so that posts need no look.
        let type_tag = type_tag::of(pd, type_tag::NO_POOL, 1);
        let loan = HandleBytes { addr: ptr::null_mut(), len: 1, lkey: 0, type_tag };
        Window(owning_handle(&slab, || KeptAlive::of(core), &loan))
    }

    pub(crate) fn core(&self) -> &Core {
        self.0.kept().other()
    }

    pub(crate) fn core_mut(&mut self) -> &mut Core {
        let core = match self.0.kept_mut() {
            KeptAlive::Other(core) => {
                std::sync::Arc::get_mut(core).and_then(|core| core.downcast_mut())
            }
            _ => None,
        };
        core.expect("a window has one handle")
    }

    /// The number of its protection domain.
    pub(crate) fn pd(&self) -> u32 {
        match &self.core().of {
            Of::Pair(counters, ..) => counters.pd,
            Of::Domain(pd) => *pd,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id()
    }

    pub(crate) fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }

    /// Prepares a window of type 2 for a bind to this range, and gives the key that it will have.
    /// Until the bind has completed, the window also holds the region that it held before.
    pub(crate) fn bind(&mut self, range: Range, region: Arc<Registered>) -> u32 {
        let owner = self.core().owner.clone();
        let after = |stale: &StaleKeys| stale.after(self.core().rkey);
        let key = owner.stale.as_deref().map_or(Err(next_key(self.core().rkey)), after);
        let (is_fresh, binds) = (key.is_ok(), key.unwrap_or_else(|key| key));
        owner.change(|held| (held.region.clone(), Some(region as Held)));
        owner.may_be_named(Some(binds));
        let core = self.core_mut();
        (core.last, core.known, core.range) = (Last::Bind, Known::Nothing, range);
        (core.binds, core.is_fresh) = (binds, is_fresh);
        binds
    }

    /// The bind has succeeded: the device accepts one only of a window without a key, so nothing
    /// reaches the region that the window held before.
    pub(crate) fn bound(&mut self) {
        if self.core().last != Last::Invalidate {
            self.core().owner.change(|held| (held.next.clone().or(held.region.clone()), None));
        }
    }

    /// The bind was refused: the window has no key, and may still hold a region of before.
    pub(crate) fn not_bound(&mut self) {
        let owner = &self.core().owner;
        owner.change(|held| (held.region.clone(), None));
        owner.may_be_named(None);
        self.core_mut().range = Range::default();
    }

    /// A completion, which was consumed, says that a message ended the key. The region stays held
    /// until the device accepts another bind, or deallocates the window.
    pub(crate) fn revoked(&mut self) {
        self.core().owner.may_be_named(None);
        self.core_mut().range = Range::default();
    }

    /// The device has ended the key: nothing reaches the region any more, and no message did.
    pub(crate) fn let_go(&mut self) {
        let owner = &self.core().owner;
        owner.change(|_| (None, None));
        owner.may_be_named(None);
        self.core_mut().range = Range::default();
    }

    /// Whether it may be bound by the queue pair whose sends have this counter, which did not end
    /// it: a window of type 1 by any of its domain, which is seen by its type_tag.
    pub(crate) fn is_of(&self, counter: *const CompletionCounter) -> bool {
        match &self.core().of {
            Of::Pair(counters, ..) => {
                // SAFETY: the counters are kept.
                let its = unsafe { QueueCounters::counter(Arc::as_ptr(counters), SEND) };
                ptr::eq(its, counter) && !self.core().owner.is_over()
            }
            Of::Domain(_) => true,
        }
    }

    /// Whether its work request is LOCAL_INV, and the device is Soft-RoCE. That crashes the kernel
    /// if a message has ended the key before, which this end may not know yet
    /// ([R1.6](crate::guide::rules#r1-6)).
    pub(crate) fn may_crash(&self) -> bool {
        self.core().last == Last::Invalidate && self.core().is_soft_roce
    }

    /// A window of type 1, of a protection domain.
    pub(super) fn of_domain<L: Threads>(pd: &ProtectionDomain<L>) -> Result<Self, Error> {
        let handle = pd.handle();
        let owner = Owner::alloc(handle, kind::IBV_MW_TYPE_1, "type 1", None)?;
        let is_soft_roce = handle.parents().context.is_soft_roce();
        Ok(Window::new(owner, Of::Domain(pd.id()), is_soft_roce))
    }

    /// Prepares a window of type 1 for a bind to another range, or to none.
    pub(crate) fn rebind(&mut self, to: Option<(Opened, Arc<Registered>)>) {
        let (opened, region) = to.unzip();
        self.core().owner.change(|held| (held.region.clone(), region.map(|region| region as Held)));
        let core = self.core_mut();
        core.last = if opened.is_some() { Last::Rebind } else { Last::Unbind };
        (core.known, core.next) = (Known::Nothing, opened);
    }

    /// Whether it is known what a window of type 1 is bound to. Then it holds no other region.
    pub(crate) fn learn_range(&mut self) -> bool {
        let core = self.core_mut();
        match (core.last, core.known) {
            (Last::Rebind, Known::Done) => {
                if let Some(Opened { range, mr }) = core.next.take() {
                    (core.range, core.at) = (range, mr);
                    core.owner.change(|held| (held.next.clone(), None));
                }
            }
            (Last::Unbind, Known::Done) => {
                core.at = ptr::null_mut();
                self.let_go();
            }
            (Last::Rebind | Last::Unbind, Known::Refused) => {
                core.next = None;
                core.owner.change(|held| (held.region.clone(), None));
            }
            _ => return false,
        }
        true
    }

    /// Its work request was refused.
    pub(crate) fn refused(&mut self) {
        let core = self.core_mut();
        if core.known == Known::Nothing {
            core.known = Known::Refused;
        }
    }

    /// Its work request has completed.
    pub(crate) fn completed(&mut self, is_success: bool) {
        let core = self.core_mut();
        core.known = if is_success { Known::Done } else { Known::Failed };
        if let Of::Domain(_) = core.of {
            core.rkey = core.owner.key();
            return;
        }
        if is_success && core.last != Last::Invalidate {
            let rkey = core.binds;
            core.rkey = rkey;
            let mw = core.mw;
            core.owner.update(mw, rkey);
        }
    }

    /// Deallocates the window (`ibv_dealloc_mw`).
    pub(crate) fn destroy(&self) -> Result<(), Error> {
        let owner = &self.core().owner;
        owner
            .end()
            .map(drop)
            .map_err(|errno| Error::os("ibv_dealloc_mw", errno, "the window lives on"))
    }
}

impl Owner {
    /// The window has this key now: C leaves it to the program to note it (ibv_post_send(3)).
    fn update(&self, mw: *mut ibv_mw, rkey: u32) {
        if lock(&self.mw).is_some() {
            // SAFETY: the object is live while its owner has it, and the lock is held. Providers
            // write the field in `ibv_bind_mw` alone, which is for windows of type 1.
            unsafe { (*mw).rkey = rkey };
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        match self.owner.end() {
            Ok(mw) => drop(mw),
            // Its queue pair tries again, which may not go before it.
            Err(_) if matches!(self.of, Of::Pair(..)) => std::mem::forget(self.owner.clone()),
            // Its handle tries again. If the device refuses, it leaks with all that it needs.
            Err(_) => {}
        }
    }
}

/// The next key of a window: the lower 8 bits are the program's to count (`ibv_inc_rkey`).
pub(crate) fn next_key(rkey: u32) -> u32 {
    rkey & !0xff | rkey.wrapping_add(1) & 0xff
}
