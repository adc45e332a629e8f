//! Lanes: objects that one thread uses, for which the provider has no locks.

use std::sync::{Barrier, mpsc};
use std::thread;

use proverbs::device::Lane;
use proverbs::ext::windows::Windowed;
use proverbs::prelude::*;
use proverbs::qp::{Drained, Max};

use crate::support::*;

profile! { Fast { threads: InLane } }
profile! { FastRing { threads: InLane, signaling: Selective, initiator: NoReads } }
profile! { FastServed { threads: InLane, receive: SharedRq } }

type Cq = CompletionQueue<Buf, InLane>;
type Qp<P = Fast> = QueuePair<Rc, Rts, P>;

const EOPNOTSUPP: i32 = 95;
const DEPTH: Depth = Depth { send: 4, recv: 4 };

/// Polls until this many sends and receives completed. Returns the last received entry.
fn until_done(dev: &Device, cq: &mut Cq, mut sends: usize, mut receives: usize) -> Option<Buf> {
    let mut deadline = dev.deadline("completions must come");
    let mut last = None;
    while sends + receives != 0 {
        match cq.poll_one().unwrap().map(Completion::outcome) {
            Some(Outcome::Sent(_)) => sends -= 1,
            Some(Outcome::Received(received)) => {
                receives -= 1;
                last = received.entry;
            }
            Some(_) => panic!("a successful send or receive"),
            None => deadline.tick(&(sends, receives)),
        }
    }
    last
}

/// Two lanes of one domain, each on its own thread, echo a number to each other.
/// Proves R17.8.
#[test]
fn two_lanes_communicate() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(8, 64).unwrap();
    let (to_one, from_two) = mpsc::channel();
    let (to_two, from_one) = mpsc::channel();
    // A message to an unconnected queue pair would be lost.
    let connected = Barrier::new(2);
    let end = |number: mpsc::Sender<u32>, peer: mpsc::Receiver<u32>, begins: bool| {
        let (dev, pd, pool, connected) = (&dev, &pd, &pool, &connected);
        move || {
            let lane = pd.alloc_lane().unwrap();
            let mut cq: Cq = lane.create_cq(16).unwrap();
            let qp = lane.create_qp::<Rc, Fast>(&cq, &cq, DEPTH).unwrap();
            number.send(qp.qp_num()).unwrap();
            let mut qp = Rc::up(qp, dev, peer.recv().unwrap(), &Wish::new());
            connected.wait();
            let mut at_hand = begins.then(|| filled(pool, &[0; 8]));
            for round in 1..=6u8 {
                qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
                let sends = usize::from(at_hand.is_some());
                if let Some(buf) = at_hand.take() {
                    qp.post_send(wr::Send::new(buf)).unwrap();
                }
                let mut buf = until_done(dev, &mut cq, sends, 1).unwrap();
                buf[0] += 1;
                assert_eq!(buf[0], 2 * round - u8::from(!begins));
                at_hand = Some(buf);
            }
            if !begins {
                qp.post_send(wr::Send::new(at_hand.unwrap())).unwrap();
                until_done(dev, &mut cq, 1, 0);
            }
            let mut qp = qp.to_error().unwrap();
            qp.drain(&mut cq, |_| ()).unwrap();
            qp.destroy().unwrap();
            cq.destroy().unwrap();
            lane.destroy().unwrap();
        }
    };
    thread::scope(|scope| {
        scope.spawn(end(to_two, from_two, true));
        scope.spawn(end(to_one, from_one, false));
    });
    assert_eq!(pool.available(), 8);
    drop(pool);
    pd.destroy().unwrap();
}

struct Ground {
    dev: Device,
    pd: ProtectionDomain,
    pool: Pool,
    lane: Lane,
    cq: Cq,
}

impl Ground {
    fn new() -> Ground {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(8, 64).unwrap();
        let lane = pd.alloc_lane().unwrap();
        let cq = lane.create_cq(60).unwrap();
        Ground { dev, pd, pool, lane, cq }
    }

