//! Completion queues whose queue pairs share the entries: each takes an entry with what it posts.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread;

use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};
use proverbs::post::{PostErrorKind, SendSlots};
use proverbs::prelude::*;

use crate::support::*;

const EOPNOTSUPP: i32 = 95;

profile! { Ring { signaling: Selective, initiator: NoReads } }
profile! { Sharing { receive: SharedRq } }

/// Queue pairs that complete into one completion queue, connected two by two.
struct Crowd<P: Profile> {
    qps: Vec<QueuePair<Rc, Rts, P>>,
    cq: CompletionQueue<P::Entry>,
    region: MemoryRegion<RemoteWrite>,
    pool: Pool,
    pd: ProtectionDomain,
    dev: Device,
}

impl<P: Profile<Receive = OwnRq, Threads = AnyThread, Entry = Buf>> Crowd<P>
where
    Rc: Bring<P>,
{
    fn new(cqe: u32, pairs: usize, depth: Depth) -> Self {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let cq = dev.ctx.cq(cqe).shared_budget().create().unwrap();
        let (pool, region) = (pd.create_pool(64, 64).unwrap(), pd.register(64).unwrap());
        let mut crowd = Crowd { qps: Vec::new(), cq, region, pool, pd, dev };
        (0..pairs).for_each(|_| crowd.add(depth));
        assert_eq!(crowd.cq.unbooked(), crowd.cq.capacity(), "none has taken an entry yet");
        crowd
    }

    fn add(&mut self, depth: Depth) {
        let (pd, cq) = (&self.pd, &self.cq);
        let new = || (pd.create_qp::<Rc, P>(cq, cq, depth).unwrap(), pd);
        let (a, b) = <Rc as Bring<P>>::connect(new(), new(), &self.dev, &Wish::new());
        self.qps.extend([a, b]);
    }
}

/// Why a post was refused.
fn kind(posted: Result<(), proverbs::PostError<Buf>>) -> PostErrorKind {
    posted.unwrap_err().kind()
}

const fn full(asked: u32) -> PostErrorKind {
    PostErrorKind::CqFull { asked, room: 0 }
}

/// Fills the completion queue with random bursts, a few times: what fits is not refused.
fn load(cqe: u32, pairs: usize, depth: u32) {
    let mut crowd = Crowd::<DefaultProfile>::new(cqe, pairs, Depth { send: depth, recv: depth });
    let (capacity, at) = (crowd.cq.capacity(), crowd.region.remote().write());
    assert!(crowd.qps.len() as u64 * depth as u64 * 2 > capacity.into(), "the depths do not fit");
    let mut random = 7u64;
    let mut below = |n: u32| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as u32 % n
    };
    for _ in 0..3 {
        let mut flying = 0;
        while flying < capacity {
            let i = below(crowd.qps.len() as u32) as usize;
            let qp = &mut crowd.qps[i];
            let most = (capacity - flying).min(qp.send_room() as u32);
            for _ in 0..below(depth).min(most) {
                qp.post_send(wr::RdmaWrite::inline(b"8 bytes!", at)).unwrap();
                flying += 1;
            }
        }
        assert_eq!(crowd.cq.unbooked(), 0);
        // One that could post more, and one that never did much: it is all the same.
        let i = crowd.qps.iter().position(|qp| qp.sends_outstanding() < depth as usize).unwrap();
        assert_eq!((crowd.qps[i].send_room(), crowd.qps[i].recv_room()), (0, 0));
        let more = crowd.qps[i].post_send(wr::RdmaWrite::inline(b"8 bytes!", at)).unwrap_err();
        assert!(more.is_full());
        assert_eq!(more.kind(), full(1));
        assert_eq!(kind(crowd.qps[i].post_recv(wr::Recv::empty())), full(1));
        poll(&crowd.dev, &mut crowd.cq, 1);
        crowd.qps[i].post_send(wr::RdmaWrite::inline(b"8 bytes!", at)).unwrap();
        poll(&crowd.dev, &mut crowd.cq, capacity as usize);
        assert_eq!(crowd.cq.unbooked(), capacity);
    }
}

