//! In-flight tables: the entries that the device owns, and how they are returned.
//!
//! An [`InFlight`] counts how many work requests a queue may still post, because devices free slots
//! before their completions are polled (R9.7) and a completion queue must not overrun (R9.9). It
//! also finds the entry of a completed work request. There are three kinds:
//!
//! - [`Credits`](credits::Credits): every work request completes, and its entry is the wr_id.
//! - [`Ring`](ring::Ring): only some complete. The ring stores the entries, and a completion
//!   releases all entries up to its own.
//! - [`Uncounted`](uncounted::Uncounted): for a shared receive queue. The entry is the wr_id, and
//!   the number of buffers in the queue's pool is the limit.
//!
//! A post enters the entries of a list, and then commits them by taking room (`spend`).

// No model: only the owner of one queue changes the count, as in `in_flight::credits`.

#![allow(unsafe_code)] // declares unsafe methods

pub(crate) mod credits;
#[cfg(all(test, feature = "loopback"))]
mod model_tests;
pub(crate) mod released;
pub(crate) mod ring;
pub(crate) mod stale;
#[cfg(all(test, feature = "loopback"))]
mod tests;
pub(crate) mod uncounted;

use std::cell::Cell;
use std::sync::Arc;

use crate::counters::budget::Claims;
use crate::counters::queue_counters::{CompletionCounter, QueueCounters};
use crate::in_flight::released::Released;
use crate::in_flight::stale::StaleCredits;
use crate::memory::entry::Entry;
use crate::memory::header::word;
use crate::sync::{AtomicU64, Ordering};
use crate::terms::post_error::PostErrorKind;

/// Selects the in-flight table of a send queue by its signaling.
#[doc(hidden)]
pub trait SendMode {
    type InFlight<E: Entry>: InFlight<E>;
    /// Whether every send is signaled.
    const SIG_ALL: bool;
    /// The flags of the last work request of a list by default.
    const SIGNAL_LAST: u32;
}

/// The maximum number of work requests of a chain that a macro posts.
pub(crate) const MOST: u32 = 128;

/// The memory of a ring. A new one needs `ring::slots` of them, and allocates those that it lacks.
pub(crate) type Slots = Vec<Cell<usize>>;

/// The depth of an in-flight table, and memory for it.
pub(crate) type Room = (u32, Slots);

/// The common state of the in-flight tables.
#[doc(hidden)]
#[repr(C)] // the fields that each post accesses come first
pub struct QueueState {
    // Invariants:
    // - `counter` is the counter in `counters` for the direction of the in-flight table.
    // - `room` is the number of work requests that fit as far as known: at least 0, and at most 0
    //   if the in-flight table is poisoned. (For credits it is below 0 then, and otherwise only
    //   during a post. An uncounted table is poisoned by its mask.)
    pub(crate) room: i32,
    /// How many work requests fit when none is outstanding.
    pub(crate) depth: u32,
    /// The bits that must not be in the type tag of a buffer, unless it is inspected.
    pub(crate) mismatch: u64,
    /// The value in the headers of buffers that the queue owns, if its in-flight table is `MARKED`.
    pub(crate) counter: *const CompletionCounter,
    /// The number of lists that were started and not finished. (It is an atomic so that the
    /// compiler adds to it in memory and needs no register, which saves two instructions per list.)
    lists: AtomicU64,
    pub(crate) stale: StaleCredits,
    pub(crate) counters: Arc<QueueCounters>,
}

impl QueueState {
    fn new(
        counters: &Arc<QueueCounters>,
        direction: usize,
        room: i32,
        stale: StaleCredits,
    ) -> Self {
        QueueState {
            room,
            depth: room as u32,
            mismatch: counters.mismatch(direction),
            // SAFETY: the counters are alive.
            counter: unsafe { QueueCounters::counter(Arc::as_ptr(counters), direction) },
            lists: AtomicU64::new(0),
            stale,
            counters: counters.clone(),
        }
    }

    /// The claims of the queue on a shared budget, if it takes an entry with each work request.
    fn claims(&self) -> Option<&Claims> {
        // SAFETY: the counter is in the counters (invariant).
        unsafe { &*self.counter }.claims()
    }

    /// Claims `n` entries, if the queue takes them as it posts. Returns false if they are not free.
    fn claim(&self, n: u32) -> bool {
        self.claims().is_none_or(|claims| claims.claim(n))
    }

