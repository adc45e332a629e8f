//! The handle of a memory window, which travels as a `wr_id`: the C object, the queue or domain
//! that it belongs to, and the state of its last work request. `ext::windows` has the types of
//! programs.

// No model: the C object is used and ended only under its owner's lock, nothing else is locked at
// the same time, and its parents are dropped outside the lock. The thread that ends the window
// stores the flag for this. The thread that may post the windows of the queue pair loads it later,
// and the exclusive borrow of the queue pair orders the two. The holder of the window stores the
// key that a completion may name. The thread that ends the window reads it without ordering: an
// older value keeps one more key as stale, which is then not bound again.

#![allow(unsafe_code)] // a handle that travels as a word

use std::collections::HashSet;
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use crate::counters::queue_counters::{CompletionCounter, QueueCounters, SEND};
use crate::counters::type_tag;
use crate::memory::header_slab::HeaderSlab;
use crate::memory::owning_handle::{HandleBytes, KeptAlive, OwningHandle, owning_handle};
use crate::memory::registered::Registered;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use crate::sys::handle;
use crate::sys::types::{ibv_mr, ibv_mw};
use crate::sys::window::{MwParents, alloc_mw, kind};
use crate::terms::error::Error;

/// A region that is held, of any type.
type Held = Arc<dyn Send + Sync>;

/// The owner of the C object, shared by the window and its queue pair, which ends the window before
/// itself. (The key of a type 2 window belongs to the queue pair. When a queue pair is destroyed,
/// Soft-RoCE waits for such windows, but frees the queue pair while they still use it.)
///
/// # Invariants
/// - `is_over` means that the object no longer exists. Code that may post the queue pair's windows
///   sees the flag, because the thread that ended them owned the queue pair.
/// - `named` contains the key that a completion may name as invalidated, and `IS_NAMED`, or 0 if no
///   completion can. When the object ends, the key moves to `stale`.
pub(crate) struct Owner {
    mw: Mutex<Option<handle::Mw>>,
    is_over: AtomicBool,
    named: AtomicU64,
    /// The stale keys of the queue whose receives name its keys. `None` for type 1, whose keys are
    /// never invalidated by a message.
    stale: Option<Arc<StaleKeys>>,
}

/// A bit of `Owner::named` above the key.
const IS_NAMED: u64 = 1 << 32;

impl Owner {
    /// Allocates a window in this domain (`ibv_alloc_mw`) and returns its owner. Errors contain
    /// `name`.
    pub(crate) fn alloc(
        pd: &Arc<handle::Pd>,
        kind: kind::Type,
        name: &str,
        stale: Option<Arc<StaleKeys>>,
    ) -> Result<Arc<Self>, Error> {
        // In the domain below a lane: a window may end on any thread, and must not keep the lane
        // alive.
        let pd = pd.parents().joins.as_ref().map_or(pd, |lane| &lane.pd);
        // SAFETY: the domain is live.
        let mw = unsafe { alloc_mw(pd.as_ptr(), kind) };
        let mw = mw.map_err(|errno| Error::os("ibv_alloc_mw", errno, name))?;
        let parents = MwParents { pd: pd.clone(), region: None, next: None };
        // SAFETY: the object was just created and has no other owner.
        let mw = unsafe { handle::Mw::new(mw, pd.control(), parents) };
        Ok(Arc::new(Owner {
            mw: Mutex::new(Some(mw)),
            is_over: AtomicBool::new(false),
            named: AtomicU64::new(0),
            stale,
        }))
    }