    /// A sender, and a queue pair that receives from `srq` into a separate queue.
    fn served(&self, srq: &Srq, receives: &Cq) -> (Qp, Qp<FastServed>) {
        let from = self.lane.create_qp::<Rc, Fast>(&self.cq, &self.cq, DEPTH).unwrap();
        let to = self.lane.create_qp::<Rc, FastServed>(&self.cq, receives, Depth::on_srq(4, srq));
        let (to, wish) = (to.unwrap(), Wish::new());
        Rc::connect((from, &self.lane), (to, &self.lane), &self.dev, &wish)
    }
}

type Srq = SharedReceiveQueue<Rc, Buf, Max<1>, InLane>;

/// Deferred, orphaned and outstanding objects end on the lane's thread, in whatever order its
/// members are dropped. (The loopback device checks the calling thread.)
/// Proves R17.8.
#[test]
fn the_members_of_a_lane_are_dropped_in_any_order() {
    for order in 0..6 {
        let ground = Ground::new();
        let mut srq: Srq = ground.lane.create_srq(&ground.pool).unwrap();
        let mut receives: Cq = ground.lane.create_cq(60).unwrap();
        let (mut from, to) = ground.served(&srq, &receives);
        for _ in 0..3 {
            srq.post_srq_recv(wr::Recv::new(ground.pool.take().unwrap())).unwrap();
        }
        // One message is received, and not polled before the receiver is gone.
        from.post_send(wr::Send::new(filled(&ground.pool, &[1; 8]))).unwrap();
        from.post_recv(wr::Recv::new(ground.pool.take().unwrap())).unwrap();
        let Ground { dev, pd, pool, lane, mut cq } = ground;
        until_done(&dev, &mut cq, 1, 0);
        drop(lane);
        match order {
            0 => {
                drop(to); // deferred: its completion queue's poll destroys it
                while receives.poll_one().unwrap().is_some() {}
                while receives.poll_one().unwrap().is_some() {}
                drop((from, srq, receives, cq));
            }
            1 => drop((to, receives, srq, from, cq)),
            2 => drop((to, srq, cq, receives, from)),
            3 => drop((srq, cq, from, to, receives)),
            4 => drop((receives, cq, to, from, srq)),
            _ => drop((cq, srq, receives, from, to)),
        }
        assert_eq!(pool.available(), 8, "order {order}");
        drop(pool);
        pd.destroy().unwrap();
    }
}

/// Two lanes of one thread are never used concurrently, so a queue pair of one may complete into a
/// queue of the other.
/// Proves R17.9.
#[test]
fn lanes_of_one_thread_share_completion_queues() {
    fails_on!(NoRings);
    let ground = Ground::new();
    let other = ground.pd.alloc_lane().unwrap();
    let one = ground.lane.create_qp::<Rc, FastRing>(&ground.cq, &ground.cq, DEPTH).unwrap();
    let two = other.create_qp::<Rc, Fast>(&ground.cq, &ground.cq, DEPTH).unwrap();
    let wish = Wish::new();
    let (mut one, mut two) = Rc::connect((one, &ground.lane), (two, &other), &ground.dev, &wish);
    let Ground { pool, mut cq, dev, .. } = ground;
    two.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    one.post_send(wr::Send::new(filled(&pool, &[7; 8]))).unwrap();
    let (mut sent, mut received) = (0, 0);
    let mut deadline = dev.deadline("both complete");
    while sent + received < 2 {
        match cq.poll_one().unwrap() {
            Some(completion) => match one.complete(completion) {
                Ok(done) => sent += done.released.count(),
                Err(other) => received += usize::from(other.into_entry().is_some()),
            },
            None => deadline.tick(&(sent, received)),
        }
    }
    let mut two = two.to_error().unwrap();
    let mut others = 0;
    two.drain(&mut cq, |found| others += usize::from(matches!(found, Drained::Other(_)))).unwrap();
    assert_eq!((sent, received, others, pool.available()), (1, 1, 0, 8));
}

