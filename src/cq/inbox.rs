//! What a completion queue shares with the queues that complete into it: where completions are polled to, from which
//! queue, and how much of it each has booked.

#![allow(unsafe_code)] // plain memory that several threads know

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::{Arc, Weak};

use super::parked::{Over, Parked};
use super::stand_in::STAND_INS;
use super::switch::{Reason, Switch};
use crate::error::{Error, ErrorKind};
use crate::in_flight::{Books, Quiet};
use crate::sync::{Mutex, MutexGuard};
use crate::sys::types::{ibv_cq, ibv_wc};

/// How many completions a poll asks for at most.
pub(super) const BATCH: usize = 16;

/// A multiple of its alignment, by which a completion in `wcs` finds its inbox.
const ALIGNMENT: usize = 1024;

/// # Invariants
/// - It does not move, and lives as long as the completion queue and the queues that complete into it.
/// - `wcs` and `poller` are used by who has the completion queue, `&mut` or by what borrows it so, and through raw pointers only:
///   completions that were handed out are pointers into `wcs`. All of `wcs` was zeroed once.
/// - `wcs` is first, and shorter than the alignment.
#[repr(C, align(1024))]
pub(crate) struct Inbox {
    wcs: UnsafeCell<MaybeUninit<[ibv_wc; BATCH]>>,
    pub(super) switch: Switch<ibv_cq>,
    poller: UnsafeCell<Poller>,
    capacity: u32,
    state: Mutex<State>,
}

static_assertions::const_assert!(size_of::<[ibv_wc; BATCH]>() <= ALIGNMENT);
static_assertions::const_assert!(align_of::<Inbox>() == ALIGNMENT);

// SAFETY: the C object may be used from any thread (R17.1); the rest is plain memory and books.
unsafe impl Send for Inbox {}
// SAFETY: what is not behind the lock, or atomic, is used by one thread at a time (the invariant).
unsafe impl Sync for Inbox {}

/// What the poller knows.
///
/// # Invariants
/// The `left` completions of the batch from `next` on are polled and not handed out. While there are some, or
/// `watches`, or `is_broken`, a stand-in takes the queue's place (`Reason::Held`).
#[derive(Default)]
pub(super) struct Poller {
    pub next: u32,
    pub left: u32,
    /// Completions polled while the cold path was taken, all in all.
    pub passed: u64,
    /// The queue was seen empty: queues of which `passed` was known by then are over, once the batch was handed out.
    pub seen_empty_at: Option<u64>,
    /// There are queues that are gone, and not over.
    pub watches: bool,
    /// The device said that the completion queue is in error. It is not asked again.
    pub is_broken: bool,
}

impl Poller {
    /// Whether a queue is over of which was known that it is gone when `then` completions had passed. What was in the completion
    /// queue then was polled: the queue was seen empty since, or as many have passed as it holds.
    fn is_over(&self, then: u64, capacity: u32) -> bool {
        self.seen_empty_at.is_some_and(|at| then <= at) || self.passed - then >= capacity.into()
    }
}

#[derive(Default)]
struct State {
    booked: u32,
    attached: Vec<Attachment>,
    /// Queue pairs that receive here and were dropped.
    parked: Vec<(Arc<Parked>, Stage)>,
    /// Those that only send here.
    parked_elsewhere: Vec<Weak<Parked>>,
    /// Nothing will be handed out any more.
    is_closed: bool,
}

impl State {
    /// The queue pair with these books is parked.
    fn mark_parked(&mut self, books: &Arc<Books>) {
        for a in self.attached.iter_mut().filter(|a| Arc::ptr_eq(&a.books, books)) {
            a.stage = Stage::Parked;
        }
    }
}

/// What completes into the completion queue by an attachment.
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

/// How far a queue is with its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alive,
    /// A queue pair that was dropped, and is not destroyed.
    Parked,
    /// It ended, and the poller does not know yet.
    Ended,
    /// The poller knows since as many completions had passed.
    Known(u64),
    /// Its part is over. The poller may hold stale completions of its ring, so its tag is not given to another yet.
    Over,
}

/// How much of a queue is outstanding as it ends.
#[derive(Clone, Copy)]
pub(crate) struct AtEnd {
    /// Of sends, of receives; anything but 0 if it is not known.
    pub left: [u32; 2],
    /// Whether completions of a ring may be about that release nothing.
    pub may_be_stale: bool,
}

