//! What a completion queue shares with the queues that complete into it: the memory that it polls
//! into, the queue that it polls, and the bookings.

#![allow(unsafe_code)] // plain memory that several threads know

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::{Arc, Weak};

use crate::completion::parked::{Over, Parked};
use crate::completion::stand_in::STAND_INS;
use crate::completion::switch::{Reason, Switch};
use crate::counters::books::{Books, Quiet};
use crate::sync::{Mutex, MutexGuard};
use crate::sys::types::{ibv_cq, ibv_wc};
use crate::terms::error::{Error, ErrorKind};

/// The number of completions that a poll asks for at most.
pub(crate) const BATCH: usize = 16;

/// The inbox is aligned to this, so that a completion in `wcs` finds its inbox.
const ALIGNMENT: usize = 1024;

/// # Invariants
/// - An inbox does not move. It lives as long as the completion queue and the queues that complete
///   into it.
/// - Only the holder of the completion queue, by `&mut` or by what borrows it so, uses `wcs` and
///   `poller`, and only through raw pointers: completions that were handed out point into `wcs`.
///   All of `wcs` was zeroed once.
/// - `wcs` is the first field, and shorter than the alignment.
#[repr(C, align(1024))]
pub(crate) struct Inbox {
    wcs: UnsafeCell<MaybeUninit<[ibv_wc; BATCH]>>,
    pub(crate) switch: Switch<ibv_cq>,
    poller: UnsafeCell<Poller>,
    state: Mutex<State>,
}

static_assertions::const_assert!(size_of::<[ibv_wc; BATCH]>() <= ALIGNMENT);
static_assertions::const_assert!(align_of::<Inbox>() == ALIGNMENT);

// SAFETY: the C object may be used from any thread (R17.1). The rest is plain memory and books.
unsafe impl Send for Inbox {}
// SAFETY: every field is behind the lock, atomic, or used by one thread at a time (invariant).
unsafe impl Sync for Inbox {}

/// The poller's state.
///
/// # Invariants
/// The `left` completions of the batch from `next` on are polled and not handed out. While there
/// are some, or `watches` or `is_broken` is set, a stand-in takes the queue's place
/// (`Reason::Held`).
#[derive(Default)]
pub(crate) struct Poller {
    pub next: u32,
    pub left: u32,
    /// The number of completions polled so far, counted while the cold path was taken.
    pub passed: u64,
    /// The value of `passed` when the queue was seen empty. Queues known to be gone by then are
    /// over once the batch has been handed out.
    pub seen_empty_at: Option<u64>,
    /// Whether there are queues that are gone and not over yet.
    pub watches: bool,
    /// Whether the device reported the completion queue in error. It is not asked again.
    pub is_broken: bool,
}

impl Poller {
    /// Whether a queue is over that was known to be gone when `then` completions had passed. If so,
    /// all that was in the completion queue at that time has been polled: the queue was seen empty
    /// since, or as many completions have passed as it ever held (`largest`: it may have become
    /// smaller since `then`).
    fn is_over(&self, then: u64, largest: u32) -> bool {
        self.seen_empty_at.is_some_and(|at| then <= at) || self.passed - then >= largest.into()
    }
}

#[derive(Default)]
struct State {
    capacity: u32,
    /// The largest capacity that it ever had.
    largest: u32,
    booked: u32,
    attached: Vec<Attachment>,
    /// Dropped queue pairs that receive here.
    parked: Vec<(Arc<Parked>, Stage)>,
    /// Dropped queue pairs that only send here.
    parked_elsewhere: Vec<Weak<Parked>>,
    /// Whether nothing will be handed out any more.
    is_closed: bool,
}

impl State {
    /// What no queue has booked. (A device that grants less than asked for, which none may, can
    /// make the capacity less than what is booked.)
    fn unbooked(&self) -> u32 {
        self.capacity.saturating_sub(self.booked)
    }

