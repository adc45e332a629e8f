//! The cost of a queue pair's cold operations when 1, 100 and 10,000 other objects exist.
//!
//! `--growth` prints `count growth/OPERATION/OTHERS/NUMBER CALLS` for each, all on the device of
//! the stub.
//!
//! A call of `drop outstanding` and `drop together` ends `WINDOW` queue pairs, which share the cost
//! of a search for their buffers. The count is for one queue pair.

use std::ffi::{c_int, c_void};
use std::hint::black_box;

use proverbs::memory::ToWrite;
use proverbs::prelude::*;
use proverbs::qp::Drained;

use crate::stub::Stub;
use crate::world::*;

/// The numbers of other objects.
const NUMBERS: [usize; 3] = [1, 100, 10_000];

/// The number of calls that are counted.
const CALLS: usize = 4;

/// The number of queue pairs that end in one call.
const WINDOW: usize = 1000;

/// The type of the other objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// Queue pairs on the same completion queue. Every second one is selectively signaled.
    QueuePairs,
    /// Pools of the same protection domain, with one buffer each. Every second one was used.
    Pools,
    /// Buffers of the same pool, which the program holds.
    Taken,
}

const OTHERS: [(Others, &str); 3] = [
    (Others::QueuePairs, "queue pairs"),
    (Others::Pools, "pools"),
    (Others::Taken, "taken buffers"),
];

/// The objects that the operations work on.
struct Room {
    ground: Ground,
    cq: CompletionQueue,
    /// One whose queue pairs share its few entries.
    shared: CompletionQueue,
    channel: CompletionChannel,
    pool: Pool,
    /// Of as many buffers of 64 bytes as there are other objects.
    arena: Arena,
    at: RemoteSpan<ToWrite>,
}

/// Counts one call of its argument.
type Count<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

/// An operation. It prepares, counts one call, and cleans up.
type Operation = fn(&Stub, &mut Room, Count<'_>);

/// With the number of queue pairs in each call.
const OPERATIONS: [(&str, Operation, usize); 11] = [
    ("create", create, 1),
    ("connect", connect, 1),
    ("drain", drain, 1),
    ("destroy", destroy, 1),
    ("drop outstanding", drop_outstanding, WINDOW),
    ("drop together", drop_together, WINDOW),
    ("drop completion", drop_completion, 1),
    ("wake", wake, 1),
    ("claim", claim, 1),
    ("refuse", refuse, 1),
    ("whole arena", whole_arena, 1),
];

impl Room {
    /// A room with `number` other objects, which exist until the process ends.
    fn beside(others: Others, number: usize) -> Self {
        let ground = Ground::of_stub();
        let arena = ground.pd.create_arena(64 * number, number).expect("an arena");
        let channel = ground.context.create_comp_channel().expect("a channel");
        let entries = (4 * number + 10 * WINDOW) as u32;
        let cq = ground.context.cq(entries).channel(&channel).create().expect("a completion queue");
        let shared = ground.context.cq(8).shared_budget().create().expect("a completion queue");
        let depth = Depth { send: 1, recv: 1 };
        let taken = if others == Others::Taken { number } else { 1 };
        let pool = ground.pd.create_pool(taken + 4 * WINDOW, 64).expect("a pool");
        match others {
            Others::QueuePairs => (0..number).for_each(|i| match i % 2 {
                0 => std::mem::forget(ground.pd.create_qp::<Rc, Chosen>(&cq, &cq, depth)),
                _ => std::mem::forget(ground.pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)),
            }),
            Others::Pools => {
                for i in 0..number {
                    let pool = ground.pd.create_pool(1, 64).expect("a pool");
                    drop((i % 2 == 0).then(|| pool.take()));
                    std::mem::forget(pool);
                }
            }
            Others::Taken => (0..number).for_each(|_| std::mem::forget(pool.take())),
        }
        if others == Others::QueuePairs {
            for _ in 0..number {
                let deep = Depth { send: 256, recv: 256 };
                let qp = ground.pd.create_qp::<Rc, DefaultProfile>(&shared, &shared, deep);
                std::mem::forget(qp);
            }
        }
        let at = ground.remote().write();
        Room { ground, cq, shared, channel, pool, arena, at }
    }

    fn created<P: Profile<Entry = Buf, Receive = OwnRq, Threads = AnyThread, Initiator = Reads>>(
        &self,
    ) -> QueuePair<Rc, Reset, P> {
        let depth = Depth { send: 4, recv: 4 };
        self.ground.pd.create_qp(&self.cq, &self.cq, depth).expect("a queue pair")
    }

    fn connected<P>(&self) -> QueuePair<Rc, Rts, P>
    where
        P: Profile<Entry = Buf, Receive = OwnRq, Threads = AnyThread, Initiator = Reads>,
    {
        bring_up(&self.ground, self.created())
    }

    fn buf(&self) -> Buf {
        self.pool.take().expect("a buffer")
    }

    /// Polls until the queue is empty, and once more to finish pending cleanup.
    fn settle(&mut self) {
        for _ in 0..3 {
            while self.cq.poll_one().expect("a poll").is_some() {}
        }
    }
}