    /// Deallocates the window, if that has not happened yet: its key is no longer valid. If the
    /// device refuses, the window continues to exist.
    ///
    /// Dropping the returned handle may drop the region, which may run code of the program that
    /// panics. The caller drops it where a panic does no harm.
    pub(crate) fn end(&self) -> Result<Option<handle::Mw>, c_int> {
        // Before the device can reuse the key for another window.
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

    /// Whether the object is gone, for code that may post the windows of its queue pair. (Without
    /// the lock, because posts do not lock.)
    #[inline(always)]
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Sets the key that a completion may name as invalidated from now on, if any.
    fn may_be_named(&self, key: Option<u32>) {
        let named = key.map_or(0, |key| IS_NAMED | u64::from(key));
        self.named.store(named, Ordering::Relaxed);
    }

    /// Changes the regions that the window holds: `to` receives the current ones, for the existing
    /// binding and for a bind.
    fn change(&self, to: impl FnOnce(&MwParents) -> (Option<Held>, Option<Held>)) {
        let before = lock(&self.mw).as_mut().map(|mw| {
            let pd = mw.parents().pd.clone();
            let (region, next) = to(mw.parents());
            let parents = MwParents { pd, region, next };
            // SAFETY: the same domain, and the regions that the window needs according to the
            // caller.
            unsafe { mw.set_parents(parents) }
        });
        // Outside the lock: a region may be dropped, and run code of the program.
        drop(before);
    }

    /// Binds the window with a verb that writes the key into the C object. Until the verb has
    /// returned, no other thread deallocates the window or reads its key, although its completion
    /// may have been polled.
    pub(crate) fn while_bound<R>(&self, bind: impl FnOnce() -> R) -> R {
        let _mw = lock(&self.mw);
        bind()
    }

    /// The key in the C object, or 0 if the object is gone.
    fn key(&self) -> u32 {
        // SAFETY: the object is live while its owner has it. The verb that writes the key does so
        // under the lock, which is held.
        lock(&self.mw).as_ref().map_or(0, |mw| unsafe { (*mw.as_ptr()).rkey })
    }

    /// Stores the new key in the C object, which C leaves to the program (ibv_post_send(3)).
    fn update(&self, mw: *mut ibv_mw, rkey: u32) {
        if lock(&self.mw).is_some() {
            // SAFETY: the object is live while its owner has it, and the lock is held. Providers
            // write the field only in `ibv_bind_mw`, which is for windows of type 1.
            unsafe { (*mw).rkey = rkey };
        }
    }
}

/// The operation of a window's last work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// BIND_MW.
    Bind,
    /// BIND_MW, with a key that a message of the peer invalidates.
    Lend,
    /// LOCAL_INV.
    Invalidate,
    /// `ibv_bind_mw` of a window of type 1.
    Rebind,
    /// `ibv_bind_mw` of 0 bytes of a window of type 1.
    Unbind,
}

/// The known result of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was rejected: the window is unchanged.
    Refused,
    /// The device may own it: its completion was not polled yet, and no other event proves the
    /// result.
    Nothing,
    Done,
    /// It failed or was flushed: it is unknown what the device did.
    Failed,
}

/// The range of a region that a window makes accessible.
#[derive(Clone, Copy, Default)]
pub(crate) struct Range {
    /// The address of the first byte in the peer's work requests.
    pub addr: u64,
    pub len: u64,
    /// `mw_access_flags`.
    pub rights: u32,
}

/// A range and its region.
#[derive(Clone, Copy)]
pub(crate) struct Opened {
    pub range: Range,
    pub mr: *mut ibv_mr,
}

/// The object that a window belongs to.
pub(crate) enum Of {
    /// Type 2: a queue pair with this number. No other queue pair has the address of its counters
    /// while they are kept. The second counters belong to the queue of its receives: its own, or a
    /// shared receive queue.
    Pair(Arc<QueueCounters>, Arc<QueueCounters>, u32),
    /// Type 1: a protection domain with this number.
    Domain(u32),
}

impl Of {
    /// The number of the protection domain.
    pub fn pd(&self) -> u32 {
        match self {
            Of::Pair(counters, ..) => counters.pd,
            Of::Domain(pd) => *pd,
        }
    }
}

/// The state behind a window's handle.
///
/// # Invariants
/// - `mw` is the object of `owner`. It is live while the handle exists. For type 2 this holds only
///   while its queue pair has these counters and has not deallocated it.
/// - `known` is `Nothing` from the creation of a work request until it is rejected or completed.
/// - `owner` holds the regions of `at` and `next`, and the region that a window of type 2 makes
///   accessible or may still make accessible.
pub(crate) struct Core {
    pub mw: *mut ibv_mw,
    pub owner: Arc<Owner>,
    pub of: Of,
    /// Whether the device is Soft-RoCE.
    pub is_soft_roce: bool,
    /// The key that was bound last, or the initial number.
    pub rkey: u32,
    /// The key that the work request of a window of type 2 binds.
    pub binds: u32,
    /// Whether a completion that names the bound key can only come from this bind.
    pub is_fresh: bool,
    pub range: Range,
    /// For type 1: the region that it is bound to, and the next binding.
    pub at: *mut ibv_mr,
    pub next: Option<Opened>,
    pub last: Last,
    pub known: Known,
    /// The header of its handle.
    _slab: Arc<HeaderSlab>,
}

// SAFETY: any thread may use the pointers to C objects, and all other fields are `Send`.
unsafe impl Send for Core {}
// SAFETY: a shared core only returns its fields.
unsafe impl Sync for Core {}

/// The handle of a window.
///
/// # Invariants
/// Its kept memory is a `Core` without other references.
#[repr(transparent)]
#[doc(hidden)]
pub struct Window(OwningHandle);