/// Proves R9.9.
#[test]
fn a_budget_is_shared_by_a_thousand_queue_pairs() {
    // (On iWARP each pair is a connection.)
    match cfg!(miri) || std::env::var("PROVERBS_WORLD").is_ok_and(|world| world == "iwarp") {
        true => load(24, 3, 16),
        false => load(4096, 500, 256),
    }
}

#[test]
#[cfg_attr(miri, ignore = "the same as the test before, and longer")]
fn a_budget_is_shared_by_64_deep_queue_pairs() {
    load(4096, 32, 1024);
}

/// Both directions take entries; a reset and an end give them back, once nothing can complete.
#[test]
fn a_budget_gets_back_what_ended_queue_pairs_took() {
    fails_on!(Iwarp, "R24.6");
    let depth = Depth { send: 64, recv: 64 };
    let mut crowd = Crowd::<DefaultProfile>::new(16, 2, depth);
    let others = crowd.pd.create_pool(64, 64).unwrap();
    let receive = || wr::Recv::new(others.take().unwrap());
    let capacity = crowd.cq.capacity();
    let [mut a, mut b, mut c, d] = <[_; 4]>::try_from(std::mem::take(&mut crowd.qps)).unwrap();
    for _ in 0..capacity - 4 {
        b.post_recv(receive()).unwrap();
    }
    for _ in 0..4 {
        c.post_recv(wr::Recv::new(crowd.pool.take().unwrap())).unwrap();
    }
    let message = || wr::Send::inline(b"");
    assert_eq!(kind(a.post_send(message())), full(1));
    assert_eq!((crowd.cq.unbooked(), a.send_room(), b.recv_room()), (0, 0, 0));

    // Completions from before a reset take room until they were polled, and the rest until the
    // queue was seen empty.
    let c = c.reset().unwrap();
    assert_eq!(crowd.cq.unbooked(), 0);
    poll_empty(&mut crowd.cq);
    assert_eq!((crowd.cq.unbooked(), crowd.pool.available()), (4, 64));
    for _ in 0..2 {
        a.post_send(message()).unwrap();
    }
    let done = poll(&crowd.dev, &mut crowd.cq, 4);
    assert_eq!(done.iter().filter(|done| matches!(done, Done::Received(_))).count(), 2);
    drop(done);
    assert_eq!(crowd.cq.unbooked(), 6);

    // A queue pair that was reset takes entries as before.
    let mut c = <Rc as Bring<DefaultProfile>>::init(c, &Wish::new());
    for _ in 0..6 {
        c.post_recv(wr::Recv::new(crowd.pool.take().unwrap())).unwrap();
    }
    assert_eq!(kind(c.post_recv(receive())), full(1));
    b.destroy().unwrap();
    assert_eq!(crowd.cq.unbooked(), 0);
    poll_empty(&mut crowd.cq);
    assert_eq!(crowd.cq.unbooked(), capacity - 6);
    drop(c);
    poll_empty(&mut crowd.cq);
    assert_eq!((crowd.cq.unbooked(), crowd.pool.available()), (capacity, 64));
    assert_eq!(others.available(), 64);
    drop((a, d));
    crowd.cq.destroy().unwrap();
}

/// A list takes all its entries, or none; what does not fit comes back.
#[test]
fn a_list_takes_entries_of_a_budget_once() {
    let mut crowd = Crowd::<DefaultProfile>::new(8, 1, Depth { send: 64, recv: 64 });
    let (capacity, at) = (crowd.cq.capacity(), crowd.region.remote().write());
    let pool = crowd.pd.create_pool(64, 64).unwrap();
    let [a, _] = &mut crowd.qps[..] else { unreachable!() };
    let write = || wr::RdmaWrite::new(pool.take().unwrap(), at);
    for _ in 0..capacity - 2 {
        a.post_send(write()).unwrap();
    }
    let error = post_send!(a, [write(), write(), write()]).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (PostErrorKind::CqFull { asked: 3, room: 2 }, 0));
    assert_eq!(error.into_rejected().count(), 3);
    let mut slots = SendSlots::<16>::new();
    let mut list = a.send_list(&mut slots);
    list.push(write()).unwrap();
    list.push(write()).unwrap();
    let error = list.push(write()).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::CqFull { asked: 3, room: 2 });
    let text = "completion queue full: posting 3 work requests, room for 2 (poll it: each \
                completion frees an entry for any of its queue pairs)";
    assert!(error.to_string().ends_with(text), "{error}");
    drop(error);
    assert_eq!(crowd.cq.unbooked(), 2);
    list.post().unwrap();
    assert_eq!(crowd.cq.unbooked(), 0);
    // Its own depth is what is full.
    poll(&crowd.dev, &mut crowd.cq, capacity as usize);
    crowd.qps.clear();
    poll_empty(&mut crowd.cq);
    crowd.add(Depth { send: 2, recv: 0 });
    let [a, _] = &mut crowd.qps[..] else { unreachable!() };
    let error = post_send!(a, [write(), write(), write()]).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 3, room: 2 });
    drop(error);
    assert_eq!((pool.available(), crowd.cq.unbooked()), (64, capacity));
}

