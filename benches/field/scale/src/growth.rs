//! Instructions of a post, and of a poll with its completion, by how many queue pairs share the
//! queue.

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use field::{Form, Stub};
use proverbs::memory::ToWrite;
use proverbs::prelude::*;

use crate::ground::{Chosen, Ground, LEN, remote};

const PAIRS: [u32; 5] = [1, 10, 100, 1000, 10_000];
const DEPTH: Depth = Depth { send: 16, recv: 16 };
/// As many as a multiple of the depth, so that refills of credits come equally often.
const CALLS: usize = 64;
/// Rounds on each queue pair before those that are counted.
const WARM: usize = 2;

/// What is counted: its name, the form, and whether buffers stay with their queue pair. One that
/// comes from another has its protection domain compared, out of line.
const WORKS: [(&str, &str, bool); 3] =
    [("post", "post", true), ("poll", "poll", true), ("post-moved", "post", false)];

/// A way to keep books.
trait Books:
    Sized + Profile<Receive = OwnRq, Threads = AnyThread, Initiator = Reads, Entry = Buf>
{
    const NAME: &'static str;
    const SIGNAL_ALL: bool;

    fn post(qp: &mut QueuePair<Rc, Rts, Self>, buf: Buf, at: RemoteSpan<ToWrite>) -> bool;

    fn complete(qp: &mut QueuePair<Rc, Rts, Self>, completion: Completion<Buf>) -> Option<Buf>;
}

impl Books for DefaultProfile {
    const NAME: &'static str = "owned";
    const SIGNAL_ALL: bool = true;

    #[inline(always)]
    fn post(qp: &mut QueuePair<Rc, Rts, Self>, buf: Buf, at: RemoteSpan<ToWrite>) -> bool {
        qp.post_send(wr::RdmaWrite::new(buf, at)).is_ok()
    }

    #[inline(always)]
    fn complete(_: &mut QueuePair<Rc, Rts, Self>, completion: Completion<Buf>) -> Option<Buf> {
        completion.into_entry()
    }
}

impl Books for Chosen {
    const NAME: &'static str = "selective";
    const SIGNAL_ALL: bool = false;

    #[inline(always)]
    fn post(qp: &mut QueuePair<Rc, Rts, Self>, buf: Buf, at: RemoteSpan<ToWrite>) -> bool {
        qp.post_send(wr::RdmaWrite::new(buf, at)).is_ok()
    }

    #[inline(always)]
    fn complete(qp: &mut QueuePair<Rc, Rts, Self>, completion: Completion<Buf>) -> Option<Buf> {
        qp.complete(completion).ok().and_then(|done| done.released.last())
    }
}

/// Lines `count growth/FORM/WORK/PAIRS CALLS`.
pub fn print() -> Result<(), String> {
    let stub = Stub::find()?;
    PAIRS.iter().try_for_each(|pairs| {
        measure::<Index>(&stub, *pairs)?;
        measure::<Pairs<DefaultProfile>>(&stub, *pairs)?;
        measure::<Pairs<Chosen>>(&stub, *pairs)
    })
}

/// Lines `time growth/FORM/PAIRS LEAST MEDIAN`, in ns of a post and its poll, the stub's part
/// included.
pub fn time() -> Result<(), String> {
    let stub = Stub::find()?;
    PAIRS.iter().try_for_each(|pairs| by_turns(&stub, *pairs))
}

/// So many queue pairs, and a buffer for each. Methods give whether it worked.
trait Many {
    const NAME: &'static str;
    const SIGNAL_ALL: bool;

    fn new(pairs: u32) -> Self;
    /// Posts on this queue pair, from this buffer.
    fn post(&mut self, turn: usize, buf: usize) -> bool;
    /// Polls the completion, which is this queue pair's, and takes the buffer back.
    fn poll(&mut self, turn: usize, buf: usize) -> bool;
    /// Polls the completion, which is this queue pair's, and posts its buffer there again.
    fn again(&mut self, turn: usize) -> bool;
}

struct Pairs<P: Books> {
    qps: Vec<QueuePair<Rc, Rts, P>>,
    cq: CompletionQueue,
    bufs: Vec<Option<Buf>>,
    at: RemoteSpan<ToWrite>,
}

impl<P: Books> Many for Pairs<P> {
    const NAME: &'static str = P::NAME;
    const SIGNAL_ALL: bool = P::SIGNAL_ALL;