/// A memory window with its work request, returned by the completion as
/// [`AnyBuf::Window`](crate::memory::AnyBuf), or by a rejected post.
///
/// It records the kind of the work request, and whether the work request succeeded. If BIND_MW or
/// LOCAL_INV failed, was flushed, or was released without a separate completion, it is unknown
/// whether the window has a key. You can then only drop or destroy it, which invalidates the key
/// ([R19.5](crate::guide::rules#r19-5)). If the post was rejected, the window is unchanged.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::Windowed;
/// # profile! { Windows { entry: AnyBuf } }
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Windows>()?;
/// let region = pd.register::<Windowed<LocalWrite>>(4096)?;
/// let mut window = a.alloc_mw()?;
/// window.set_id(7);
/// let mut a = a.to_error()?;
/// a.post_send(ext::windows::BindMw::<RemoteRead>::new(window, &region, 0..64)?)?;
/// let completion = cq.poll_one()?.ok_or("nothing was flushed")?;
/// assert!(completion.status().is_err());
/// let Some(AnyBuf::Window(flushed)) = completion.into_entry() else {
///     unreachable!("the completion of a bind has its window");
/// };
/// assert_eq!(flushed.id(), 7);
/// let flushed = flushed.into_bound::<RemoteRead>().unwrap_err().into_object();
/// let flushed = flushed.into_unbound().unwrap_err().into_object();
/// flushed.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[repr(transparent)]
pub struct WindowEntry(pub(crate) Window);

impl Window {
    pub(crate) fn new(owner: Arc<Owner>, of: Of, is_soft_roce: bool) -> Self {
        let pd = of.pd();
        let mw = lock(&owner.mw).as_ref().map_or(ptr::null_mut(), |mw| mw.as_ptr());
        let rkey = owner.key();
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
        // One byte that is never sent, so that posts do not have to inspect it.
        let type_tag = type_tag::of(pd, type_tag::NO_POOL, 1);
        let loan = HandleBytes { addr: ptr::null_mut(), len: 1, lkey: 0, type_tag };
        Window(owning_handle(&slab, || KeptAlive::of(core), &loan))
    }

    pub(crate) fn core(&self) -> &Core {
        self.0.kept().other()
    }

    pub(crate) fn core_mut(&mut self) -> &mut Core {
        let core = match self.0.kept_mut() {
            KeptAlive::Other(core) => Arc::get_mut(core).and_then(|core| core.downcast_mut()),
            _ => None,
        };
        core.expect("a window has one handle")
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id()
    }

    pub(crate) fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }

    /// Prepares a window of type 2 for a bind to this range, and returns the key that it will have.
    /// Until the bind has completed, the window also holds its previous region.
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

    /// The bind has succeeded. The device only accepts a bind of a window without a key, so the
    /// previous region is no longer accessible through it. (If no bind is pending, nothing
    /// changes.)
    pub(crate) fn bound(&mut self) {
        self.core().owner.change(|held| (held.next.clone().or(held.region.clone()), None));
    }

    /// The bind was rejected: the window has no key, and may still hold a previous region.
    pub(crate) fn not_bound(&mut self) {
        self.core().owner.change(|held| (held.region.clone(), None));
        self.revoked();
    }

    /// A completion, which was consumed, reports that a message invalidated the key. The window
    /// holds the region until the device accepts another bind, or deallocates the window.
    pub(crate) fn revoked(&mut self) {
        self.core().owner.may_be_named(None);
        self.core_mut().range = Range::default();
    }

    /// The device has invalidated the key, and no message did: the region is no longer accessible
    /// through it.
    pub(crate) fn let_go(&mut self) {
        self.core().owner.change(|_| (None, None));
        self.revoked();
    }

    /// Whether the queue pair whose sends have this counter may bind it, because the window belongs
    /// to the queue pair and was not ended. Any queue pair of its domain may bind a window of type
    /// 1, and its type tag shows the domain.
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

    /// Whether its work request is LOCAL_INV and the device is Soft-RoCE. That crashes the kernel
    /// if a message has already invalidated the key, which this end may not know yet
    /// ([R1.6](crate::guide::rules#r1-6)).
    pub(crate) fn may_crash(&self) -> bool {
        self.core().last == Last::Invalidate && self.core().is_soft_roce
    }

    /// Prepares a window of type 1 for a bind to another range, or to none.
    pub(crate) fn rebind(&mut self, to: Option<(Opened, Arc<Registered>)>) {
        let (opened, region) = to.unzip();
        self.core().owner.change(|held| (held.region.clone(), region.map(|region| region as Held)));
        let core = self.core_mut();
        core.last = if opened.is_some() { Last::Rebind } else { Last::Unbind };
        (core.known, core.next) = (Known::Nothing, opened);
    }

    /// Updates the binding of a window of type 1, and returns whether it is known. If so, it holds
    /// no other region.
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

    /// Records that its work request was rejected.
    pub(crate) fn refused(&mut self) {
        let core = self.core_mut();
        if core.known == Known::Nothing {
            core.known = Known::Refused;
        }
    }

    /// Records that its work request has completed.
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
            .map_err(|errno| Error::os("ibv_dealloc_mw", errno, "the window still exists"))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        match self.owner.end() {
            Ok(mw) => drop(mw),
            // Its queue pair tries again, and is not destroyed before the window.
            Err(_) if matches!(self.of, Of::Pair(..)) => std::mem::forget(self.owner.clone()),
            // Its handle tries again. If the device refuses, it leaks with everything that it
            // needs.
            Err(_) => {}
        }
    }
}