/// Posts random sends, signaled and not, on two rings that share few entries. An unsignaled send
/// always leaves room for a signaled one.
#[test]
fn rings_on_a_budget_can_always_signal() {
    fails_on!(NoRings);
    let mut crowd = Crowd::<Ring>::new(12, 2, Depth { send: 20, recv: 0 });
    let (capacity, at) = (crowd.cq.capacity(), crowd.region.remote().write());
    let (cq, pool) = (&mut crowd.cq, &crowd.pool);
    let [mut a, b, mut c, d] = <[_; 4]>::try_from(crowd.qps).unwrap();
    let mut random = 3u32;
    for round in 0..if cfg!(miri) { 20 } else { 500 } {
        for qp in [&mut a, &mut c] {
            let mut was_full = false;
            for _ in 0..20 {
                random = random.wrapping_mul(1664525).wrapping_add(1013904223);
                let Some(buf) = pool.take() else { break };
                let write = wr::RdmaWrite::new(buf, at);
                let posted = match random >> 30 {
                    0 => qp.post_send(write),
                    _ => qp.post_send_unsignaled(write).map(drop),
                };
                let Err(error) = posted else { continue };
                was_full |= matches!(error.kind(), PostErrorKind::CqFull { .. });
                assert!(error.is_full(), "{error}");
                break;
            }
            assert!(was_full || capacity > 20 || round > 0 || qp.sends_outstanding() > 0);
            qp.settle().unwrap();
        }
        until(&crowd.dev, "the completions", || {
            for completion in cq.poll().unwrap() {
                match a.complete(completion) {
                    Ok(done) => done.status.unwrap(),
                    Err(completion) => c.complete(completion).unwrap().status.unwrap(),
                }
            }
            a.sends_outstanding() + c.sends_outstanding() == 0
        });
        assert_eq!((pool.available(), cq.unbooked()), (64, capacity), "round {round}");
    }

    // Unsignaled sends of one ring alone fill the completion queue: the last of them is signaled.
    // A drain has room for its marker, or needs none.
    for _ in 0..20 {
        let write = || wr::RdmaWrite::new(pool.take().unwrap(), at);
        if a.post_send_unsignaled(write()).map(drop).is_err() {
            break;
        }
    }
    let posted = a.sends_outstanding();
    assert_eq!(posted, 20.min(capacity as usize));
    let error = c.post_send(wr::RdmaWrite::inline(b"8 bytes!", at));
    assert_eq!(error.is_err(), posted == capacity as usize, "{error:?}");
    let mut a = a.to_error().unwrap();
    let mut back = 0;
    a.drain(cq, |found| back += matches!(found, proverbs::qp::Drained::Entry(_)) as usize).unwrap();
    assert_eq!((back, a.sends_outstanding()), (posted, 0));
    drop((a, b, c, d));
    poll_empty(cq);
    assert_eq!((cq.unbooked(), pool.available()), (capacity, 64));
}

