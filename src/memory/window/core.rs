//! One memory window: C's object, whom it is shared with, and what its last work request does.

#![allow(unsafe_code)] // a handle that travels as a word

use std::ffi::c_int;
use std::ptr;

use crate::counters::books::{Books, Counter, SEND};
use crate::counters::mark;
use crate::memory::lent::{Home, Kind, Lent, Loan, lend};
use crate::memory::registered::Registered;
use crate::sync::{Arc, Mutex, lock};
use crate::sys::handle;
use crate::sys::types::ibv_mw;
use crate::terms::error::Error;

/// The owner of C's object: the window's, and its queue pair's, which ends it first. (The key of a
/// type 2 window is the queue pair's. Soft-RoCE waits for such windows when a queue pair is
/// destroyed, in vain, and frees it under them.)
pub(crate) struct Owner(Mutex<Option<handle::Mw>>);

impl Owner {
    pub(crate) fn new(mw: handle::Mw) -> Arc<Self> {
        Arc::new(Owner(Mutex::new(Some(mw))))
    }

    /// Deallocates the window, if nobody did: its key is no longer valid. If the device refuses,
    /// the window lives on.
    ///
    /// With what is given the region may go, and with that code of the program's run, which may
    /// panic: the caller drops it where that does no harm.
    pub(crate) fn end(&self) -> Result<Option<handle::Mw>, c_int> {
        let mut mw = lock(&self.0);
        if let Some(mw) = mw.as_mut() {
            mw.close()?;
        }
        Ok(mw.take())
    }

    /// Holds a region, or none, in the place of another.
    fn hold(&self, region: Option<Arc<Registered>>) {
        let mut before = None;
        if let Some(mw) = lock(&self.0).as_mut() {
            let pd = mw.parents().pd.clone();
            let region = region.map(|region| region as Arc<dyn Send + Sync>);
            before = Some(mw.set_parents(crate::sys::window::MwParents { pd, region }));
        }
        // Outside the lock: the region may go, and with it code of the program's run.
        drop(before);
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
}

/// What is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was not posted, or has not completed.
    Not,
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

/// What a window's handle keeps.
///
/// # Invariants
/// - `mw` is `owner`'s object. It is live as long as the queue pair of `books` has these books,
///   unless the handle is gone.
/// - `known` is `Not` from the making of a work request until its completion.
pub(crate) struct Core {
    pub mw: *mut ibv_mw,
    pub owner: Arc<Owner>,
    /// The queue pair's, whose address no other has while they are kept.
    books: Arc<Books>,
    pub qp_num: u32,
    /// The key that was bound last; the number before the first one.
    pub rkey: u32,
    pub range: Range,
    pub last: Last,
    pub known: Known,
}

/// How the one reference to a core is counted.
static WINDOW: Kind = Kind {
    share: |_| unreachable!("a window has one handle"),
    // SAFETY: the box that `Window::new` gave up; its only reference goes.
    release: |at| drop(unsafe { Box::from_raw(at.cast_mut().cast::<Core>()) }),
    count: |_| 1,
    context: None,
};

/// The handle of a window.
///
/// # Invariants
/// Its home is a `Core`, which nothing else refers to.
#[repr(transparent)]
pub(crate) struct Window(Lent);

impl Window {
    /// A window of a queue pair with these books and this number.
    pub(crate) fn new(owner: Arc<Owner>, books: Arc<Books>, qp_num: u32) -> Self {
        let pd = books.pd;
        let mw = lock(&owner.0).as_ref().map_or(ptr::null_mut(), |mw| mw.as_ptr());
        // SAFETY: the window was just allocated, by its owner's caller.
        let rkey = if mw.is_null() { 0 } else { unsafe { (*mw).rkey } };
        let (range, last, known) = (Range::default(), Last::Bind, Known::Not);
        let core = Box::new(Core { mw, owner, books, qp_num, rkey, range, last, known });
        // INVARIANT: the box is given up to the home, whose kind frees it. A core is `Send`, but
        // for the pointer to C's object, which any thread may use.
        // SAFETY: the box's pointer has the one reference that `WINDOW` counts, and is given up.
        let home = || unsafe { Home::new(Box::into_raw(core).cast_const().cast(), &WINDOW) };
        // One byte that is never sent, so that posts need no look.
        let mark = mark::of(pd, mark::NO_POOL, 1);
        Window(lend(home, &Loan { addr: ptr::null_mut(), len: 1, lkey: 0, pd, mark }))
    }

    pub(crate) fn core(&self) -> &Core {
        // SAFETY: the home is a core, and lives as long as the handle (invariant).
        unsafe { &*self.0.home().at().cast::<Core>() }
    }

    pub(crate) fn core_mut(&mut self) -> &mut Core {
        // SAFETY: the home is a core in a box, which lives as long as the handle and to which
        // nothing else refers (invariant). The handle is borrowed exclusively.
        unsafe { &mut *self.0.home().at().cast_mut().cast::<Core>() }
    }

    /// The number of its protection domain.
    pub(crate) fn pd(&self) -> u32 {
        self.core().books.pd
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id()
    }

    pub(crate) fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }

    /// Holds a region, for a bind.
    pub(crate) fn hold(&mut self, region: Arc<Registered>) {
        self.core().owner.hold(Some(region));
    }

    /// The key is no longer valid.
    pub(crate) fn let_go(&mut self) {
        self.core().owner.hold(None);
        self.core_mut().range = Range::default();
    }

    /// Whether this is the counter of its queue pair's sends.
    pub(crate) fn is_of(&self, counter: *const Counter) -> bool {
        // SAFETY: the books are kept.
        ptr::eq(unsafe { Books::counter(Arc::as_ptr(&self.core().books), SEND) }, counter)
    }

    /// Its work request has completed.
    pub(crate) fn completed(&mut self, is_success: bool) {
        let core = self.core_mut();
        core.known = if is_success { Known::Done } else { Known::Failed };
        if is_success && core.last != Last::Invalidate {
            let rkey = next_key(core.rkey);
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
        if lock(&self.0).is_some() {
            // SAFETY: the object is live while its owner has it, and the lock is held. Providers
            // write the field in `ibv_bind_mw` alone, which is for windows of type 1.
            unsafe { (*mw).rkey = rkey };
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // If the device refuses, it leaks with all that it needs.
        drop(self.owner.end());
    }
}

/// The next key of a window: the lower 8 bits are the program's to count (`ibv_inc_rkey`).
pub(crate) fn next_key(rkey: u32) -> u32 {
    rkey & !0xff | rkey.wrapping_add(1) & 0xff
}
