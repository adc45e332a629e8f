//! The queues that complete into an inbox: their reservations, and the state of those that ended.

// Model: src/completion/loom_tests/mod.rs

use std::collections::HashMap;
use std::sync::Arc;

use crate::completion::deferred_destroy::{DeferredDestroy, Over};
use crate::completion::inbox::{Inbox, Poller};
use crate::completion::polled_queue::Reason;
use crate::counters::budget::Budget;
use crate::counters::queue_counters::{QueueCounters, Quiet, RECEIVE, SEND};
use crate::memory::header::word;
use crate::sync::{MutexGuard, lock};
use crate::terms::error::{Error, ErrorKind};

pub(super) struct State {
    capacity: u32,
    /// The largest capacity since creation.
    largest: u32,
    /// The entries reserved by queues that reserve their depth. They are taken from the budget.
    booked: u32,
    budget: Arc<Budget>,
    /// The attachments, by the addresses of their counters.
    attached: HashMap<usize, Attachment>,
    /// The keys of attachments that the poller waits for, or must be notified of. A key may occur
    /// twice, and its attachment may be gone.
    ending: Vec<usize>,
    /// The counters of each ring, by the lower half of its wr_ids.
    rings: HashMap<u32, Arc<QueueCounters>>,
    /// The number of the next attachment.
    next: u64,
    /// Whether no more completions will be returned.
    is_closed: bool,
}

impl State {
    pub fn new(capacity: u32, budget: Arc<Budget>) -> Self {
        State {
            capacity,
            largest: capacity,
            booked: 0,
            budget,
            attached: HashMap::new(),
            ending: Vec::new(),
            rings: HashMap::new(),
            next: 0,
            is_closed: false,
        }
    }

    /// The error for a reservation of `asked` entries when `free` are free.
    fn no_room(&self, verb: &'static str, asked: u32, free: u32) -> Error {
        // (A device may grant less than requested, which breaks the rule. Then the capacity can be
        // less than the reservations.)
        let least = self.capacity.saturating_sub(self.booked);
        let kind = if asked <= least {
            ErrorKind::CqFull { asked, free }
        } else {
            let enough = self.booked.saturating_add(asked);
            ErrorKind::CqTooSmall { asked, free: least, enough }
        };
        Error::new(verb, kind)
    }

    /// Checks that the completion queue is still polled.
    fn check_is_open(&self, verb: &'static str) -> Result<(), Error> {
        if self.is_closed { Err(Error::new(verb, ErrorKind::CqGone)) } else { Ok(()) }
    }

    /// Reserves `asked` entries.
    fn book(&mut self, verb: &'static str, asked: u32) -> Result<(), Error> {
        if !self.budget.take(asked) {
            return Err(self.no_room(verb, asked, self.budget.free()));
        }
        self.booked += asked;
        Ok(())
    }

    /// Releases a reservation. The caller then calls `Budget::wake`, after it has released the
    /// lock.
    fn unbook(&mut self, entries: u32) {
        self.booked -= entries;
        self.budget.give(entries as i32);
    }

    /// Records that the queue pair with these counters is deferred. If another thread has already
    /// destroyed it, it stays in its ended stage.
    fn defer_destroy(
        &mut self,
        deferred: &Arc<DeferredDestroy>,
        counters: &Arc<QueueCounters>,
        stage: Stage,
    ) {
        let a = self.attached.get_mut(&key(counters));
        if let Some(a) = a.filter(|a| a.stage == Stage::Alive) {
            (a.stage, a.deferred) = (stage, Some(deferred.clone()));
        }
    }

    fn insert(&mut self, counters: &Arc<QueueCounters>, entries: [u32; 2], share: Share) {
        if counters.ring_tag() != 0 {
            self.rings.insert(word::of_ring(counters.ring_tag()), counters.clone());
        }
        let number = self.next;
        self.next += 1;
        let (counters, stage) = (counters.clone(), Stage::Alive);
        let attachment = Attachment { counters, number, entries, share, stage, deferred: None };
        let before = self.attached.insert(key(&attachment.counters), attachment);
        debug_assert!(before.is_none(), "a queue is attached once");
    }

    /// The results of `pick` for all attachments that have one, in the order of attachment.
    fn in_order<T>(&mut self, pick: impl Fn(&mut Attachment) -> Option<T>) -> Vec<T> {
        let picked = self.attached.values_mut().filter_map(|a| Some((a.number, pick(a)?)));
        let mut picked: Vec<_> = picked.collect();
        picked.sort_unstable_by_key(|(number, _)| *number);
        picked.into_iter().map(|(_, one)| one).collect()
    }