fn create(_: &Stub, room: &mut Room, count: Count<'_>) {
    let mut made = None;
    count(&mut || made = Some(room.created::<DefaultProfile>()));
    drop(made);
    room.settle();
}

fn connect(_: &Stub, room: &mut Room, count: Count<'_>) {
    let mut qp = Some(room.created::<DefaultProfile>());
    let mut connected = None;
    count(&mut || connected = qp.take().map(|qp| bring_up(&room.ground, qp)));
    drop(connected);
    room.settle();
}

/// Drains four WRITEs and four receives.
fn drain(_: &Stub, room: &mut Room, count: Count<'_>) {
    let mut qp = room.connected::<DefaultProfile>();
    for _ in 0..4 {
        qp.post_recv(wr::Recv::new(room.buf())).expect("a receive");
        qp.post_send(wr::RdmaWrite::new(room.buf(), room.at)).expect("a WRITE");
    }
    let mut qp = qp.to_error().expect("ERR");
    let mut found = 0;
    count(&mut || {
        let see =
            |drained: Drained<'_, Buf>| found += u32::from(matches!(drained, Drained::Entry(_)));
        qp.drain(&mut room.cq, see).expect("a drain")
    });
    assert_eq!(found, 8, "the drain returns all work requests");
    drop(qp);
    room.settle();
}

/// Destroys an idle queue pair.
fn destroy(_: &Stub, room: &mut Room, count: Count<'_>) {
    let mut qp = Some(room.connected::<DefaultProfile>());
    count(&mut || {
        let destroyed = qp.take().map(QueuePair::destroy);
        black_box(destroyed.is_some_and(|result| result.is_ok()));
    });
    room.settle();
}

/// Drops queue pairs with four WRITEs outstanding each, one by one, and polls after each until its
/// completion queue was found empty.
fn drop_outstanding(stub: &Stub, room: &mut Room, count: Count<'_>) {
    drop_window(stub, room, count, 1);
}

/// The same, but polls only after the last drop.
fn drop_together(stub: &Stub, room: &mut Room, count: Count<'_>) {
    drop_window(stub, room, count, WINDOW);
}

/// Drops a window of queue pairs, and polls after every `each` of them. At the end all buffers are
/// back in the pool.
fn drop_window(stub: &Stub, room: &mut Room, count: Count<'_>, each: usize) {
    let before = room.pool.available();
    let mut qps = Vec::with_capacity(WINDOW);
    for _ in 0..WINDOW {
        // Nothing completes. (The stub records a limited number of posts.)
        stub.reset(false);
        let mut qp = room.connected::<DefaultProfile>();
        for _ in 0..4 {
            qp.post_send(wr::RdmaWrite::new(room.buf(), room.at)).expect("a WRITE");
        }
        qps.push(qp);
    }
    count(&mut || {
        while !qps.is_empty() {
            qps.truncate(qps.len() - each);
            for _ in 0..3 {
                black_box(room.cq.poll_one().is_ok_and(|found| found.is_none()));
            }
        }
        room.pool.reclaim(&mut room.cq);
    });
    assert_eq!(room.pool.available(), before, "the buffers are back");
    stub.reset(true);
}