/// A ring with nothing outstanding has no entries: after calls that post nothing, after a rejected
/// post, and after a failed unsignaled send.
/// Proves R9.9.
#[test]
fn an_idle_ring_has_no_entry_of_a_budget() {
    fails_on!(NoRings);
    let mut crowd = Crowd::<Ring>::new(4, 1, Depth { send: 8, recv: 0 });
    let (capacity, at) = (crowd.cq.capacity(), crowd.region.remote().write());
    let cq = &mut crowd.cq;
    let [mut a, _b] = <[_; 2]>::try_from(crowd.qps).unwrap();
    a.settle().unwrap();
    assert_eq!(cq.unbooked(), capacity, "settle");
    let mut slots = SendSlots::<4>::new();
    let _ = a.send_list(&mut slots).post_unsignaled().unwrap();
    assert_eq!(cq.unbooked(), capacity, "an empty list");

    let mut finish = |a: &mut QueuePair<Rc, Rts, Ring>| {
        until(&crowd.dev, "the completions", || {
            for completion in cq.poll().unwrap() {
                drop(a.complete(completion));
            }
            a.sends_outstanding() == 0
        });
        cq.unbooked()
    };
    a.post_send(wr::RdmaWrite::inline(b"8 bytes!", at)).unwrap();
    let foreign = crowd.dev.ctx.alloc_pd().unwrap().create_pool(1, 8).unwrap();
    let write = wr::RdmaWrite::new(foreign.take().unwrap(), at);
    assert!(a.post_send_unsignaled(write).is_err());
    assert_eq!(finish(&mut a), capacity, "a rejected post");
    let nowhere = RemoteSlice::<RemoteWrite>::from_parts(64, 64, 0x7777_7700);
    let write = wr::RdmaWrite::inline(b"8 bytes!", nowhere.write());
    let _ = a.post_send_unsignaled(write).unwrap();
    assert_eq!(finish(&mut a), capacity, "a failed send");
}

/// A shared receive queue reserves its buffers. While queue pairs use the entries, the refusal says
/// how many completions to poll.
#[test]
fn a_creation_on_a_full_budget_says_what_to_poll() {
    let mut crowd = Crowd::<DefaultProfile>::new(16, 1, Depth { send: 64, recv: 64 });
    let (capacity, at) = (crowd.cq.capacity(), crowd.region.remote().write());
    let buffers = crowd.pd.create_pool(capacity as usize - 3, 64).unwrap();
    let srq: SharedReceiveQueue<Rc> = crowd.pd.create_srq(&buffers).unwrap();
    for _ in 0..8 {
        crowd.qps[0].post_send(wr::RdmaWrite::inline(b"8 bytes!", at)).unwrap();
    }
    let create =
        |cq: &CompletionQueue| crowd.pd.create_qp::<Rc, Sharing>(cq, cq, Depth::on_srq(500, &srq));
    let error = create(&crowd.cq).unwrap_err();
    let (asked, free) = (capacity - 3, capacity - 8);
    assert_eq!(*error.kind(), ErrorKind::CqFull { asked, free });
    let text = format!(
        "ibv_create_qp: the completion queue has room for {free} of the {asked} entries these queues \
         need now: poll 5 completions first"
    );
    assert_eq!(error.to_string(), text);
    poll(&crowd.dev, &mut crowd.cq, 5);
    let on_srq = create(&crowd.cq).unwrap();
    assert_eq!(crowd.cq.unbooked(), 0);
    poll(&crowd.dev, &mut crowd.cq, 3);
    assert_eq!(crowd.cq.unbooked(), 3);
    let larger = crowd.pd.create_pool(capacity as usize, 64).unwrap();
    let second: SharedReceiveQueue<Rc> = crowd.pd.create_srq(&larger).unwrap();
    let depth = Depth::on_srq(500, &second);
    let error = crowd.pd.create_qp::<Rc, Sharing>(&crowd.cq, &crowd.cq, depth).unwrap_err();
    let enough = capacity - 3 + capacity;
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked: capacity, free: 3, enough });
    drop(on_srq);
}

