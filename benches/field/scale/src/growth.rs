//! Instructions of a post, and of a poll with its completion, by how many queue pairs share the
//! queue.

use std::ffi::{c_int, c_void};

use field::{Form, LEN, Stub};
use proverbs::memory::ToWrite;
use proverbs::prelude::*;

use crate::ground::{Chosen, Ground, remote};

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
        measure::<DefaultProfile>(&stub, *pairs)?;
        measure::<Chosen>(&stub, *pairs)
    })
}

struct World<P: Books> {
    qps: Vec<QueuePair<Rc, Rts, P>>,
    cq: CompletionQueue,
    /// One for each queue pair.
    bufs: Vec<Option<Buf>>,
    at: RemoteSpan<ToWrite>,
    /// The queue pair whose turn it is, and the buffer.
    turn: usize,
    buf: usize,
}

/// Posts on the queue pair whose turn it is.
unsafe extern "C" fn post<P: Books>(world: *mut c_void) -> c_int {
    // SAFETY: called with the world of `measure` only, which nothing else uses then.
    let world = unsafe { &mut *world.cast::<World<P>>() };
    let Some(buf) = world.bufs.get_mut(world.buf).and_then(Option::take) else { return 1 };
    let Some(qp) = world.qps.get_mut(world.turn) else { return 2 };
    c_int::from(!P::post(qp, buf, world.at))
}

/// Polls its completion, and takes the buffer back.
unsafe extern "C" fn poll<P: Books>(world: *mut c_void) -> c_int {
    // SAFETY: called with the world of `measure` only, which nothing else uses then.
    let world = unsafe { &mut *world.cast::<World<P>>() };
    let Some(qp) = world.qps.get_mut(world.turn) else { return 1 };
    let Ok(Some(completion)) = world.cq.poll_one() else { return 2 };
    let Some(buf) = world.bufs.get_mut(world.buf) else { return 3 };
    *buf = P::complete(qp, completion);
    c_int::from(buf.is_none())
}

fn measure<P: Books>(stub: &Stub, pairs: u32) -> Result<(), String> {
    let ground = Ground::new();
    let cq = ground.cq(pairs, DEPTH);
    let pool = ground.pd.create_pool(pairs as usize, LEN).expect("a pool");
    let qps = (0..pairs).map(|_| ground.connect::<P>(&cq, DEPTH)).collect();
    let bufs = (0..pairs).map(|_| pool.take()).collect();
    let mut world = World { qps, cq, bufs, at: remote(), turn: 0, buf: 0 };
    // With one queue pair there is no other that a buffer could come from.
    let works = if pairs == 1 { &WORKS[..2] } else { &WORKS };
    for (work, counted, stays) in works.iter().copied() {
        let warm = WARM * pairs as usize;
        for call in 0..warm + CALLS {
            // Prime to all counts of pairs, so that each has its turn, and not in their order.
            world.turn = call * 7919 % pairs as usize;
            world.buf = if stays { world.turn } else { 0 };
            stub.reset(P::SIGNAL_ALL);
            for (now, form) in [("post", post::<P> as Form), ("poll", poll::<P>)] {
                let env: *mut World<P> = &mut world;
                let code = if call >= warm && now == counted {
                    // SAFETY: the forms' own world, which is not used until they return.
                    unsafe { stub.measure(form, env.cast()) }
                } else {
                    // SAFETY: the forms' own world, which is not used until they return.
                    unsafe { form(env.cast()) }
                };
                if code != 0 {
                    return Err(format!("{}: {now} failed, {pairs} queue pairs", P::NAME));
                }
            }
        }
        let label = format!("growth/{}/{work}/{pairs}", P::NAME);
        if stub.is_counting() {
            stub.dump(&label);
        }
        println!("count {label} {CALLS}");
    }
    Ok(())
}