    fn new(pairs: u32) -> Self {
        let ground = Ground::new();
        let cq = ground.cq(pairs, DEPTH);
        let pool = ground.pd.create_pool(pairs as usize, LEN).expect("a pool");
        let qps = (0..pairs).map(|_| ground.connect::<P>(&cq, DEPTH)).collect();
        let bufs = (0..pairs).map(|_| pool.take()).collect();
        Pairs { qps, cq, bufs, at: remote() }
    }

    #[inline(always)]
    fn post(&mut self, turn: usize, buf: usize) -> bool {
        let Some(buf) = self.bufs.get_mut(buf).and_then(Option::take) else { return false };
        self.qps.get_mut(turn).is_some_and(|qp| P::post(qp, buf, self.at))
    }

    #[inline(always)]
    fn poll(&mut self, turn: usize, buf: usize) -> bool {
        let Some(qp) = self.qps.get_mut(turn) else { return false };
        let Ok(Some(completion)) = self.cq.poll_one() else { return false };
        let Some(buf) = self.bufs.get_mut(buf) else { return false };
        *buf = P::complete(qp, completion);
        buf.is_some()
    }

    #[inline(always)]
    fn again(&mut self, turn: usize) -> bool {
        let Some(qp) = self.qps.get_mut(turn) else { return false };
        let Ok(Some(completion)) = self.cq.poll_one() else { return false };
        P::complete(qp, completion).is_some_and(|buf| P::post(qp, buf, self.at))
    }
}

/// `index.c`.
struct Index(*mut c_void);

unsafe extern "C" {
    fn index_new(pairs: u32) -> *mut c_void;
    fn index_post(index: *mut c_void, turn: u32, buf: u32) -> c_int;
    fn index_poll(index: *mut c_void) -> c_int;
    fn index_again(index: *mut c_void) -> c_int;
}

impl Many for Index {
    const NAME: &'static str = "C";
    const SIGNAL_ALL: bool = true;

    fn new(pairs: u32) -> Self {
        // SAFETY: no precondition.
        Index(unsafe { index_new(pairs) })
    }

    #[inline(always)]
    fn post(&mut self, turn: usize, buf: usize) -> bool {
        // SAFETY: what `index_new` made, for more queue pairs and buffers than these numbers.
        unsafe { index_post(self.0, turn as u32, buf as u32) != 0 }
    }

    #[inline(always)]
    fn poll(&mut self, _: usize, _: usize) -> bool {
        // SAFETY: what `index_new` made.
        unsafe { index_poll(self.0) != 0 }
    }

    #[inline(always)]
    fn again(&mut self, _: usize) -> bool {
        // SAFETY: what `index_new` made.
        unsafe { index_again(self.0) != 0 }
    }
}

/// The queue pair whose turn it is, and the buffer.
struct World<M> {
    many: M,
    turn: usize,
    buf: usize,
}

unsafe extern "C" fn post<M: Many>(world: *mut c_void) -> c_int {
    // SAFETY: called with the world of `measure` only, which nothing else uses then.
    let world = unsafe { &mut *world.cast::<World<M>>() };
    c_int::from(!world.many.post(world.turn, world.buf))
}

unsafe extern "C" fn poll<M: Many>(world: *mut c_void) -> c_int {
    // SAFETY: called with the world of `measure` only, which nothing else uses then.
    let world = unsafe { &mut *world.cast::<World<M>>() };
    c_int::from(!world.many.poll(world.turn, world.buf))
}

unsafe extern "C" fn again<M: Many>(world: *mut c_void) -> c_int {
    // SAFETY: called with the world of `measure_again` only, which nothing else uses then.
    let world = unsafe { &mut *world.cast::<World<M>>() };
    c_int::from(!world.many.again(world.turn))
}

/// Prime to all counts of pairs, so that each has its turn, and not in their order.
const STEP: usize = 7919;