#[test]
fn a_budget_grows_and_shrinks_with_its_completion_queue() {
    fails_on!(Siw, "R18.17");
    let mut crowd = Crowd::<DefaultProfile>::new(8, 1, Depth { send: 256, recv: 0 });
    let (capacity, at) = (crowd.cq.capacity(), crowd.region.remote().write());
    let write = || wr::RdmaWrite::inline(b"8 bytes!", at);
    for _ in 0..capacity {
        crowd.qps[0].post_send(write()).unwrap();
    }
    assert_eq!(kind(crowd.qps[0].post_send(write())), full(1));
    crowd.cq.resize(2 * capacity).unwrap();
    for _ in 0..crowd.cq.capacity() - capacity {
        crowd.qps[1].post_send(write()).unwrap();
    }
    assert_eq!(kind(crowd.qps[0].post_send(write())), full(1));
    let booked = crowd.cq.capacity();
    let error = crowd.cq.resize(capacity).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Booked { asked: capacity, booked });
    poll(&crowd.dev, &mut crowd.cq, booked as usize);
    crowd.cq.resize(capacity).unwrap();
    for _ in 0..crowd.cq.capacity() {
        crowd.qps[0].post_send(write()).unwrap();
    }
    assert_eq!(kind(crowd.qps[0].post_send(write())), full(1));
    poll(&crowd.dev, &mut crowd.cq, capacity as usize);
}

/// Two completion queues, of which one has a budget, and is polled for fields.
#[test]
fn a_budget_of_one_direction() {
    // (siw has no extended polling.)
    fails_on!(Iwarp, "R24.5", Device::open().kind != Kind::Siw);
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let sends = dev.ctx.create_cq::<Buf>(40).unwrap();
    let builder = dev.ctx.cq(4).shared_budget().fields::<CompletionTs>();
    let mut receives: CompletionQueueEx<CompletionTs> = match builder.create() {
        Ok(receives) => receives,
        // The device has no extended polling.
        Err(error) => return assert_eq!(error.errno(), Some(EOPNOTSUPP), "{error}"),
    };
    let depth = Depth { send: 8, recv: 64 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&sends, &receives, depth).unwrap();
    assert_eq!(sends.capacity() - sends.unbooked(), 9);
    let mut qp = <Rc as Bring<DefaultProfile>>::init(qp, &Wish::new());
    for _ in 0..receives.capacity() {
        qp.post_recv(wr::Recv::empty()).unwrap();
    }
    assert_eq!(kind(qp.post_recv(wr::Recv::empty())), full(1));
    // Only the receives take entries of the budget.
    let mut task = Task::from_waker(Waker::noop());
    assert!(pin!(qp.send_cq_room(u32::MAX)).poll(&mut task).is_ready());
    assert!(pin!(qp.recv_cq_room(1)).poll(&mut task).is_pending());
    let qp = qp.to_error().unwrap();
    poll(&dev, &mut receives, 2);
    assert_eq!(receives.unbooked(), 2);
    drop(qp);
    poll_empty(&mut receives);
    assert_eq!(receives.unbooked(), receives.capacity());
}

/// Notes that it was woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

type Room<'a> = Pin<&'a mut dyn Future<Output = Result<(), proverbs::Error>>>;

