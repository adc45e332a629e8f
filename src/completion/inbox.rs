//! The state that a completion queue shares with the queues that complete into it: the memory that
//! it polls into, the queue that it polls, and the reservations.

// Model: src/completion/loom_tests/handle.rs

#![allow(unsafe_code)] // plain memory that several threads share

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::{Arc, Weak};

use crate::completion::adapter::{Extended, Row};
use crate::completion::attachments::State;
use crate::completion::booking::CqShared;
use crate::completion::counted::{Counted, Counts};
use crate::completion::polled_queue::PolledQueue;
use crate::counters::budget::Budget;
use crate::counters::tally::CqTally;
use crate::sync::{Mutex, lock};
use crate::sys::types::{ibv_cq, ibv_wc};

/// The maximum number of completions per poll.
pub(crate) const BATCH: usize = 16;

/// The inbox is aligned to this, so that a completion in `wcs` finds its inbox.
const ALIGNMENT: usize = 1024;

/// # Invariants
/// - An inbox does not move. It lives as long as the completion queue and the queues that complete
///   into it.
/// - Only the holder of the completion queue, by `&mut` or by an exclusive borrow, uses `wcs` and
///   `poller`, and only through raw pointers: completions that were returned point into `wcs`. All
///   of `wcs` was zeroed once.
/// - `wcs` is the first field, and shorter than the alignment.
#[repr(C, align(1024))]
pub(crate) struct Inbox {
    wcs: UnsafeCell<MaybeUninit<[ibv_wc; BATCH]>>,
    pub(crate) polled_queue: PolledQueue,
    poller: UnsafeCell<Poller>,
    pub(super) state: Mutex<State>,
    /// The completion queue, until it is destroyed. Handles find it here, so that they do not keep
    /// it.
    queue: Mutex<Weak<CqShared>>,
    /// The adapter that is polled if the queue has extra fields.
    extended: Option<Extended>,
    /// The adapter that is polled if the queue has a shared budget or counters.
    counted: Option<Arc<Counted>>,
    /// The entries of the queue.
    pub(super) budget: Arc<Budget>,
    /// The fields of `extended`. (Stored here, so that each poll compares one word: 5
    /// instructions.)
    wc_flags: u64,
    /// Whether the device is Soft-RoCE, which uses another flag for an invalidated key.
    pub(crate) is_soft_roce: bool,
}

/// Not a set of fields.
const NO_FIELDS: u64 = u64::MAX;

static_assertions::const_assert!(size_of::<[ibv_wc; BATCH]>() <= ALIGNMENT);
static_assertions::const_assert!(align_of::<Inbox>() == ALIGNMENT);

// SAFETY: the C object may be used from any thread (R17.1). The rest is plain memory and counters.
unsafe impl Send for Inbox {}
// SAFETY: every field is behind the lock, atomic, or used by one thread at a time (invariant).
unsafe impl Sync for Inbox {}

/// The poller's state.
///
/// # Invariants
/// The `left` completions of the batch from `next` on are polled and not returned yet. While there
/// are some, or while `watches` or `is_broken` is set, a placeholder is polled instead of the queue
/// (`Reason::Held`).
#[derive(Clone, Copy, Default)]
pub(crate) struct Poller {
    pub next: u32,
    pub left: u32,
    /// The number of completions polled so far, counted while the cold path was taken.
    pub passed: u64,
    /// The value of `passed` when the queue was found empty. Queues known to be gone by then are
    /// over once the batch has been returned. `None` unless it `watches`.
    pub seen_empty_at: Option<u64>,
    /// Whether there are queues that are gone and not over yet.
    pub watches: bool,
    /// Whether the device reported the completion queue in error. It is not polled again.
    pub is_broken: bool,
}

impl Poller {
    /// Whether a queue that was known to be gone when `then` completions had passed is over. If so,
    /// everything that was in the completion queue at that time has been polled. Either the queue
    /// was found empty since, or as many completions have passed as it could ever hold (`largest`:
    /// its capacity may have decreased since `then`).
    pub(super) fn is_over(&self, then: u64, largest: u32) -> bool {
        self.seen_empty_at.is_some_and(|at| then <= at) || self.passed - then >= largest.into()
    }
}