    fn remove(&mut self, key: usize) -> Option<Attachment> {
        let removed = self.attached.remove(&key)?;
        self.rings.remove(&word::of_ring(removed.counters.ring_tag()));
        Some(removed)
    }
}

fn key(counters: &Arc<QueueCounters>) -> usize {
    Arc::as_ptr(counters).addr()
}

/// The part of a queue that completes through an attachment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    Sends,
    Receives,
    /// All of a queue pair.
    Both,
    /// The receives of a shared receive queue, which may complete on other queues too.
    Shared,
}

impl Share {
    /// Whether the queue's sends, or its receives, complete through the attachment.
    fn has(self, direction: usize) -> bool {
        match self {
            Share::Sends => direction == SEND,
            Share::Receives | Share::Shared => direction == RECEIVE,
            Share::Both => true,
        }
    }
}

/// A queue that completes into this inbox.
struct Attachment {
    counters: Arc<QueueCounters>,
    number: u64,
    /// The entries reserved for sends, and for receives.
    entries: [u32; 2],
    share: Share,
    stage: Stage,
    /// A queue pair that was dropped but is not destroyed yet.
    deferred: Option<Arc<DeferredDestroy>>,
}

impl Attachment {
    fn booked(&self) -> u32 {
        self.entries[0] + self.entries[1]
    }

    /// Declares that no more completions of a direction can arrive.
    fn end_claims(&self, direction: usize) {
        if self.share.has(direction) {
            self.counters.claims(direction).inspect(|claims| claims.end());
        }
    }
}

/// The stages of a queue's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alive,
    /// A deferred queue pair, which the poller of another completion queue destroys.
    Deferred,
    /// The queue ended, or is a deferred queue pair that this poller destroys. The poller has not
    /// noticed yet.
    Ended,
    /// The poller noticed when it had polled this many completions.
    Known(u64),
    /// The queue's reservation is released. The poller may hold stale completions of the queue's
    /// ring, so the tag of the ring cannot be reused yet.
    Over,
}

/// The outstanding work of a queue when it ends.
#[derive(Clone, Copy)]
pub(crate) struct AtEnd {
    /// The number of sends and of receives; not 0 if unknown.
    pub left: [u32; 2],
    /// Whether completions of a ring that release nothing may remain.
    pub may_be_stale: bool,
}

impl AtEnd {
    /// A queue whose counts are unknown.
    pub const UNKNOWN: AtEnd = AtEnd { left: [u32::MAX; 2], may_be_stale: true };

    /// The number of outstanding sends and receives of this share.
    fn left_of(&self, share: Share) -> [u32; 2] {
        [SEND, RECEIVE].map(|direction| if share.has(direction) { self.left[direction] } else { 0 })
    }
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub fn capacity(&self) -> u32 {
        self.state().capacity
    }

    pub fn unbooked(&self) -> u32 {
        self.budget.free()
    }

    /// Changes the capacity to a value that is not below the reservations. `change` calls the
    /// device and returns the granted capacity. No queue can attach in the meantime.
    pub fn resize(
        &self,
        asked: u32,
        change: impl FnOnce() -> Result<u32, Error>,
    ) -> Result<(), Error> {
        let mut state = self.state();
        // The entries to remove are taken first, so that no queue can reserve them during the call.
        let less = state.capacity.saturating_sub(asked);
        if !self.budget.take(less) {
            let booked = state.capacity - self.budget.free();
            return Err(Error::new("ibv_resize_cq", ErrorKind::Booked { asked, booked }));
        }
        let changed = change();
        let now = *changed.as_ref().unwrap_or(&state.capacity);
        self.budget.give(now.wrapping_sub(state.capacity - less) as i32);
        let granted = changed?;
        state.capacity = granted;
        state.largest = state.largest.max(granted);
        drop(state);
        self.budget.wake();
        Error::at_most("ibv_resize_cq", "cqe", asked, granted)
    }

    /// Reserves entries for the sends and for the receives of a queue. A shared receive queue
    /// reserves once, regardless of how many queue pairs deliver its completions here.
    pub fn attach(
        &self,
        verb: &'static str,
        counters: &Arc<QueueCounters>,
        entries: [u32; 2],
        share: Share,
    ) -> Result<(), Error> {
        let mut state = self.state();
        state.check_is_open(verb)?;
        if share == Share::Shared && state.attached.contains_key(&key(counters)) {
            return Ok(());
        }
        let has_claims = self.is_shared() && share != Share::Shared && !counters.is_of_srq();
        let entries = if has_claims {
            for direction in [SEND, RECEIVE].into_iter().filter(|&direction| share.has(direction)) {
                counters.share(direction, &self.budget);
            }
            [0; 2]
        } else {
            entries
        };
        state.book(verb, entries[0].saturating_add(entries[1]))?;
        counters.attached();
        state.insert(counters, entries, share);
        Ok(())
    }