    /// Marks the queue pair with these books as parked. It may be destroyed already, by another
    /// thread: then its stage stays that of a queue that is gone.
    fn mark_parked(&mut self, books: &Arc<Books>) {
        for a in self.attached.iter_mut().filter(|a| Arc::ptr_eq(&a.books, books)) {
            if a.stage == Stage::Alive {
                a.stage = Stage::Parked;
            }
        }
    }
}

/// The part of a queue that completes by an attachment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    Sends,
    Receives,
    /// The receives of a shared receive queue.
    Shared,
}

/// A queue that completes here.
struct Attachment {
    books: Arc<Books>,
    entries: u32,
    share: Share,
    stage: Stage,
}

/// How far the end of a queue has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alive,
    /// A queue pair that was dropped and is not destroyed.
    Parked,
    /// The queue ended, and the poller does not know yet.
    Ended,
    /// The poller knows, since this many completions had passed.
    Known(u64),
    /// The queue's part is over. The poller may hold stale completions of its ring, so its tag may
    /// not be reused yet.
    Over,
}

/// How much of a queue is outstanding as it ends.
#[derive(Clone, Copy)]
pub(crate) struct AtEnd {
    /// The number of sends and of receives; not 0 if unknown.
    pub left: [u32; 2],
    /// Whether completions of a ring may remain that release nothing.
    pub may_be_stale: bool,
}

impl AtEnd {
    /// A queue without counts.
    pub const UNKNOWN: AtEnd = AtEnd { left: [u32::MAX; 2], may_be_stale: true };

    fn left_of(&self, share: Share) -> u32 {
        match share {
            Share::Sends => self.left[0],
            Share::Receives | Share::Shared => self.left[1],
        }
    }
}

impl Inbox {
    pub fn new(queue: *mut ibv_cq, capacity: u32) -> Self {
        Inbox {
            wcs: UnsafeCell::new(MaybeUninit::zeroed()),
            switch: Switch::new(queue, STAND_INS.all()),
            poller: UnsafeCell::default(),
            state: Mutex::new(State { capacity, largest: capacity, ..State::default() }),
        }
    }

    /// The poller's state.
    ///
    /// # Safety
    /// The caller has the completion queue by `&mut`, or by what borrows it so, and no other
    /// reference to the poller's state.
    #[allow(clippy::mut_from_ref)] // the cell is for that
    pub(crate) unsafe fn poller(&self) -> &mut Poller {
        // SAFETY: the caller has the completion queue (this function's contract), so it alone uses
        // the cell (invariant).
        unsafe { &mut *self.poller.get() }
    }

