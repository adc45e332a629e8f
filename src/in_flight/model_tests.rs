//! In-flight tables in random steps, compared with simple models.

use std::collections::VecDeque;
use std::sync::Arc;

use rand_core::RngCore;
use rand_pcg::Pcg32;

use crate::counters::budget::Budget;
use crate::counters::queue_counters::{CompletionCounter, QueueCounters, RECEIVE, SEND};
use crate::in_flight::credits::Credits;
use crate::in_flight::ring::Ring;
use crate::in_flight::uncounted::Uncounted;
use crate::in_flight::*;
use crate::loopback::Fabric;
use crate::memory::header::Word;
use crate::{Buf, Pool};

const DEPTH: u32 = 5;
const BUFFERS: usize = 16;

/// The seeds and the number of steps of each.
fn runs() -> (u64, u32) {
    if cfg!(miri) { (1, 150) } else { (40, 1500) }
}

/// Random numbers from a seed.
struct Dice(Pcg32);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(Pcg32::new(seed, 0))
    }

    fn below(&mut self, n: u32) -> u32 {
        self.0.next_u32() % n
    }
}

/// A work request of the model: the byte in its buffer, or its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Buf(u8),
    Id(u16),
}

/// A ring, and the work requests that it should contain.
struct RingRun {
    pool: Pool,
    ring: Ring<Buf>,
    counters: Arc<QueueCounters>,
    outstanding: VecDeque<Sent>,
    /// The sequence number of the first one.
    first: u32,
    /// The number of work requests that a dropped completion covers, counted from `first`.
    dropped: usize,
    depth: u32,
    posts: u8,
}

impl RingRun {
    /// A ring whose next work request has this sequence number. `stale` entries are withheld.
    fn new(first: u32, stale: u32, old: &Arc<QueueCounters>) -> RingRun {
        let pd = Fabric::new().open_device().alloc_pd().unwrap();
        let pool = pd.create_pool(BUFFERS, 8).unwrap();
        let counters = QueueCounters::new(1).unwrap();
        let mut withheld = StaleCredits::default();
        withheld.add(old, stale, DEPTH);
        let mut ring = Ring::open(&counters, SEND, (DEPTH, Vec::new()), withheld);
        // In steps, because each is a number of work requests that were posted.
        (1..4)
            .map(|quarter| quarter << 30)
            .filter(|&at| at < first)
            .for_each(|at| ring.begin_at(at));
        ring.begin_at(first);
        let (outstanding, depth) = (VecDeque::new(), DEPTH - stale);
        RingRun { pool, ring, counters, outstanding, first, dropped: 0, depth, posts: 0 }
    }

    fn wr_id(&self, i: usize) -> u64 {
        let sequence = self.first.wrapping_add(i as u32);
        u64::from(sequence) << 32 | u64::from(word::of_ring(self.counters.ring_tag()))
    }

    fn free(&self) -> u32 {
        self.depth.saturating_sub(self.outstanding.len() as u32)
    }

    /// Removes the first `n` work requests, and returns the bytes of their buffers.
    fn remove(&mut self, n: usize) -> Vec<u8> {
        self.first = self.first.wrapping_add(n as u32);
        self.dropped = self.dropped.saturating_sub(n);
        let bytes = |sent| if let Sent::Buf(byte) = sent { Some(byte) } else { None };
        self.outstanding.drain(..n).filter_map(bytes).collect()
    }

    /// The ring read what has completed, so what dropped completions covered is back in the pool.
    fn remove_dropped(&mut self) {
        self.remove(self.dropped);
    }

    /// The words of new work requests, with and without buffers.
    fn draw(&mut self, dice: &mut Dice, n: u32) -> Vec<(Sent, Option<usize>)> {
        let one = |_| {
            self.posts = self.posts.wrapping_add(1);
            let id = Sent::Id(self.posts.into());
            let Some(mut buf) = self.pool.take().filter(|_| dice.below(4) != 0) else {
                return (id, None);
            };
            buf.copy_from(&[self.posts]).unwrap();
            (Sent::Buf(self.posts), Some(std::mem::ManuallyDrop::new(buf).word()))
        };
        (0..n).map(one).collect()
    }