    /// Checks the room for `sends` and for a shared receive queue that completes here too, so that
    /// the error reports the sum. The shared queue may have reserved its `receives` already.
    #[cold]
    pub fn check_room_for_both(
        &self,
        verb: &'static str,
        sends: u32,
        shared: &Arc<QueueCounters>,
        receives: u32,
    ) -> Result<(), Error> {
        let state = self.state();
        state.check_is_open(verb)?;
        let is_booked = state.attached.contains_key(&key(shared));
        let sends = if self.is_shared() { 0 } else { sends };
        let asked = sends.saturating_add(if is_booked { 0 } else { receives });
        let free = self.budget.free();
        if asked <= free { Ok(()) } else { Err(state.no_room(verb, asked, free)) }
    }

    /// Removes the attachment of a queue that could not be created.
    pub fn detach(&self, counters: &Arc<QueueCounters>) {
        let mut state = self.state();
        if let Some(a) = state.remove(key(counters)) {
            state.unbook(a.booked());
            let is_last = counters.end_one();
            debug_assert!(!is_last, "the queue that was to be has its own part");
        }
        drop(state);
        self.budget.wake();
    }

    /// Replaces the counters of a queue that was reset. The reservation moves to the new ones,
    /// while completions counted by the old ones may still arrive.
    pub fn renew(&self, old: &Arc<QueueCounters>, new: &Arc<QueueCounters>) {
        let mut state = self.state();
        if let Some(a) = state.attached.get_mut(&key(old)) {
            new.attached();
            let entries = std::mem::take(&mut a.entries);
            let share = a.share;
            state.insert(new, entries, share);
        }
    }

    /// Ends a queue that completes here, after it was destroyed or reset. A share with nothing
    /// outstanding is over at once. The poller is notified of the rest.
    pub fn end(&self, counters: &Arc<QueueCounters>, at_end: AtEnd, quiet: &mut Quiet) {
        let mut state = self.state();
        let State { attached, ending, is_closed, .. } = &mut *state;
        let key = key(counters);
        let Some(a) = attached.get_mut(&key) else { return };
        a.deferred = None;
        let left = if *is_closed { [0; 2] } else { at_end.left_of(a.share) };
        let mut unbooked = 0;
        for direction in [SEND, RECEIVE].into_iter().filter(|&direction| left[direction] == 0) {
            unbooked += std::mem::take(&mut a.entries[direction]);
            a.end_claims(direction);
        }
        let is_over = left == [0; 2];
        let tell = !is_over || !*is_closed && at_end.may_be_stale;
        a.stage = if is_over { Stage::Over } else { Stage::Ended };
        if is_over {
            quiet.end_one(&a.counters);
        }
        if tell {
            ending.push(key);
        } else {
            state.remove(key);
        }
        state.unbook(unbooked);
        drop(state);
        self.budget.wake();
        if tell {
            self.polled_queue.give(Reason::Dead);
        }
    }

    /// Stores a dropped queue pair in ERR until everything in the completion queue has been
    /// returned. Returns false if the queue returns no more completions.
    pub fn defer_destroy(
        &self,
        deferred: &Arc<DeferredDestroy>,
        counters: &Arc<QueueCounters>,
    ) -> bool {
        let mut state = self.state();
        if state.is_closed {
            return false;
        }
        state.defer_destroy(deferred, counters, Stage::Ended);
        state.ending.push(key(counters));
        drop(state);
        self.polled_queue.give(Reason::Dead);
        true
    }

    /// Records a deferred queue pair of which only the sends complete here. This poller does not
    /// destroy it.
    pub fn knows_deferred(&self, deferred: &Arc<DeferredDestroy>, counters: &Arc<QueueCounters>) {
        self.state().defer_destroy(deferred, counters, Stage::Deferred);
    }

    /// Takes the deferred queue pairs that complete here.
    pub(crate) fn take_deferred(&self) -> Vec<Arc<DeferredDestroy>> {
        let take = |a: &mut Attachment| {
            let deferred = a.deferred.take()?;
            a.stage = Stage::Deferred;
            Some(deferred)
        };
        self.state().in_order(take)
    }

    /// Whether a queue pair that is neither dropped nor destroyed completes here.
    pub(crate) fn has_queues(&self) -> bool {
        let is_one = |a: &Attachment| a.share != Share::Shared && a.stage == Stage::Alive;
        self.state().attached.values().any(is_one)
    }

