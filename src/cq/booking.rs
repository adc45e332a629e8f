//! Who may complete into a completion queue, and how much of it each has booked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::buf::{count_stranded, reclaim_everything};
use crate::error::{Error, ErrorKind};
use crate::in_flight::{Books, Quiet};
use crate::sys::handle;

/// The part of a completion queue that its queue pairs share.
pub(crate) struct CqShared {
    handle: Arc<handle::Cq>,
    capacity: u32,
    state: Mutex<State>,
    /// Whether some attached queue is gone; looked at when a poll finds nothing. Apart, so that a shared receive
    /// queue can know it without knowing the queue.
    any_dead: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    booked: u32,
    attached: Vec<Attachment>,
}

/// A queue that completes here.
struct Attachment {
    books: Arc<Books>,
    entries: u32,
    settled: bool,
}

impl CqShared {
    pub fn new(handle: Arc<handle::Cq>, capacity: u32) -> Self {
        let state = Mutex::new(State::default());
        CqShared { handle, capacity, state, any_dead: Arc::default() }
    }

    pub fn handle(&self) -> &Arc<handle::Cq> {
        &self.handle
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

    /// Books `entries` for a queue. A shared receive queue books once, however many queue pairs bring
    /// its completions here: `once` finds an earlier attachment of the same books enough.
    pub fn attach(&self, books: &Arc<Books>, entries: u32, once: bool) -> Result<(), Error> {
        let mut state = self.state();
        if once && state.attached.iter().any(|a| Arc::ptr_eq(&a.books, books)) {
            return Ok(());
        }
        let free = self.capacity - state.booked;
        if entries > free {
            let kind = ErrorKind::CqTooSmall { asked: entries, free };
            return Err(Error::new("ibv_create_qp", kind));
        }
        state.booked += entries;
        books.attached();
        state.attached.push(Attachment { books: books.clone(), entries, settled: false });
        Ok(())
    }

    /// Takes an attachment back whose queue never came to be.
    pub fn detach(&self, books: &Arc<Books>) {
        let mut state = self.state();
        if let Some(at) = state.attached.iter().rposition(|a| Arc::ptr_eq(&a.books, books)) {
            let attachment = state.attached.swap_remove(at);
            state.booked -= attachment.entries;
            books.settle();
        }
    }

    /// Replaces the books of a queue that was reset: the booking goes on under the new ones, while
    /// the completions of the old may still come.
    pub fn renew(&self, old: &Arc<Books>, new: &Arc<Books>) {
        let mut state = self.state();
        let moved: Vec<_> = state
            .attached
            .iter_mut()
            .filter(|a| Arc::ptr_eq(&a.books, old))
            .map(|a| {
                new.attached();
                let entries = std::mem::take(&mut a.entries);
                Attachment { books: new.clone(), entries, settled: false }
            })
            .collect();
        state.attached.extend(moved);
    }

    /// What to set when a queue is gone that completes here.
    pub fn notice(&self) -> &Arc<AtomicBool> {
        &self.any_dead
    }

    /// Some attached queue is gone.
    pub fn notice_dead(&self) {
        self.any_dead.store(true, Ordering::Release);
    }

    #[inline(always)]
    pub fn any_dead(&self) -> bool {
        self.any_dead.load(Ordering::Acquire)
    }

    /// The queues that are gone as of now. If a poll after this finds nothing, `settle` them.
    pub fn dead(&self) -> Vec<Arc<Books>> {
        self.any_dead.store(false, Ordering::Release);
        let state = self.state();
        let dead = state.attached.iter().filter(|a| !a.settled && a.books.is_dead());
        dead.map(|a| a.books.clone()).collect()
    }

    /// The queue was polled empty after these were gone: their bookings end.
    pub fn settle(&self, dead: &[Arc<Books>]) {
        let mut state = self.state();
        let mut freed = 0;
        for a in &mut state.attached {
            if !a.settled && dead.iter().any(|d| Arc::ptr_eq(d, &a.books)) {
                a.settled = true;
                a.books.settle();
                freed += std::mem::take(&mut a.entries);
            }
        }
        state.booked -= freed;
        self.forget_finished(&mut state);
    }

    /// Books with nothing outstanding are of no use any more.
    fn forget_finished(&self, state: &mut State) {
        let over = |a: &Attachment| a.settled && a.books.is_quiet();
        let left = state.attached.iter().filter(|a| over(a) && a.books.outstanding_at_end() != 0);
        let uncounted: Vec<&Books> =
            left.map(|a| &*a.books).filter(|books| !books.is_counted()).collect();
        count_stranded(&uncounted);
        state.attached.retain(|a| !(over(a) && a.books.outstanding_at_end() == 0));
    }

    /// How many queues it keeps the books of.
    #[cfg(all(test, feature = "loopback"))]
    pub fn attachments(&self) -> usize {
        self.state().attached.len()
    }

    /// The queues whose completions can no longer come.
    pub fn quiet(&self) -> Quiet {
        let mut state = self.state();
        self.forget_finished(&mut state);
        let quiet = state.attached.iter().filter(|a| a.books.is_quiet());
        Quiet(quiet.map(|a| a.books.clone()).collect())
    }

    /// The handle, if no queue pair uses it.
    pub fn handle_mut(&mut self) -> Option<&mut handle::Cq> {
        Arc::get_mut(&mut self.handle)
    }
}

impl Drop for CqShared {
    /// Nobody can poll any more, and the queue pairs that completed here are destroyed, since each holds on to
    /// this: no completion can come, and what is stranded with it has nobody else to ask for it.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut quiet = Vec::new();
        for Attachment { books, settled, .. } in state.attached.drain(..) {
            if !settled {
                books.settle();
            }
            if books.is_quiet() && books.outstanding_at_end() != 0 {
                quiet.push(books);
            }
        }
        reclaim_everything(&Quiet(quiet));
    }
}