impl AtEnd {
    /// Of a queue without counts.
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
            capacity,
            state: Mutex::default(),
        }
    }

    /// What the poller knows.
    ///
    /// # Safety
    /// The caller has the completion queue `&mut`, or by what borrows it so, and no other reference to this.
    #[allow(clippy::mut_from_ref)] // that is what the cell is for
    pub(super) unsafe fn poller(&self) -> &mut Poller {
        // SAFETY: the caller's contract, and the invariant of the type.
        unsafe { &mut *self.poller.get() }
    }

    /// The inbox that a completion was polled to.
    ///
    /// # Safety
    /// `wc` points into `wcs` of a live inbox, and was derived from a pointer to all of that.
    pub(crate) unsafe fn of<'a>(wc: *const ibv_wc) -> &'a Inbox {
        let at = wc.map_addr(|at| at & !(ALIGNMENT - 1)).cast();
        // SAFETY: the caller's contract; `wcs` is first and shorter than the alignment.
        unsafe { &*at }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    pub fn unbooked(&self) -> u32 {
        self.capacity - self.state().booked
    }

    /// Books `entries` for a queue. A shared receive queue books once, however many queue pairs bring its
    /// completions here.
    pub fn attach(&self, books: &Arc<Books>, entries: u32, share: Share) -> Result<(), Error> {
        let mut state = self.state();
        let is_known = |a: &Attachment| Arc::ptr_eq(&a.books, books);
        if share == Share::Shared && state.attached.iter().any(is_known) {
            return Ok(());
        }
        let free = self.capacity - state.booked;
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

    /// Takes an attachment back whose queue never came to be.
    pub fn detach(&self, books: &Arc<Books>) {
        let mut state = self.state();
        if let Some(at) = state.attached.iter().rposition(|a| Arc::ptr_eq(&a.books, books)) {
            let attachment = state.attached.swap_remove(at);
            state.booked -= attachment.entries;
            let is_last = books.end_one();
            debug_assert!(!is_last, "the queue that was to be has its own part");
        }
    }

    /// Replaces the books of a queue that was reset: the booking goes on under the new ones, while
    /// the completions of the old may still come.
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

    /// A queue is gone (or reset) that completes here. What it has nothing outstanding of is over at once; the poller is
    /// told of the rest.
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

    /// Keeps a queue pair with these books, which was dropped and is in ERR, until all is handed out that is in the completion
    /// queue. False if nothing is handed out any more.
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

    /// A queue pair with these books is parked that only sends here.
    pub fn knows_parked(&self, parked: &Arc<Parked>, books: &Arc<Books>) {
        let mut state = self.state();
        state.mark_parked(books);
        state.parked_elsewhere.retain(|known| known.strong_count() != 0);
        state.parked_elsewhere.push(Arc::downgrade(parked));
    }

    /// The queue pairs that are parked, and complete here.
    pub(super) fn take_parked(&self) -> Vec<Arc<Parked>> {
        let mut state = self.state();
        let elsewhere: Vec<_> = state.parked_elsewhere.drain(..).collect();
        let here = state.parked.drain(..).map(|(parked, _)| parked);
        here.chain(elsewhere.iter().filter_map(Weak::upgrade)).collect()
    }

    /// Whether a queue pair completes here that is neither dropped nor gone.
    pub(super) fn has_queue_pairs(&self) -> bool {
        let is_one = |a: &Attachment| a.share != Share::Shared && a.stage == Stage::Alive;
        self.state().attached.iter().any(is_one)
    }

    /// Takes note of the queues that ended, if any did. The poller says how many completions have passed.
    pub(super) fn note_ended(&self, passed: u64) {
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

    /// The bookings end of the queues that are over. Nothing is in the batch, and nothing is held. Whether some are gone and
    /// not over yet, and the parked queue pairs that are to be destroyed now.
    pub(super) fn settle(&self, poller: &Poller, over: &mut Over) -> (bool, Vec<Arc<Parked>>) {
        let mut state = self.state();
        let State { booked, attached, parked, .. } = &mut *state;
        let mut watches = false;
        let mut ended = Vec::new();
        parked.retain(|(parked, stage)| match *stage {
            Stage::Known(then) if poller.is_over(then, self.capacity) => {
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
            Stage::Known(then) if !poller.is_over(then, self.capacity) => {
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

    /// Nothing will be handed out any more, and nothing is held. So nothing completes, of queues that ended now
    /// or will end.
    pub(super) fn close(&self, over: &mut Over) {
        self.state().is_closed = true;
        // Now none is parked any more.
        for parked in self.take_parked() {
            parked.end(over);
        }
        self.close_for(over, |stage| !matches!(stage, Stage::Alive | Stage::Parked));
    }

    /// As `close`, and no queue pair completes here.
    pub(super) fn close_for_all(&self, over: &mut Over) {
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

    /// A completion of a ring was dropped: its queue pair will find it noted. (If there is none with this tag, it is gone.)
    pub(crate) fn note_dropped(&self, wr_id: u64) {
        let state = self.state();
        if let Some(a) = state.attached.iter().find(|a| a.books.ring_id() == wr_id as u32) {
            a.books.note_dropped((wr_id >> 32) as u32);
        }
    }

    /// How many queues it keeps the books of.
    #[cfg(all(test, feature = "loopback"))]
    pub fn attachments(&self) -> usize {
        self.state().attached.len()
    }
}