/// A thread sleeps for a lane's completions, or resets its queue pair, in the lane.
/// Proves R17.9.
#[test]
fn a_lane_sleeps_resets_and_resizes() {
    fails_on!(Iwarp, "R24.5");
    let ground = Ground::new();
    let mut channel = ground.dev.ctx.create_comp_channel().unwrap();
    let vector = ground.dev.ctx.comp_vectors().pop().unwrap();
    let other: Cq = ground.lane.cq(8).channel(&channel).vector(&vector).create().unwrap();
    let mut cq: Cq = ground.lane.cq(8).channel(&channel).create().unwrap();
    assert_ne!(other.id(), cq.id());
    let elsewhere = Device::open();
    let stranger = elsewhere.ctx.comp_vectors().pop().unwrap();
    let refused =
        ground.lane.cq(8).channel(&channel).vector(&stranger).create::<Buf>().unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::ContextMismatch { .. }), "{refused}");
    let qp = ground.lane.create_qp::<Rc, Fast>(&cq, &cq, Depth { send: 1, recv: 1 }).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let mut qp = qp.modify(init).unwrap();
    qp.post_recv(wr::Recv::new(ground.pool.take().unwrap())).unwrap();
    let qp = qp.to_error().unwrap();
    let flushed: Vec<_> =
        channel.wait(&mut cq).unwrap().filter_map(Completion::into_entry).collect();
    assert_eq!(flushed.len(), 1);
    drop(flushed);
    let qp = qp.reset().unwrap();
    assert_eq!(qp.query().unwrap().dest_qpn, 0);
    drop(qp);
    if let Err(error) = cq.resize(16) {
        assert_eq!(error.errno(), Some(EOPNOTSUPP), "{error}");
    }
    assert_eq!(ground.pool.reclaim(&mut cq), 0);
    assert_eq!(ground.pool.available(), 8);
}

/// The lane reports whether the device has thread domains; nothing else depends on it.
/// Proves R17.2.
#[test]
fn a_lane_reports_whether_it_has_locks() {
    let ground = Ground::new();
    let has = ground.lane.has_thread_domain();
    if ground.dev.kind == Kind::Rxe {
        assert!(!has, "Soft-RoCE has no thread domains");
    }
    println!("thread domain: {has}, single-threaded: {}", ground.cq.is_single_threaded());
    let lane = ground.lane.clone();
    assert_eq!(lane.has_thread_domain(), has);
    // The lane uses the domain.
    let pd = ground.pd.destroy().unwrap_err().into_object();
    drop((lane, ground.cq, ground.lane, ground.pool));
    pd.destroy().unwrap();
}

profile! { FastWindows { threads: InLane, entry: AnyBuf } }

/// A memory window is not a member of a lane: it may be dropped on another thread while its queue
/// pair lives.
#[test]
fn a_window_of_a_lane_may_leave_the_thread() {
    fails_on!(Iwarp, "R24.5");
    fails_on!(KeptRegions);
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let lane = pd.alloc_lane().unwrap();
    let mut cq: CompletionQueue<AnyBuf, InLane> = lane.create_cq(8).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    let mut qp = lane.create_qp::<Rc, FastWindows>(&cq, &cq, depth).unwrap();
    let (window, unused) = (qp.alloc_mw().unwrap(), qp.alloc_mw().unwrap());
    let region = pd.register::<Windowed<LocalWrite>>(64).unwrap();
    let bind = ext::windows::BindMw::<RemoteRead>::new(window, &region, 0..8).unwrap();
    assert_eq!(bind.remote().len(), 8); // of the same domain as the region
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let mut qp = qp.modify(init).unwrap().to_error().unwrap();
    qp.post_send(bind).unwrap();
    let mut back = None;
    until(&dev, "the flush", || {
        back = cq.poll_one().unwrap().and_then(Completion::into_entry);
        back.is_some()
    });
    let Some(AnyBuf::Window(window)) = back else { panic!("{back:?}") };
    let ends = move || {
        window.destroy().unwrap();
        drop(unused);
    };
    thread::spawn(ends).join().unwrap();
    region.destroy().unwrap();
    drop((qp, cq, lane));
    pd.destroy().unwrap();
}
