//! The free entries of a completion queue, and the entries that a queue claims as it posts.
//!
//! A completion queue has one [`Budget`]. Queues that reserve their depth take it from there when
//! they attach. The queues of a completion queue with a shared budget take an entry for each work
//! request, and the poller returns it when the device's completion was polled. Both change one
//! number, so the number of possible completions never exceeds the capacity, and a rejection costs
//! the same for any number of queues.

// Model: sys/src/counters/loom_tests/budget.rs

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock};

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Free,
    /// The completion queue is not polled any more.
    Gone,
}

/// Subtracted from the free entries on closing: more than any completion queue has.
const CLOSED: i32 = i32::MIN / 2;

pub struct Budget {
    /// The free entries, as an `i32`. The number can be negative if a device provides fewer entries
    /// than it must, and after `close`.
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

    /// The number of free entries.
    pub fn free(&self) -> u32 {
        (self.free.load(Ordering::Acquire) as i32).max(0) as u32
    }

    /// Takes `n` entries, if that many are free.
    #[must_use = "they are taken"]
    #[allow(deprecated)] // `try_update`, as Rust 1.99 calls it, is not in 1.85
    pub fn take(&self, n: u32) -> bool {
        let less =
            |free: u32| (i64::from(free as i32) >= i64::from(n)).then(|| free.wrapping_sub(n));
        n == 0 || self.free.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }

    /// Returns `n` entries. `n` is negative if a device provides fewer entries than requested. The
    /// caller must call `wake` afterwards, when it holds no lock.
    pub fn give(&self, n: i32) {
        // Acquires: `poll_room` checks again with a read-modify-write, so either `poll_room` finds
        // these entries, or `wake` finds the waker.
        self.free.fetch_add(n as u32, Ordering::AcqRel);
    }

    /// Records that the completion queue is not polled any more. If it `is_shared`, no entries can
    /// be taken from now on, because completions of ended queues may still be in the completion
    /// queue.
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
        // Wakers are code of the program. A poll that calls this must not unwind.
        for waker in all {
            let wake = std::panic::AssertUnwindSafe(|| waker.wake());
            if let Err(panic) = std::panic::catch_unwind(wake) {
                std::mem::forget(panic);
            }
        }
    }

    /// Whether `n` entries are free. If not, the task is woken when entries become free.
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
        // With a read-modify-write: `give` explains why.
        look(self.free.fetch_add(0, Ordering::AcqRel))
    }
}

/// The entries of a shared budget that one direction of a queue has claimed.
pub struct Claims {
    // Invariants:
    // - `claimed - polled`, wrapping, entries of the budget belong to this direction: one for each
    //   work request whose completion was not polled, and more while a ring posts. One more belongs
    //   to it if `kept` is not 0.
    // - Only the queue's owner writes `claimed`. Only the poller writes `polled`, or the code that
    //   ends the queue after the last possible completion.
    // - `kept` is `KEPT` and the number of work requests that the ring had claimed entries for, or
    //   0. Only the owner sets it. The thread that sets it to 0 takes the entry.
    budget: Arc<Budget>,
    claimed: AtomicU32,
    polled: AtomicU32,
    kept: AtomicU64,
}

/// A ring keeps an entry.
const KEPT: u64 = 1 << 32;