fn measure<M: Many>(stub: &Stub, pairs: u32) -> Result<(), String> {
    let mut world = World { many: M::new(pairs), turn: 0, buf: 0 };
    // With one queue pair there is no other that a buffer could come from.
    let works = if pairs == 1 { &WORKS[..2] } else { &WORKS };
    for (work, counted, stays) in works.iter().copied() {
        let warm = WARM * pairs as usize;
        for call in 0..warm + CALLS {
            world.turn = call * STEP % pairs as usize;
            world.buf = if stays { world.turn } else { 0 };
            stub.reset(M::SIGNAL_ALL);
            for (now, form) in [("post", post::<M> as Form), ("poll", poll::<M>)] {
                let env: *mut World<M> = &mut world;
                let code = if call >= warm && now == counted {
                    // SAFETY: the forms' own world, which is not used until they return.
                    unsafe { stub.measure(form, env.cast()) }
                } else {
                    // SAFETY: the forms' own world, which is not used until they return.
                    unsafe { form(env.cast()) }
                };
                if code != 0 {
                    return Err(format!("{}: {now} failed, {pairs} queue pairs", M::NAME));
                }
            }
        }
        told::<M>(stub, work, pairs);
    }
    measure_again(stub, &mut world, pairs)
}

/// Each queue pair has a work request outstanding; whichever completes is posted again.
fn measure_again<M: Many>(stub: &Stub, world: &mut World<M>, pairs: u32) -> Result<(), String> {
    let pairs = pairs as usize;
    stub.reset(M::SIGNAL_ALL);
    for call in 0..pairs {
        world.turn = call * STEP % pairs;
        stub.forget();
        if !world.many.post(world.turn, world.turn) {
            return Err(format!("{}: a post failed, {pairs} queue pairs", M::NAME));
        }
    }
    let warm = WARM * pairs;
    for call in 0..warm + CALLS {
        world.turn = call * STEP % pairs;
        stub.forget();
        let env: *mut World<M> = world;
        let code = if call >= warm {
            // SAFETY: the form's own world, which is not used until it returns.
            unsafe { stub.measure(again::<M>, env.cast()) }
        } else {
            // SAFETY: the form's own world, which is not used until it returns.
            unsafe { again::<M>(env.cast()) }
        };
        if code != 0 {
            return Err(format!("{}: again failed, {pairs} queue pairs", M::NAME));
        }
    }
    told::<M>(stub, "again", pairs as u32);
    Ok(())
}

/// Ends a count.
fn told<M: Many>(stub: &Stub, work: &str, pairs: u32) {
    let label = format!("growth/{}/{work}/{pairs}", M::NAME);
    if stub.is_counting() {
        stub.dump(&label);
    }
    println!("count {label} {CALLS}");
}

/// Batches of each form, and cycles in a batch.
const BATCHES: usize = 301;
const CYCLES: usize = 1000;

/// The times of all forms, a batch of each in turn, so that a slow spell of the machine hits all.
fn by_turns(stub: &Stub, pairs: u32) -> Result<(), String> {
    let mut index = World { many: Index::new(pairs), turn: 0, buf: 0 };
    let mut owned = World { many: Pairs::<DefaultProfile>::new(pairs), turn: 0, buf: 0 };
    let mut chosen = World { many: Pairs::<Chosen>::new(pairs), turn: 0, buf: 0 };
    let mut times = [const { Vec::new() }; 3];
    // Those before the first that counts have touched each queue pair.
    let warm = (WARM * pairs as usize).div_ceil(CYCLES);
    for at in 0..warm + BATCHES {
        let batch = [
            batch(stub, &mut index, pairs)?,
            batch(stub, &mut owned, pairs)?,
            batch(stub, &mut chosen, pairs)?,
        ];
        if at >= warm {
            times.iter_mut().zip(batch).for_each(|(times, batch)| times.push(batch));
        }
    }
    let names = [Index::NAME, DefaultProfile::NAME, Chosen::NAME];
    for (name, mut times) in names.into_iter().zip(times) {
        times.sort_unstable();
        let each = |at: usize| times[at].as_nanos() as f64 / CYCLES as f64;
        println!("time growth/{name}/{pairs} {:.2} {:.2}", each(0), each(BATCHES / 2));
    }
    Ok(())
}

/// What a batch takes.
fn batch<M: Many>(stub: &Stub, world: &mut World<M>, pairs: u32) -> Result<Duration, String> {
    stub.reset(M::SIGNAL_ALL);
    let start = Instant::now();
    for _ in 0..CYCLES {
        world.turn = (world.turn + STEP) % pairs as usize;
        if !world.many.post(world.turn, world.turn) || !world.many.poll(world.turn, world.turn) {
            return Err(format!("{}: a cycle failed, {pairs} queue pairs", M::NAME));
        }
    }
    Ok(start.elapsed())
}