    /// Enters a list like a post. If it does not fit, or the device rejects some, these are taken
    /// back.
    fn post(&mut self, dice: &mut Dice) {
        let n = 1 + dice.below(DEPTH + 1);
        let list = self.draw(dice, n);
        let (mut cursor, next) = (self.ring.cursor(), self.outstanding.len());
        for (i, &(sent, word)) in list.iter().enumerate() {
            let id = if let Sent::Id(id) = sent { u64::from(id) << word::ID } else { 0 };
            // SAFETY: the ring has slots for a list behind its last one, and the program gave up
            // the buffer.
            let wr_id = unsafe { self.ring.enter(&mut cursor, i as u32, word, id) };
            assert_eq!(wr_id, self.wr_id(next + i));
        }
        let before = (self.ring.state.room, self.ring.posted(), self.ring.at);
        let is_quick = self.ring.spend(n);
        if !is_quick {
            assert_eq!((self.ring.state.room, self.ring.posted(), self.ring.at), before);
        }
        let fits = is_quick || self.ring.look_and_spend(n);
        if !is_quick {
            self.remove_dropped();
        }
        assert_eq!(fits, n <= self.free(), "{n} of {}", self.free());
        let mut rejected = n;
        if fits {
            self.outstanding.extend(list.iter().map(|(sent, _)| *sent));
            rejected = if dice.below(3) == 0 { 1 + dice.below(n) } else { 0 };
            self.ring.take_back(rejected);
            self.outstanding.truncate(self.outstanding.len() - rejected as usize);
        } else {
            let full = PostErrorKind::QueueFull { asked: n, room: self.free() };
            assert_eq!(self.ring.why_full(n), full);
        }
        for (i, (sent, word)) in (0..).zip(&list[(n - rejected) as usize..]) {
            assert_eq!(self.ring.word(i, 0), word.unwrap_or(0), "{i}");
            if let (Sent::Buf(byte), Some(word)) = (sent, word) {
                // SAFETY: the ring does not own the buffer any more.
                let buf: Buf = unsafe { Buf::from_word(*word) };
                assert_eq!(buf[0], *byte);
            }
        }
    }

    /// Releases the work requests up to a random one, and takes them in one of several ways.
    fn complete(&mut self, dice: &mut Dice) {
        let len = self.outstanding.len();
        for wrong in [len, len + 1, 1 << 31, u32::MAX as usize] {
            assert!(self.ring.release(Until::Completion(self.wr_id(wrong))).is_none(), "{wrong}");
        }
        if len == 0 {
            return;
        }
        let n = 1 + dice.below(len as u32) as usize;
        let wr_id = self.wr_id(n - 1);
        let last = match self.outstanding[n - 1] {
            Sent::Id(id) => id,
            Sent::Buf(_) => 0,
        };
        let has_all = self.outstanding.iter().take(n).all(|sent| matches!(sent, Sent::Buf(_)));
        let bytes = self.remove(n);
        let mut released = self.ring.release(Until::Completion(wr_id)).unwrap();
        assert_eq!(released.id(), last);
        match dice.below(5) {
            0 => assert_eq!(released.map(|buf| buf[0]).collect::<Vec<_>>(), bytes),
            1 => {
                let next = || released.next().map(|buf| buf[0]);
                let one_by_one: Vec<_> = std::iter::from_fn(next).collect();
                assert_eq!((one_by_one, released.id()), (bytes, 0));
                drop(released);
            }
            2 => {
                let first = released.next().map(|buf| buf[0]);
                assert_eq!(first, bytes.first().copied());
                let rest: Vec<_> = released.map(|buf| buf[0]).collect();
                assert_eq!(rest, bytes.get(1..).unwrap_or_default());
            }
            3 => match released.array::<2>() {
                Ok([a, b]) => assert_eq!((has_all, vec![a[0], b[0]]), (true, bytes)),
                Err(released) => {
                    assert!(n != 2 || !has_all);
                    assert_eq!(released.map(|buf| buf[0]).collect::<Vec<_>>(), bytes);
                }
            },
            _ => drop(released),
        };
        assert_eq!(self.counters.completed_of_any(SEND), self.ring.completed());
    }

    /// Records that the program dropped the completion of a random work request.
    fn drop_completion(&mut self, dice: &mut Dice) {
        if !self.outstanding.is_empty() {
            let i = dice.below(self.outstanding.len() as u32);
            let number = self.counters.number_of(self.first.wrapping_add(i));
            self.counters.note_dropped(number);
            self.dropped = self.dropped.max(1 + i as usize);
        }
    }