impl Claims {
    pub fn new(budget: &Arc<Budget>) -> Self {
        let (claimed, polled) = (AtomicU32::new(0), AtomicU32::new(0));
        Claims { budget: budget.clone(), claimed, polled, kept: AtomicU64::new(0) }
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The total number of claimed entries, wrapping.
    pub fn claimed(&self) -> u32 {
        self.claimed.load(Ordering::Acquire)
    }

    fn polled(&self) -> u32 {
        self.polled.load(Ordering::Acquire)
    }

    /// Claims `n` entries, if that many are free.
    #[must_use = "they are claimed"]
    pub fn claim(&self, n: u32) -> bool {
        let fits = self.budget.take(n);
        if fits {
            self.claimed.store(self.claimed().wrapping_add(n), Ordering::Release);
        }
        fits
    }

    /// Returns `n` entries that no completion will need.
    pub fn give_back(&self, n: u32) {
        self.claimed.store(self.claimed().wrapping_sub(n), Ordering::Release);
        self.budget.give(n as i32);
        self.budget.wake();
    }

    /// Whether an entry is kept.
    pub fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed) != 0
    }

    /// Claims the kept entry, if there is one.
    pub fn claim_kept(&self) {
        if self.kept.swap(0, Ordering::AcqRel) != 0 {
            self.claimed.store(self.claimed().wrapping_add(1), Ordering::Release);
        }
    }

    /// Returns the entries that a ring claimed beyond its first `posted` work requests. One of them
    /// is kept until the completions of all these work requests were polled.
    pub fn keep_one(&self, posted: u32) {
        self.claim_kept();
        let more = self.claimed().wrapping_sub(posted);
        if more != 0 {
            self.claimed.store(posted, Ordering::Release);
            self.kept.swap(KEPT | u64::from(posted), Ordering::AcqRel);
            self.budget.give((more - 1 + self.take_idle()) as i32);
            self.budget.wake();
        }
    }

    /// Takes the kept entry if all completions were polled. Returns the number of entries.
    ///
    /// The poller calls it after it changes `polled`, and the owner after it changes `kept`. Both
    /// access `kept` with a read-modify-write in any case. So the second of them sees the changes
    /// of both.
    #[allow(deprecated)] // as above
    fn take_idle(&self) -> u32 {
        let idle = KEPT | u64::from(self.polled());
        let take = |kept: u64| Some(if kept == idle { 0 } else { kept });
        let before = self.kept.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take);
        (before == Ok(idle)) as u32
    }

    /// Records that a completion was polled. Returns the number of entries to return to the budget.
    pub fn count_polled(&self) -> u32 {
        let polled = self.polled();
        self.see(polled.wrapping_add(1))
    }

    /// Records that a ring's completion with this sequence number was polled, which also completes
    /// all earlier requests. Returns the number of entries to return to the budget.
    pub fn count_polled_up_to(&self, sequence: u32) -> u32 {
        self.see(sequence.wrapping_add(1)) + self.take_idle()
    }

    /// Records that no completion can arrive any more.
    pub fn end(&self) {
        self.claim_kept();
        self.budget.give(self.see(self.claimed()) as i32);
    }

    /// Sets the number of polled completions. (A stale completion, or a wrong one from the device,
    /// returns nothing.)
    fn see(&self, polled: u32) -> u32 {
        let before = self.polled();
        let more = polled.wrapping_sub(before);
        if more > self.claimed().wrapping_sub(before) {
            return 0;
        }
        self.polled.store(polled, Ordering::Release);
        more
    }

    /// Test only: sets the numbers of claimed and polled entries.
    #[cfg(any(test, feature = "testing"))]
    pub fn begin_at(&self, count: u32) {
        self.claimed.store(count, Ordering::Relaxed);
        self.polled.store(count, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A task that waits for entries of a budget.
    struct Task(Arc<Wakes>);

    impl Task {
        fn new() -> Task {
            Task(Arc::default())
        }

        fn poll(&self, budget: &Budget, n: u32) -> Poll<Room> {
            budget.poll_room(&mut Context::from_waker(&self.0.clone().into()), n)
        }

        /// The number of wakes since the last call.
        fn woken(&self) -> usize {
            self.0.0.swap(0, Ordering::Relaxed)
        }
    }

    /// The number of free entries may be negative. Nothing can be taken then, except nothing.
    #[test]
    fn entries_that_are_free() {
        let budget = Budget::new(5);
        assert!(!budget.take(6) && budget.take(0) && budget.take(3) && !budget.take(3));
        assert_eq!(budget.free(), 2);
        budget.give(-4);
        assert_eq!(budget.free(), 0);
        assert!(!budget.take(1) && budget.take(0));
        budget.give(3);
        assert_eq!(budget.free(), 1);
        assert!(!budget.take(u32::MAX) && budget.take(1));
    }

    /// Each task that waits is woken once, by `wake` after the entries are free.
    #[test]
    fn tasks_are_woken_once() {
        let (budget, [one, two]) = (Budget::new(2), [Task::new(), Task::new()]);
        assert_eq!(one.poll(&budget, 2), Poll::Ready(Room::Free));
        assert!(one.poll(&budget, 3).is_pending() && one.poll(&budget, 3).is_pending());
        assert!(two.poll(&budget, 4).is_pending());
        budget.give(1);
        assert_eq!((one.woken(), two.woken()), (0, 0));
        budget.wake();
        budget.wake();
        assert_eq!((one.woken(), two.woken()), (1, 1));
        assert_eq!(one.poll(&budget, 3), Poll::Ready(Room::Free));
        assert!(two.poll(&budget, 4).is_pending());
        budget.close(true);
        assert_eq!((one.woken(), two.woken()), (0, 1));
        assert_eq!(two.poll(&budget, 1), Poll::Ready(Room::Gone));
        assert!(!budget.take(1) && budget.take(0));
        budget.give(3);
        budget.close(false);
        assert_eq!(budget.free(), 0, "it is closed once");
    }

    /// A waker that panics does not keep others from being woken.
    #[test]
    fn a_waker_that_panics() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                std::panic::resume_unwind(Box::new("a waker"));
            }
        }
        let (budget, task) = (Budget::new(0), Task::new());
        let panics = Arc::new(Panics).into();
        assert!(budget.poll_room(&mut Context::from_waker(&panics), 1).is_pending());
        assert!(task.poll(&budget, 1).is_pending());
        budget.wake();
        assert_eq!(task.woken(), 1);
    }

    /// Claimed entries return as completions are polled, in order or several at once. A completion
    /// with another number returns nothing.
    #[test]
    fn claims_return_to_the_budget() {
        let budget = Arc::new(Budget::new(10));
        for begin in [0, u32::MAX - 2] {
            let claims = Claims::new(&budget);
            claims.begin_at(begin);
            assert!(claims.claim(6) && !claims.claim(5));
            assert_eq!((claims.claimed(), budget.free()), (begin.wrapping_add(6), 4));
            assert_eq!((claims.count_polled(), claims.count_polled()), (1, 1));
            for stale in [begin, begin.wrapping_sub(1), begin.wrapping_add(6)] {
                assert_eq!(claims.count_polled_up_to(stale), 0, "{stale}");
            }
            assert_eq!(claims.count_polled_up_to(begin.wrapping_add(4)), 3);
            claims.give_back(1);
            assert_eq!((claims.count_polled(), budget.free()), (0, 5));
            budget.give(5);
            assert!(claims.claim(4));
            claims.end();
            claims.end();
            assert_eq!((claims.claimed(), budget.free()), (begin.wrapping_add(9), 10));
        }
    }

    /// A ring keeps one entry while completions of its work requests are outstanding, and wakes the
    /// tasks that wait for those that it returns.
    #[test]
    fn a_ring_keeps_an_entry() {
        let (budget, task) = (Arc::new(Budget::new(6)), Task::new());
        let claims = Claims::new(&budget);
        claims.keep_one(0);
        assert!(!claims.is_kept() && budget.free() == 6);
        assert!(claims.claim(5) && task.poll(&budget, 3).is_pending());
        claims.keep_one(2);
        assert_eq!((claims.claimed(), claims.is_kept(), budget.free()), (2, true, 3));
        assert_eq!(task.woken(), 1);
        claims.claim_kept();
        assert_eq!((claims.claimed(), claims.is_kept(), budget.free()), (3, false, 3));
        claims.claim_kept();
        assert_eq!(claims.claimed(), 3);
        claims.keep_one(2);
        assert_eq!(claims.count_polled_up_to(0), 1);
        assert!(claims.is_kept());
        // The last completion returns the kept entry, too.
        assert_eq!(claims.count_polled_up_to(1), 2);
        assert!(!claims.is_kept());
        budget.give(3);
        assert_eq!(budget.free(), 6);
        // Nothing is outstanding, so nothing is kept.
        assert!(claims.claim(2));
        claims.keep_one(2);
        assert_eq!((claims.is_kept(), budget.free()), (false, 6));
        // The end returns the kept entry.
        assert!(claims.claim(3));
        claims.keep_one(4);
        assert_eq!((claims.is_kept(), budget.free()), (true, 3));
        claims.end();
        assert_eq!((claims.is_kept(), budget.free()), (false, 6));
    }
}