/// Drops a completion of a selectively signaled queue pair.
fn drop_completion(stub: &Stub, room: &mut Room, count: Count<'_>) {
    stub.reset(false);
    let mut qp = room.connected::<Chosen>();
    let write = wr::RdmaWrite::new(room.buf(), room.at).signaled();
    qp.post_send(write).expect("a WRITE");
    let mut completion = room.cq.poll_one().expect("a poll");
    assert!(completion.is_some(), "it completed");
    count(&mut || drop(completion.take()));
    drop(completion);
    drop(qp);
    stub.reset(true);
    room.settle();
}

/// Waits until one WRITE has completed, and takes its completion.
fn wake(stub: &Stub, room: &mut Room, count: Count<'_>) {
    let mut qp = room.connected::<DefaultProfile>();
    stub.hold(true);
    qp.post_send(wr::RdmaWrite::new(room.buf(), room.at)).expect("a WRITE");
    count(&mut || {
        let completions = room.channel.wait(&mut room.cq).expect("a wake");
        black_box(completions.count());
    });
    stub.hold(false);
    drop(qp);
    room.settle();
}

/// A WRITE that takes an entry of a completion queue whose entries are shared.
fn claim(_: &Stub, room: &mut Room, count: Count<'_>) {
    on_shared(room, 0, count, |is_posted| assert!(is_posted, "there is room"));
}

/// A WRITE for which such a completion queue has no room.
fn refuse(_: &Stub, room: &mut Room, count: Count<'_>) {
    on_shared(room, room.shared.capacity(), count, |is_posted| assert!(!is_posted, "it is full"));
}

/// Takes and drops a buffer of a whole arena, after many short ones of it were dropped.
fn whole_arena(_: &Stub, room: &mut Room, count: Count<'_>) {
    let len = room.arena.len();
    let bufs: Vec<Buf> = (0..len / 64).map_while(|_| room.arena.take(64)).collect();
    assert_eq!(bufs.len(), len / 64);
    drop(bufs);
    count(&mut || drop(black_box(room.arena.take(len).expect("the whole arena"))));
}

/// One more WRITE than `before`; `see` gets whether it was posted.
fn on_shared(room: &mut Room, before: u32, count: Count<'_>, see: fn(bool)) {
    let depth = Depth { send: 64, recv: 64 };
    let qp = room.ground.pd.create_qp::<Rc, DefaultProfile>(&room.shared, &room.shared, depth);
    let mut qp = bring_up(&room.ground, qp.expect("a queue pair"));
    let write = || wr::RdmaWrite::inline(b"8 bytes!", room.at);
    for _ in 0..before {
        qp.post_send(write()).expect("a WRITE");
    }
    let mut is_posted = false;
    count(&mut || is_posted = qp.post_send(write()).is_ok());
    see(is_posted);
    drop(qp);
    for _ in 0..3 {
        while room.shared.poll_one().expect("a poll").is_some() {}
    }
}

/// Counts each operation with each number of each type of other objects.
pub fn all(stub: &Stub) {
    for (others, name) in OTHERS {
        for number in NUMBERS {
            stub.reset(true);
            let mut room = Room::beside(others, number);
            for (operation, work, window) in OPERATIONS {
                let calls = CALLS.div_ceil(window);
                let label = format!("growth/{operation}/{name}/{number}");
                // The first calls allocate memory that later calls reuse.
                (0..calls.min(2)).for_each(|_| work(stub, &mut room, &mut |call| call()));
                for _ in 0..calls {
                    work(stub, &mut room, &mut |call| measured(stub, call));
                }
                if stub.is_counting() {
                    stub.dump(&label);
                }
                println!("count {label} {}", calls * window);
            }
            std::mem::forget(room);
        }
    }
}

fn measured(stub: &Stub, mut call: &mut dyn FnMut()) {
    /// # Safety
    /// `call` is a `&mut &mut dyn FnMut()`.
    unsafe extern "C" fn form(call: *mut c_void) -> c_int {
        // SAFETY: this function's contract.
        unsafe { (*call.cast::<&mut dyn FnMut()>())() };
        0
    }
    // SAFETY: the form takes a pointer to a reference of this type.
    unsafe { stub.measure(form, (&raw mut call).cast()) };
}
