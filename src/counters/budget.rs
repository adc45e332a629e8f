//! The entries of a completion queue, and what a queue takes of them as it posts.
//!
//! A completion queue has one [`Budget`]. Queues that reserve their depth take it from there when
//! they attach. The queues of a completion queue with a shared budget take an entry with each work
//! request, and the poller gives it back when the device's completion was polled. Both change one
//! number, so what may complete never exceeds the capacity, and a refusal costs the same however
//! many queues there are.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering, lock};

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Free,
    /// Nobody polls the completion queue any more.
    Gone,
}

/// More entries than any completion queue has, taken away.
const CLOSED: i32 = i32::MIN / 2;

pub struct Budget {
    /// Entries that are free, as an `i32`: a device that grants less than it must can make them
    /// fewer than none, and so does `close`.
    free: AtomicU32,
    is_closed: AtomicBool,
    is_awaited: AtomicBool,
    /// Tasks to wake when entries become free.
    wakers: Mutex<Vec<Waker>>,
}

impl Budget {
    pub fn new(capacity: u32) -> Self {
        Budget {
            free: AtomicU32::new(capacity),
            is_closed: AtomicBool::new(false),
            is_awaited: AtomicBool::new(false),
            wakers: Mutex::new(Vec::new()),
        }
    }

    /// The number of entries that are free.
    pub fn free(&self) -> u32 {
        (self.free.load(Ordering::Acquire) as i32).max(0) as u32
    }

    /// Takes `n` entries, if as many are free.
    #[must_use = "they are taken"]
    #[allow(deprecated)] // `try_update`, as Rust 1.99 calls it, is not in 1.85
    pub fn take(&self, n: u32) -> bool {
        let less =
            |free: u32| (i64::from(free as i32) >= i64::from(n)).then(|| free.wrapping_sub(n));
        n == 0 || self.free.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }

    /// Gives `n` entries back; fewer than none, if a device granted less than was asked for.
    /// `wake` must follow, once the caller holds no lock.
    pub fn give(&self, n: i32) {
        // Acquires: `poll_room` looks again by a read-modify-write, so either that one finds these
        // entries, or `wake` finds the waker.
        self.free.fetch_add(n as u32, Ordering::AcqRel);
    }

    /// Nobody polls the completion queue any more. If it `is_shared`, nothing is taken from here
    /// on: what ended queues give back may still be in the completion queue.
    pub fn close(&self, is_shared: bool) {
        if !self.is_closed.swap(true, Ordering::AcqRel) {
            self.give(if is_shared { CLOSED } else { 0 });
            self.wake();
        }
    }

    /// Wakes the tasks that wait, after `give`.
    pub fn wake(&self) {
        if !self.is_awaited.load(Ordering::Relaxed) {
            return;
        }
        let mut wakers = lock(&self.wakers);
        self.is_awaited.store(false, Ordering::Relaxed);
        let all = std::mem::take(&mut *wakers);
        drop(wakers);
        // Wakers are the program's code. A poll that calls this does not unwind.
        for waker in all {
            let wake = std::panic::AssertUnwindSafe(|| waker.wake());
            if let Err(panic) = std::panic::catch_unwind(wake) {
                std::mem::forget(panic);
            }
        }
    }

    /// Whether `n` entries are free. If not, the task is woken when some are.
    #[allow(deprecated)] // as above
    pub fn poll_room(&self, context: &mut Context<'_>, n: u32) -> Poll<Room> {
        let look = |free: u32| {
            if self.is_closed.load(Ordering::Acquire) {
                Poll::Ready(Room::Gone)
            } else if i64::from(free as i32) >= i64::from(n) {
                Poll::Ready(Room::Free)
            } else {
                Poll::Pending
            }
        };
        let first = look(self.free.load(Ordering::Acquire));
        if first.is_ready() {
            return first;
        }
        let mut wakers = lock(&self.wakers);
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        self.is_awaited.store(true, Ordering::Relaxed);
        drop(wakers);
        // By a read-modify-write: `give` says why.
        look(self.free.fetch_add(0, Ordering::AcqRel))
    }
}

/// What a direction of a queue has taken of a shared budget.
pub struct Claims {
    // Invariants:
    // - `claimed - polled`, wrapping, entries of the budget are this direction's: those of the work
    //   requests whose completions were not polled, and for a ring perhaps one more.
    // - The queue's owner alone writes `claimed`. The poller alone writes `polled`, or whoever ends
    //   the queue, once no completion can come.
    budget: Arc<Budget>,
    claimed: AtomicU32,
    polled: AtomicU32,
}

impl Claims {
    pub fn new(budget: &Arc<Budget>) -> Self {
        let (claimed, polled) = (AtomicU32::new(0), AtomicU32::new(0));
        Claims { budget: budget.clone(), claimed, polled }
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// How many were ever claimed, wrapping.
    pub fn claimed(&self) -> u32 {
        self.claimed.load(Ordering::Acquire)
    }

    fn polled(&self) -> u32 {
        self.polled.load(Ordering::Acquire)
    }

    /// Claims `n` entries, if as many are free.
    #[must_use = "they are claimed"]
    pub fn claim(&self, n: u32) -> bool {
        let fits = self.budget.take(n);
        if fits {
            self.claimed.store(self.claimed().wrapping_add(n), Ordering::Release);
        }
        fits
    }

    /// Gives back `n` entries that no completion will need.
    pub fn give_back(&self, n: u32) {
        self.claimed.store(self.claimed().wrapping_sub(n), Ordering::Release);
        self.budget.give(n as i32);
        self.budget.wake();
    }

    /// A completion was polled. Returns how many entries are to be given to the budget.
    pub fn count_polled(&self) -> u32 {
        let polled = self.polled();
        self.see(polled.wrapping_add(1))
    }

    /// The completion of a ring with this sequence number was polled, which speaks for all before.
    /// Returns how many entries are to be given to the budget.
    pub fn count_polled_up_to(&self, sequence: u32) -> u32 {
        self.see(sequence.wrapping_add(1))
    }

    /// No completion can come any more.
    pub fn end(&self) {
        self.budget.give(self.see(self.claimed()) as i32);
    }

    /// As many were polled. (A completion that is stale, or the device's mistake, gives back
    /// nothing.)
    fn see(&self, polled: u32) -> u32 {
        let before = self.polled();
        let more = polled.wrapping_sub(before);
        if more > self.claimed().wrapping_sub(before) {
            return 0;
        }
        self.polled.store(polled, Ordering::Release);
        more
    }

    /// Test only: as if as many had been claimed and polled.
    #[cfg(test)]
    pub fn begin_at(&self, count: u32) {
        self.claimed.store(count, Ordering::Relaxed);
        self.polled.store(count, Ordering::Relaxed);
    }
}