/// The next key of a window: the program increments the lower 8 bits (`ibv_inc_rkey`).
pub(crate) fn next_key(rkey: u32) -> u32 {
    rkey & !0xff | rkey.wrapping_add(1) & 0xff
}

// The keys that a completion may still name although their windows are gone.
//
// A completion reports that a peer's message invalidated a key. A key has 32 bits and repeats: its
// lower byte wraps after 256 binds, and devices reuse the upper bytes for another window. A
// completion from an earlier life of the same key must not count as proof for a later one.
//
// At most one message ends each life of a key, so at most one completion names it. In two cases no
// such completion is left: `LentWindow::revoked` consumed it, or a LOCAL_INV succeeded, which
// shows that no message had invalidated the key. In all other cases there may be one, in a
// completion queue or held by the program. Such keys are kept here, one set for each receive
// queue, and are not bound again.

/// The keys that a completion of one receive queue may name, and that no longer belong to a window.
#[derive(Default)]
pub(crate) struct StaleKeys(Mutex<HashSet<u32>>);

/// The maximum number of keys to keep. Beyond it, every key counts as stale.
const MOST: usize = if cfg!(any(test, miri)) { 1 << 10 } else { 1 << 20 };

impl StaleKeys {
    pub(crate) fn add(&self, key: u32) {
        let mut keys = lock(&self.0);
        if keys.len() < MOST {
            keys.insert(key);
        }
    }

    /// The key that a window binds after `last`: the next key, counting in the lower byte, that is
    /// neither stale nor `last`. Returns `Err` with the next key if all are stale.
    pub(crate) fn after(&self, last: u32) -> Result<u32, u32> {
        let keys = lock(&self.0);
        let nth = |n: u32| last & !0xff | last.wrapping_add(n) & 0xff;
        let is_fresh = |key: &u32| keys.len() < MOST && !keys.contains(key);
        (1..256).map(nth).find(is_fresh).ok_or(nth(1))
    }
}

/// The memory windows of a queue pair.
#[derive(Default)]
pub(crate) struct Windows {
    /// All windows of type 2. Some may be gone.
    pub all: Vec<std::sync::Weak<Owner>>,
    /// The keys that completions of the queue pair's receives may still report. `None` until it has
    /// had a window.
    pub stale_keys: Option<Arc<StaleKeys>>,
    /// Windows that ended. Their regions may run the program's code when dropped, which may panic.
    /// So they are dropped where the queue pair is consistent, or gone.
    pub ended: Vec<handle::Mw>,
}

impl Windows {
    /// Deallocates the windows: the queue pair is about to be destroyed, or was reset. Windows that
    /// the device refuses to deallocate stay alive, and stay in the list. The others move to
    /// `ended`.
    pub fn end(&mut self) {
        let ended = &mut self.ended;
        self.all.retain(|window| match window.upgrade().map(|window| window.end()) {
            Some(Err(_)) => true,
            Some(Ok(mw)) => {
                ended.extend(mw);
                false
            }
            None => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_keys_are_skipped() {
        let stale = StaleKeys::default();
        assert_eq!(stale.after(0x1ff), Ok(0x100));
        for key in [0x100, 0x101, 0x203] {
            stale.add(key);
        }
        assert_eq!((stale.after(0x1ff), stale.after(0x202)), (Ok(0x102), Ok(0x204)));
    }

    /// With 255 stale keys one is left, unless it was bound last.
    #[test]
    fn a_window_may_have_no_fresh_key() {
        let stale = StaleKeys::default();
        (0x301..0x400).for_each(|key| stale.add(key));
        assert_eq!((stale.after(0x301), stale.after(0x300)), (Ok(0x300), Err(0x301)));
        stale.add(0x300);
        assert_eq!(stale.after(0x3ff), Err(0x300));
        assert_eq!(stale.after(0x4ff), Ok(0x400)); // a key of another window
    }

    /// The set is bounded. If it is full, every key counts as stale.
    #[test]
    fn a_full_set_trusts_no_key() {
        let stale = StaleKeys::default();
        (0..2 * MOST as u32).for_each(|n| stale.add(n << 8));
        assert_eq!(lock(&stale.0).len(), MOST);
        assert_eq!(stale.after(0xffff_ff00), Err(0xffff_ff01));
    }
}