/// A refused post can wait: the poll that makes room wakes, and so do the end of a
/// queue pair and the end of the poller.
/// Ends: QueuePair::recv_cq_room, QueuePair::send_cq_room.
#[test]
fn a_task_waits_for_room_in_a_budget() {
    let mut crowd = Crowd::<DefaultProfile>::new(4, 1, Depth { send: 64, recv: 64 });
    let (capacity, at) = (crowd.cq.capacity(), crowd.region.remote().write());
    let write = || wr::RdmaWrite::inline(b"8 bytes!", at);
    let pool = crowd.pd.create_pool(64, 64).unwrap();
    let receive = || wr::Recv::new(pool.take().unwrap());
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(flag.clone());
    let mut task = Task::from_waker(&waker);
    // The available room; `None` if the task has to wait.
    let mut now = |room: &mut Room<'_>| match room.as_mut().poll(&mut task) {
        Poll::Ready(Ok(())) => Some(None),
        Poll::Ready(Err(error)) => Some(Some(error)),
        Poll::Pending => None,
    };
    let [mut a, mut b] = <[_; 2]>::try_from(std::mem::take(&mut crowd.qps)).unwrap();
    let mut room: Room<'_> = pin!(a.send_cq_room(capacity));
    assert!(matches!(now(&mut room), Some(None)));
    let mut room: Room<'_> = pin!(a.recv_cq_room(capacity + 1));
    let Some(Some(error)) = now(&mut room) else { panic!() };
    assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
    for _ in 0..capacity {
        a.post_send(write()).unwrap();
    }
    {
        let mut one: Room<'_> = pin!(b.send_cq_room(1));
        let mut two: Room<'_> = pin!(b.recv_cq_room(2));
        assert!(now(&mut one).is_none() && now(&mut two).is_none());
        poll(&crowd.dev, &mut crowd.cq, 1);
        assert!(flag.0.swap(false, Relaxed));
        assert!(matches!((now(&mut one), now(&mut two)), (Some(None), None)));
        poll(&crowd.dev, &mut crowd.cq, 1);
        assert!(flag.0.swap(false, Relaxed));
        assert!(matches!(now(&mut two), Some(None)));
    }
    poll(&crowd.dev, &mut crowd.cq, capacity as usize - 2);

    // A queue pair that ends.
    for _ in 0..capacity {
        b.post_recv(receive()).unwrap();
    }
    let mut room: Room<'_> = pin!(a.recv_cq_room(1));
    assert!(now(&mut room).is_none());
    drop(b);
    poll_empty(&mut crowd.cq);
    assert!(flag.0.swap(false, Relaxed));
    assert!(matches!(now(&mut room), Some(None)));

    // The queue is not polled any more.
    crowd.add(Depth { send: 64, recv: 64 });
    let mut c = crowd.qps.pop().unwrap();
    c.post_recv(receive()).unwrap();
    for _ in 0..capacity - 1 {
        a.post_recv(receive()).unwrap();
    }
    let mut room: Room<'_> = pin!(a.recv_cq_room(1));
    assert!(now(&mut room).is_none());
    drop(crowd.cq);
    assert!(flag.0.swap(false, Relaxed));
    let Some(Some(error)) = now(&mut room) else { panic!() };
    assert_eq!(*error.kind(), ErrorKind::CqGone);
    // Room of ended queue pairs stays taken: their completions may still be queued.
    drop(c);
    assert_eq!(kind(a.post_recv(receive())), full(1));
    assert!(error.to_string().contains("the completion queue was dropped"), "{error}");
}

/// Posters on their threads, each with a queue pair, and one thread that polls.
/// Ends: QueuePair::send_cq_room.
#[test]
fn threads_share_a_budget() {
    const POSTERS: usize = 3;
    let each = if cfg!(miri) { 20 } else { 2000 };
    let mut crowd = Crowd::<DefaultProfile>::new(5, POSTERS, Depth { send: 64, recv: 0 });
    let (capacity, at) = (crowd.cq.capacity(), crowd.region.remote().write());
    let left = AtomicU32::new(each * POSTERS as u32);
    let qps = std::mem::take(&mut crowd.qps);
    thread::scope(|scope| {
        let mut qps = qps.into_iter();
        while let (Some(mut a), Some(b)) = (qps.next(), qps.next()) {
            scope.spawn(move || {
                let mut sent = 0;
                while sent < each {
                    match a.post_send(wr::RdmaWrite::inline(b"8 bytes!", at)) {
                        Ok(()) => sent += 1,
                        Err(error) if error.kind() == full(1) => {
                            block_on(a.send_cq_room(1)).unwrap()
                        }
                        // Its own completions are counted when they are taken.
                        Err(error) if error.is_full() => thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
                while a.sends_outstanding() > 0 {
                    thread::yield_now();
                }
                drop((a, b));
            });
        }
        let mut deadline = crowd.dev.deadline("the completions");
        while left.load(Relaxed) > 0 {
            let mut found = 0;
            for completion in crowd.cq.poll().unwrap() {
                completion.status().unwrap();
                found += 1;
            }
            match left.fetch_sub(found, Relaxed) {
                left if found == 0 => deadline.tick(&left),
                _ => deadline = crowd.dev.deadline("the completions"),
            }
        }
    });
    poll_empty(&mut crowd.cq);
    assert_eq!(crowd.cq.unbooked(), capacity);
}

/// Waits on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Task::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