    /// Notices the queues that ended. `passed` is the poller's count of completions.
    pub(crate) fn note_ended(&self, passed: u64) {
        if !self.polled_queue.take(Reason::Dead) {
            return;
        }
        let State { attached, ending, .. } = &mut *self.state();
        for key in ending {
            if let Some(a) = attached.get_mut(key).filter(|a| a.stage == Stage::Ended) {
                a.stage = Stage::Known(passed);
            }
        }
    }

    /// Releases the reservations of queues that are over. The batch is empty, and no completion is
    /// held. Returns whether some queues ended and are not over yet, and the deferred queue pairs
    /// to destroy now.
    pub(crate) fn finish_ended(
        &self,
        poller: &Poller,
        over: &mut Over,
    ) -> (bool, Vec<Arc<DeferredDestroy>>) {
        let mut state = self.state();
        let (mut watches, mut to_destroy) = (false, Vec::new());
        let mut ending = std::mem::take(&mut state.ending);
        ending.retain(|&key| {
            let largest = state.largest;
            let Some(a) = state.attached.get_mut(&key) else { return false };
            match a.stage {
                Stage::Alive | Stage::Deferred => return false,
                Stage::Ended => return true,
                Stage::Known(then) if !poller.is_over(then, largest) => {
                    watches = true;
                    return true;
                }
                Stage::Known(_) => {
                    if let Some(deferred) = a.deferred.take() {
                        to_destroy.push(deferred);
                        a.stage = Stage::Deferred;
                        return false;
                    }
                    over.quiet.end_one(&a.counters);
                    a.end_claims(SEND);
                    a.end_claims(RECEIVE);
                    let booked = a.booked();
                    state.unbook(booked);
                }
                Stage::Over => {}
            }
            state.remove(key);
            false
        });
        state.ending = ending;
        drop(state);
        self.budget.wake();
        (watches, to_destroy)
    }

    /// Marks the inbox as closed: no more completions are returned, and none is held. So all queues
    /// that end, now or later, are over at once.
    pub(crate) fn close(&self, over: &mut Over) {
        self.state().is_closed = true;
        self.budget.close(self.is_shared());
        // From here on, no queue pair is deferred.
        for deferred in self.take_deferred() {
            deferred.end(over);
        }
        self.close_for(over, |stage| !matches!(stage, Stage::Alive | Stage::Deferred));
    }

    /// Ends all attachments, after `close`, when no queue pair completes here any more.
    pub(crate) fn close_for_all(&self, over: &mut Over) {
        self.close_for(over, |_| true);
    }

    fn close_for(&self, over: &mut Over, is_over: impl Fn(Stage) -> bool) {
        let mut state = self.state();
        for key in state.in_order(|a| is_over(a.stage).then(|| key(&a.counters))) {
            let Some(a) = state.remove(key) else { continue };
            if a.stage != Stage::Over {
                // (Claimed entries are not returned: nothing takes entries of a closed budget.)
                state.unbook(a.booked());
                over.quiet.end_one(&a.counters);
            }
        }
    }

    /// Counts a polled completion of a ring. Returns the number of entries to return to the budget.
    pub(super) fn count_polled_of_ring(&self, wr_id: u64) -> u32 {
        let state = self.state();
        let claims = state.rings.get(&(wr_id as u32)).and_then(|counters| counters.claims(SEND));
        claims.map_or(0, |claims| claims.count_polled_up_to((wr_id >> 32) as u32))
    }

    /// The counters and the number of a work request of a ring. (If no queue has the tag, the queue
    /// pair is gone.)
    pub(crate) fn name_in_ring(&self, wr_id: u64) -> Option<(Arc<QueueCounters>, u64)> {
        let counters = self.state().rings.get(&(wr_id as u32))?.clone();
        let number = counters.number_of((wr_id >> 32) as u32);
        Some((counters, number))
    }

    /// Records for the queue pair that a completion of its ring was dropped.
    pub(crate) fn note_dropped(&self, wr_id: u64) {
        if let Some((counters, number)) = self.name_in_ring(wr_id) {
            counters.note_dropped(number);
        }
    }
}

#[cfg(all(test, feature = "loopback"))]
mod counts_for_tests {
    use super::*;

    impl Inbox {
        /// The number of recorded deferred queue pairs that this poller does not destroy.
        pub fn known_elsewhere(&self) -> usize {
            let is_known = |a: &&Attachment| a.stage == Stage::Deferred && a.deferred.is_some();
            self.state().attached.values().filter(is_known).count()
        }

        /// The number of recorded keys of queues that are ending.
        pub fn endings(&self) -> usize {
            self.state().ending.len()
        }

        /// The number of attached queues.
        pub fn attachments(&self) -> usize {
            self.state().attached.len()
        }
    }
}