    /// The last work request of a drain, which is flushed or rejected.
    fn enter_sentinel(&mut self, dice: &mut Dice) {
        let len = self.outstanding.len();
        let expected = (len != 0).then(|| self.wr_id(len));
        assert_eq!(self.ring.enter_sentinel(), expected);
        if let Some(wr_id) = expected {
            assert_eq!(self.ring.posted(), self.first.wrapping_add(len as u32 + 1));
            if dice.below(2) == 0 {
                self.ring.take_back(1);
                return;
            }
            let bytes = self.remove(len);
            self.first = self.first.wrapping_add(1);
            let released = self.ring.release(Until::Completion(wr_id)).unwrap();
            assert_eq!(released.map(|buf| buf[0]).collect::<Vec<_>>(), bytes);
        }
    }

    fn check(&mut self) {
        let buffers = |sent: &&Sent| matches!(sent, Sent::Buf(_));
        let out = self.outstanding.iter().filter(buffers).count();
        assert_eq!(self.pool.available(), BUFFERS - out);
        let len = self.outstanding.len();
        assert_eq!(self.ring.posted(), self.first.wrapping_add(len as u32));
        assert_eq!(self.ring.outstanding(), (len - self.dropped) as u32);
    }
}

/// A ring releases the work requests that were posted, in order, and rejects exactly those that do
/// not fit.
#[test]
fn a_ring_is_a_queue() {
    let (seeds, steps) = runs();
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let stale = dice.below(3);
        let old = QueueCounters::new(1).unwrap();
        let last_slots = (DEPTH + 1 + MOST).next_power_of_two() - 10;
        let begin = [last_slots, u32::MAX - 50, (1 << 31) - 9, 0][seed as usize % 4];
        let mut run = RingRun::new(begin, stale, &old);
        for step in 0..steps {
            println!("seed {seed}, step {step}");
            match dice.below(16) {
                0..6 => run.post(&mut dice),
                6..11 => run.complete(&mut dice),
                11 => run.drop_completion(&mut dice),
                12 => {
                    let n = run.dropped;
                    let released = run.ring.release(Until::Dropped);
                    let released = released.map(|released| released.map(|buf| buf[0]).collect());
                    assert_eq!(released, (n != 0).then(|| run.remove(n)));
                }
                13 => {
                    let n = dice.below(DEPTH + 2);
                    let known = run.ring.state.room;
                    let has_room = run.ring.has_room(n);
                    // (It reads what has completed only if it has to.)
                    if n as i32 > known {
                        run.remove_dropped();
                    }
                    assert_eq!(has_room, n <= run.free());
                }
                14 => {
                    let room = run.ring.room();
                    run.remove_dropped();
                    assert_eq!(room, run.free());
                }
                _ if step > steps / 2 && !old.is_quiet() => {
                    assert!(old.end_one());
                    assert!(run.ring.room() >= run.depth - run.outstanding.len() as u32);
                    run.remove_dropped();
                    run.depth = DEPTH;
                }
                _ => run.enter_sentinel(&mut dice),
            }
            run.check();
        }
        let left = run.ring.release(Until::End).map_or(0, Iterator::count);
        assert_eq!(run.pool.available(), BUFFERS);
        assert!(left <= run.outstanding.len());
    }
}