impl Inbox {
    /// `extended` polls `queue` if it is given.
    pub fn new(
        queue: *mut ibv_cq,
        capacity: u32,
        extended: Option<Extended>,
        is_soft_roce: bool,
        counts: Counts,
    ) -> Self {
        let queue = extended.as_ref().map_or(queue, Extended::queue);
        let counted = Counted::new(queue, counts);
        let queue = counted.as_ref().map_or(queue, Counted::queue);
        let budget = Arc::new(Budget::new(capacity));
        let wc_flags = extended.as_ref().map_or(NO_FIELDS, |it| it.wc_flags);
        Inbox {
            wcs: UnsafeCell::new(MaybeUninit::zeroed()),
            polled_queue: PolledQueue::new(queue),
            poller: UnsafeCell::default(),
            state: Mutex::new(State::new(capacity, budget.clone())),
            queue: Mutex::new(Weak::new()),
            extended,
            counted,
            budget,
            wc_flags,
            is_soft_roce,
        }
    }

    /// The poller's state.
    ///
    /// # Safety
    /// The caller has the completion queue by `&mut`, or an exclusive borrow of it, and no other
    /// reference to the poller's state.
    #[allow(clippy::mut_from_ref)] // that is the purpose of the cell
    pub(crate) unsafe fn poller(&self) -> &mut Poller {
        // SAFETY: the caller has the completion queue (this function's contract), so nothing else
        // uses the cell (invariant).
        unsafe { &mut *self.poller.get() }
    }

    /// Stores the completion queue of this inbox.
    pub fn belongs_to(&self, queue: &Arc<CqShared>) {
        *lock(&self.queue) = Arc::downgrade(queue);
    }

    /// The completion queue, if it is not destroyed.
    pub fn queue(&self) -> Option<Arc<CqShared>> {
        lock(&self.queue).upgrade()
    }

    /// Destroys the completion queue: `close` gets it, unless other code holds it too. Handles wait
    /// for this call, so they fail only if it is destroyed.
    pub fn destroy(
        &self,
        queue: &mut Arc<CqShared>,
        close: impl FnOnce(Option<&mut CqShared>) -> Result<(), i32>,
    ) -> Result<(), i32> {
        let mut known = lock(&self.queue);
        *known = Weak::new(); // `get_mut` needs the only reference
        close(Arc::get_mut(queue)).inspect_err(|_| *known = Arc::downgrade(queue))
    }

    /// Whether its queue pairs take entries when they post.
    pub(super) fn is_shared(&self) -> bool {
        self.counted.as_ref().is_some_and(|counted| counted.is_shared())
    }

    /// The counts for monitoring, if there are any.
    pub(super) fn tally(&self) -> Option<&Arc<CqTally>> {
        self.counted.as_ref()?.tally()
    }

    /// Whether it is polled for exactly these fields.
    #[inline(always)]
    pub(crate) fn is_polled_for(&self, wc_flags: u64) -> bool {
        self.wc_flags == wc_flags
    }

    /// The fields of a completion.
    ///
    /// # Safety
    /// `wc` points into `wcs` of this inbox, which is polled for fields, and was derived from a
    /// pointer to the whole inbox.
    pub(crate) unsafe fn row_of(&self, wc: *const ibv_wc) -> *const Row {
        // SAFETY: it is polled for fields, so it has `extended` from `new` on; and `wc` is in `wcs`
        // (this function's contract).
        unsafe { self.extended.as_ref().unwrap_unchecked().row(self.index_of(wc)) }
    }

    /// The index of a completion in `wcs`.
    ///
    /// # Safety
    /// `wc` points into `wcs`, and was derived from a pointer to the whole inbox.
    #[inline(always)]
    pub(super) unsafe fn index_of(&self, wc: *const ibv_wc) -> usize {
        // SAFETY: both are in this inbox, a whole number of completions apart. (So the division is
        // exact and needs no multiplication: 5 instructions if there are extra fields.)
        unsafe { wc.offset_from(self.wcs.get().cast()) as usize }
    }

    /// The inbox that a completion was polled into.
    ///
    /// # Safety
    /// `wc` points into `wcs` of a live inbox, and was derived from a pointer to the whole inbox.
    pub(crate) unsafe fn of<'a>(wc: *const ibv_wc) -> &'a Inbox {
        let at = wc.map_addr(|at| at & !(ALIGNMENT - 1)).cast();
        // SAFETY: `wcs` is first and shorter than the alignment, so rounding down gives the inbox,
        // which is live (this function's contract).
        unsafe { &*at }
    }
}

/// Records that a completion of a ring was dropped. The queue pair of the ring reads this record
/// later.
///
/// The function promises not to unwind. Otherwise a loop over completions would have to keep the
/// iterator's fields in memory.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // C does not call it
pub(super) extern "C" fn note_dropped(wc: *const ibv_wc, wr_id: u64) {
    crate::cold_calls::note();
    // SAFETY: callers hold a completion, which was polled into an inbox that lives as long as its
    // completion queue is borrowed.
    unsafe { Inbox::of(wc) }.note_dropped(wr_id);
}