    /// Adds to the number of lists in progress. It is a number and not a flag, because a finished
    /// list must not hide one that was leaked before.
    #[inline(always)]
    fn count_list(&self, more: u64) {
        self.lists.store(self.lists.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

/// The in-flight table of a queue with entries of type `E`.
#[doc(hidden)]
pub trait InFlight<E: Entry>: Sized {
    /// Whether headers record that the device owns a buffer. (A ring records this itself.)
    const MARKED: bool;
    /// The position and the names of the entries of a list in progress.
    type Cursor: Copy;

    /// Creates an in-flight table of `room` work requests of a direction, less the stale credits.
    fn open(
        counters: &Arc<QueueCounters>,
        direction: usize,
        room: Room,
        stale: StaleCredits,
    ) -> Self;

    /// The slots of this table, for `open` of its successor.
    fn take_slots(&mut self) -> Slots {
        Slots::new()
    }

    fn state(&self) -> &QueueState;

    fn state_mut(&mut self) -> &mut QueueState;

    /// The cursor of a list that starts now. It is valid until a work request is spent.
    fn cursor(&self) -> Self::Cursor;

    /// Moves the cursor to the next work request.
    fn advance(cursor: &mut Self::Cursor);

    /// Stores the entry of the `i`th work request, or the id of a work request without an entry (in
    /// the bits of `word::ID`), and returns its wr_id. `i` counts from the position of `cursor`
    /// before the first work request. The caller owns the entry until it is spent. The entries of
    /// one cursor are entered in order, each once.
    ///
    /// # Safety
    /// The cursor is valid. The list has no more work requests than `MOST`, or than there is room
    /// for.
    unsafe fn enter(
        &mut self,
        cursor: &mut Self::Cursor,
        i: u32,
        word: Option<usize>,
        id: u64,
    ) -> u64;

    /// Takes room for `n` work requests, if they fit. The device owns them from then on. If this
    /// returns false, nothing has changed, and `look_and_spend` may still find room.
    #[must_use]
    fn spend(&mut self, n: u32) -> bool;

    /// A list starts. Its buffers name the queue before it is posted.
    #[inline(always)]
    fn begin_list(&mut self) {
        if Self::MARKED {
            self.state().count_list(1);
        }
    }

    /// A list ends: it was posted, rejected or dropped. A list that safe code leaked never ends.
    #[inline(always)]
    fn end_list(&mut self) {
        if Self::MARKED {
            self.state().count_list(1u64.wrapping_neg());
        }
    }

    /// Whether lists were leaked. Call it when the queue ends, because no list is in progress then.
    fn has_lists(&self) -> bool {
        self.state().lists.load(Ordering::Relaxed) != 0
    }

    /// Takes room for `n` work requests, after reading what has completed. The device owns them
    /// from then on. Returns false if they do not fit.
    #[must_use]
    fn look_and_spend(&mut self, n: u32) -> bool;

    /// The number of work requests that fit in the queue itself, after reading what has completed.
    fn own_room(&mut self) -> u32;

    /// The number of work requests that fit, after reading what has completed. (`extern "C"`,
    /// because such functions do not unwind.)
    #[cold]
    #[inline(never)]
    extern "C" fn room(&mut self) -> u32 {
        crate::cold_calls::note();
        let own = self.own_room();
        self.state().claims().map_or(own, |claims| own.min(claims.budget().free() + self.held()))
    }

    /// Like `room`, for comparison with `n`. If there is room, the entries are held for the next
    /// post. If there is none after all, call `give_back_held`.
    extern "C" fn room_for(&mut self, _n: u32) -> u32 {
        self.room()
    }

    /// The number of entries that were claimed and not used yet.
    fn held(&self) -> u32 {
        0
    }

    /// Returns entries that `room_for` holds, if nothing is posted.
    fn give_back_held(&mut self) {}

    /// Why `n` work requests do not fit.
    fn why_full(&mut self, n: u32) -> PostErrorKind {
        let (own, room) = (self.own_room(), self.room().min(n.saturating_sub(1)));
        match n > own {
            true => PostErrorKind::QueueFull { asked: n, room },
            false => PostErrorKind::CqFull { asked: n, room },
        }
    }

    /// The entry (0 if none) of the `i`th work request of a list that was entered and not spent,
    /// with this wr_id.
    fn word(&self, i: u32, wr_id: u64) -> usize;

    /// Takes back the last `n` work requests that were spent, which the device does not own. They
    /// are entered again, as a list.
    fn take_back(&mut self, n: u32);

    /// Whether the outcome of a post is unknown.
    fn is_poisoned(&self) -> bool;

    /// Prevents posts until the queue is reset. The device still owns what was posted.
    fn poison(&mut self);

    /// The number of work requests posted since the in-flight table was created, wrapping.
    fn posted(&self) -> u32;

    /// The number of these work requests that are known to have completed.
    fn completed(&self) -> u32;

    /// Releases the stored entries up to `until`; `None` if there are none.
    fn release(&mut self, _until: Until) -> Option<Released<'_, E>> {
        None
    }

    /// Enters a work request without a buffer beyond the capacity, and returns its wr_id, if its
    /// completion is the only way to know that all others are done.
    fn enter_sentinel(&mut self) -> Option<u64> {
        None
    }

    /// Whether `n` more work requests fit.
    #[inline(always)]
    fn has_room(&mut self, n: u32) -> bool {
        n as i32 <= self.state().room || n <= self.room_for(n)
    }

    /// The state that a reset leaves for the next in-flight table of this depth: the room that
    /// completions of the `old` counters may still take.
    fn keep_stale(&mut self, old: &Arc<QueueCounters>, depth: u32) -> StaleCredits {
        let mut stale = std::mem::take(&mut self.state_mut().stale);
        stale.add(old, self.outstanding(), depth);
        stale
    }

    /// The room that completions from before a reset still take.
    fn stale_credits(&mut self) -> u32 {
        let stale = &mut self.state_mut().stale;
        stale.recover();
        stale.total()
    }

    /// The number of posted work requests that are not known to be complete.
    fn outstanding(&self) -> u32 {
        self.posted().wrapping_sub(self.completed())
    }
}

/// How far to release entries.
#[doc(hidden)]
pub enum Until {
    /// Up to the work request of the completion with this wr_id, if it belongs to this queue and
    /// the wr_id is not the entry itself.
    Completion(u64),
    /// Up to the work request of the last completion that was dropped.
    Dropped,
    /// All: the queue is gone or reset.
    End,
}

macro_rules! state {
    () => {
        #[inline(always)]
        fn state(&self) -> &QueueState {
            &self.state
        }

        #[inline(always)]
        fn state_mut(&mut self) -> &mut QueueState {
            &mut self.state
        }
    };
}
use state;

/// The entry in a word, or 0 if it has no buffer.
fn entry_in(word: usize) -> usize {
    if word::is_none(word) { 0 } else { word }
}