/// Credits, alone or with claims on a budget: they count what is posted, and reject exactly what
/// does not fit.
#[test]
fn credits_are_a_count() {
    let (seeds, steps) = runs();
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let budget = (seed % 2 == 0).then(|| Arc::new(Budget::new(8)));
        let counters = QueueCounters::without_ring(1).unwrap();
        let begin = [0, u32::MAX - 50][seed as usize / 2 % 2];
        counters.begin_at(begin);
        if let Some(budget) = &budget {
            counters.share(RECEIVE, budget);
            counters.claims(RECEIVE).unwrap().begin_at(begin);
        }
        let (old, stale) = (QueueCounters::new(1).unwrap(), dice.below(DEPTH));
        let mut withheld = StaleCredits::default();
        withheld.add(&old, stale, DEPTH);
        let mut credits: Credits<Buf> =
            Credits::open(&counters, RECEIVE, (DEPTH, Vec::new()), withheld);
        credits.begin_at(begin);
        // The entries of other queues, and the work requests of this one.
        let (mut others, mut posted, mut outstanding, mut depth) = (0, begin, 0, DEPTH - stale);
        let complete = || {
            if let Some(budget) = &budget {
                budget.give(counters.claims(RECEIVE).unwrap().count_polled() as i32);
            }
            // SAFETY: the counters are alive.
            unsafe {
                CompletionCounter::count(QueueCounters::counter(Arc::as_ptr(&counters), RECEIVE));
            }
        };
        for step in 0..steps {
            println!("seed {seed}, step {step}");
            let own = depth - outstanding;
            let free = budget.as_ref().map_or(u32::MAX, |budget| budget.free());
            let n = 1 + dice.below(DEPTH + 1);
            match dice.below(10) {
                0..4 => {
                    let before = credits.state.room;
                    let is_quick = credits.spend(n);
                    assert!(is_quick || credits.state.room >= before, "it found completions");
                    let fits = is_quick || credits.look_and_spend(n);
                    assert_eq!(fits, n <= own && n <= free);
                    assert!(!is_quick || budget.is_none(), "each post claims its entries");
                    if fits {
                        let rejected = if dice.below(3) == 0 { dice.below(n + 1) } else { 0 };
                        credits.take_back(rejected);
                        (posted, outstanding) =
                            (posted.wrapping_add(n - rejected), outstanding + n - rejected);
                    }
                }
                4..7 => {
                    let n = n.min(outstanding);
                    (0..n).for_each(|_| complete());
                    outstanding -= n;
                }
                7 => assert_eq!(credits.has_room(n), n <= own.min(free)),
                8 => {
                    let room = own.min(free);
                    assert_eq!(credits.room(), room);
                    if n > room {
                        let full = match n > own {
                            true => PostErrorKind::QueueFull { asked: n, room },
                            false => PostErrorKind::CqFull { asked: n, room },
                        };
                        assert_eq!(credits.why_full(n), full);
                    }
                }
                _ => match &budget {
                    Some(budget) if others == 0 => others = if budget.take(n) { n } else { 0 },
                    Some(budget) => budget.give(std::mem::take(&mut others) as i32),
                    None if step > steps / 2 && !old.is_quiet() => {
                        assert!(old.end_one());
                        // A post finds the room that returned.
                        let free = DEPTH - outstanding;
                        assert!(free == 0 || credits.spend(free) || credits.look_and_spend(free));
                        credits.take_back(free);
                        depth = DEPTH;
                    }
                    None => {}
                },
            }
            assert_eq!((credits.outstanding(), credits.posted()), (outstanding, posted));
            if let Some(budget) = &budget {
                assert_eq!(budget.free(), 8 - others - outstanding);
            }
        }
        credits.poison();
        assert_eq!((credits.room(), credits.outstanding()), (0, outstanding));
    }
}

/// A completion may free entries after a post was rejected, and before its error is made. The error
/// still reports less room than the post needs.
#[test]
fn a_rejected_post_reports_too_little_room() {
    let budget = Arc::new(Budget::new(8));
    let counters = QueueCounters::without_ring(1).unwrap();
    counters.share(RECEIVE, &budget);
    let mut credits: Credits<Buf> =
        Credits::open(&counters, RECEIVE, (DEPTH, Vec::new()), StaleCredits::default());
    assert_eq!(credits.why_full(2), PostErrorKind::CqFull { asked: 2, room: 1 });
    assert_eq!(credits.why_full(DEPTH + 1), PostErrorKind::QueueFull { asked: 6, room: 5 });
}

/// A shared receive queue has room until it is poisoned, and counts nothing.
#[test]
fn an_uncounted_table_counts_nothing() {
    let counters = QueueCounters::shared(1, 1).unwrap();
    let mut table: Uncounted<Buf> =
        Uncounted::open(&counters, RECEIVE, (DEPTH, Vec::new()), StaleCredits::default());
    for n in [1, DEPTH, DEPTH + 1, i32::MAX as u32] {
        assert!(table.spend(n) && table.look_and_spend(n) && table.has_room(n));
        table.take_back(n);
        assert_eq!((table.posted(), table.completed(), table.outstanding()), (0, 0, 0));
        assert!(table.release(Until::End).is_none() && table.enter_sentinel().is_none());
    }
    assert_eq!((table.room(), table.is_poisoned()), (i32::MAX as u32, false));
    table.poison();
    assert_eq!((table.room(), table.is_poisoned()), (0, true));
    assert!(!table.look_and_spend(1));
}