    /// The inbox that a completion was polled into.
    ///
    /// # Safety
    /// `wc` points into `wcs` of a live inbox, and was derived from a pointer to all of that inbox.
    pub(crate) unsafe fn of<'a>(wc: *const ibv_wc) -> &'a Inbox {
        let at = wc.map_addr(|at| at & !(ALIGNMENT - 1)).cast();
        // SAFETY: `wcs` is first and shorter than the alignment, so rounding down gives the inbox,
        // which is live (this function's contract).
        unsafe { &*at }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn capacity(&self) -> u32 {
        self.state().capacity
    }

    pub fn unbooked(&self) -> u32 {
        self.state().unbooked()
    }

    /// Gives the queue another capacity, which is not below what is booked: `change` asks the
    /// device for it, and returns what was granted. No queue attaches meanwhile.
    pub fn resize(
        &self,
        asked: u32,
        change: impl FnOnce() -> Result<u32, Error>,
    ) -> Result<(), Error> {
        let mut state = self.state();
        if asked < state.booked {
            let booked = state.booked;
            return Err(Error::new("ibv_resize_cq", ErrorKind::Booked { asked, booked }));
        }
        let granted = change()?;
        state.capacity = granted;
        state.largest = state.largest.max(granted);
        if granted < asked {
            return Err(Error::limit("ibv_resize_cq", "cqe", asked.into(), granted.into()));
        }
        Ok(())
    }

    /// Books `entries` for a queue. A shared receive queue books once, however many queue pairs
    /// bring its completions here.
    pub fn attach(&self, books: &Arc<Books>, entries: u32, share: Share) -> Result<(), Error> {
        let mut state = self.state();
        let is_known = |a: &Attachment| Arc::ptr_eq(&a.books, books);
        if share == Share::Shared && state.attached.iter().any(is_known) {
            return Ok(());
        }
        let free = state.unbooked();
        if entries > free {
            let kind = ErrorKind::CqTooSmall { asked: entries, free };
            return Err(Error::new("ibv_create_qp", kind));
        }
        state.booked += entries;
        books.attached();
        let books = books.clone();
        state.attached.push(Attachment { books, entries, share, stage: Stage::Alive });
        Ok(())
    }

    /// Removes the attachment of a queue that could not be created.
    pub fn detach(&self, books: &Arc<Books>) {
        let mut state = self.state();
        if let Some(at) = state.attached.iter().rposition(|a| Arc::ptr_eq(&a.books, books)) {
            let attachment = state.attached.swap_remove(at);
            state.booked -= attachment.entries;
            let is_last = books.end_one();
            debug_assert!(!is_last, "the queue that was to be has its own part");
        }
    }

    /// Replaces the books of a queue that was reset: the booking continues under the new ones,
    /// while completions of the old may still come.
    pub fn renew(&self, old: &Arc<Books>, new: &Arc<Books>) {
        let mut state = self.state();
        let mut moved = Vec::new();
        for a in state.attached.iter_mut().filter(|a| Arc::ptr_eq(&a.books, old)) {
            new.attached();
            let entries = std::mem::take(&mut a.entries);
            let books = new.clone();
            moved.push(Attachment { books, entries, share: a.share, stage: Stage::Alive });
        }
        state.attached.append(&mut moved);
    }

    /// Ends a queue that completes here: it was destroyed or reset. A part of it with nothing
    /// outstanding is over at once; the poller learns of the rest.
    pub fn end(&self, books: &Arc<Books>, at_end: AtEnd, quiet: &mut Quiet) {
        let mut tell = false;
        let mut state = self.state();
        let State { booked, attached, is_closed, .. } = &mut *state;
        for a in attached.iter_mut().filter(|a| Arc::ptr_eq(&a.books, books)) {
            if !*is_closed && at_end.left_of(a.share) != 0 {
                a.stage = Stage::Ended;
                tell = true;
                continue;
            }
            a.stage = Stage::Over;
            *booked -= std::mem::take(&mut a.entries);
            quiet.end_one(a.books.clone());
        }
        if *is_closed || !at_end.may_be_stale {
            attached.retain(|a| a.stage != Stage::Over || !Arc::ptr_eq(&a.books, books));
        } else {
            tell = true;
        }
        drop(state);
        if tell {
            self.switch.give(Reason::Dead);
        }
    }

    /// Keeps a queue pair with these books, dropped and in ERR, until everything in the completion
    /// queue has been handed out. Returns false if nothing is handed out any more.
    pub fn park(&self, parked: &Arc<Parked>, books: &Arc<Books>) -> bool {
        let mut state = self.state();
        if state.is_closed {
            return false;
        }
        state.mark_parked(books);
        state.parked.push((parked.clone(), Stage::Ended));
        drop(state);
        self.switch.give(Reason::Dead);
        true
    }

    /// Notes a parked queue pair that only sends here.
    pub fn knows_parked(&self, parked: &Arc<Parked>, books: &Arc<Books>) {
        let mut state = self.state();
        state.mark_parked(books);
        state.parked_elsewhere.retain(|known| known.strong_count() != 0);
        state.parked_elsewhere.push(Arc::downgrade(parked));
    }

    /// Takes the parked queue pairs that complete here.
    pub(crate) fn take_parked(&self) -> Vec<Arc<Parked>> {
        let mut state = self.state();
        let elsewhere: Vec<_> = state.parked_elsewhere.drain(..).collect();
        let here = state.parked.drain(..).map(|(parked, _)| parked);
        here.chain(elsewhere.iter().filter_map(Weak::upgrade)).collect()
    }

    /// Whether a queue pair completes here that is neither dropped nor gone.
    pub(crate) fn has_queue_pairs(&self) -> bool {
        let is_one = |a: &Attachment| a.share != Share::Shared && a.stage == Stage::Alive;
        self.state().attached.iter().any(is_one)
    }

    /// Notes the queues that ended. `passed` is the poller's count of completions.
    pub(crate) fn note_ended(&self, passed: u64) {
        if !self.switch.take(Reason::Dead) {
            return;
        }
        let mut state = self.state();
        let State { attached, parked, .. } = &mut *state;
        let stages = attached.iter_mut().map(|a| &mut a.stage);
        for stage in stages.chain(parked.iter_mut().map(|(_, stage)| stage)) {
            if *stage == Stage::Ended {
                *stage = Stage::Known(passed);
            }
        }
    }

    /// Ends the bookings of the queues that are over. The batch is empty, and no completion is
    /// held. Returns whether some queues are gone and not over yet, and the parked queue pairs to
    /// be destroyed now.
    pub(crate) fn settle(&self, poller: &Poller, over: &mut Over) -> (bool, Vec<Arc<Parked>>) {
        let mut state = self.state();
        let State { largest, booked, attached, parked, .. } = &mut *state;
        let mut watches = false;
        let mut ended = Vec::new();
        parked.retain(|(parked, stage)| match *stage {
            Stage::Known(then) if poller.is_over(then, *largest) => {
                ended.push(parked.clone());
                false
            }
            _ => {
                watches = true;
                true
            }
        });
        attached.retain_mut(|a| match a.stage {
            Stage::Alive | Stage::Parked | Stage::Ended => true,
            Stage::Over => false,
            Stage::Known(then) if !poller.is_over(then, *largest) => {
                watches = true;
                true
            }
            Stage::Known(_) => {
                *booked -= a.entries;
                over.quiet.end_one(a.books.clone());
                false
            }
        });
        (watches, ended)
    }

    /// Nothing will be handed out any more, and no completion is held. So nothing completes of
    /// queues that ended already or end later.
    pub(crate) fn close(&self, over: &mut Over) {
        self.state().is_closed = true;
        // From here on no queue pair is parked.
        for parked in self.take_parked() {
            parked.end(over);
        }
        self.close_for(over, |stage| !matches!(stage, Stage::Alive | Stage::Parked));
    }

    /// Like `close`, when no queue pair completes here.
    pub(crate) fn close_for_all(&self, over: &mut Over) {
        self.state().is_closed = true;
        self.close_for(over, |_| true);
    }

    fn close_for(&self, over: &mut Over, is_over: impl Fn(Stage) -> bool) {
        let mut state = self.state();
        let State { booked, attached, .. } = &mut *state;
        attached.retain_mut(|a| {
            if !is_over(a.stage) {
                return true;
            }
            if a.stage != Stage::Over {
                *booked -= a.entries;
                over.quiet.end_one(a.books.clone());
            }
            false
        });
    }

    /// Notes for its queue pair that a completion of a ring was dropped. (If no queue has its tag,
    /// the queue pair is gone.)
    pub(crate) fn note_dropped(&self, wr_id: u64) {
        let state = self.state();
        if let Some(a) = state.attached.iter().find(|a| a.books.ring_id() == wr_id as u32) {
            a.books.note_dropped((wr_id >> 32) as u32);
        }
    }

    /// The number of parked queue pairs that it knows besides its own.
    #[cfg(all(test, feature = "loopback"))]
    pub fn known_elsewhere(&self) -> usize {
        self.state().parked_elsewhere.len()
    }

    /// The number of queues whose books it keeps.
    #[cfg(all(test, feature = "loopback"))]
    pub fn attachments(&self) -> usize {
        self.state().attached.len()
    }
}
