//! Buffers and room of queues that are gone return by themselves, whatever else the completion
//! queue is used for. And nothing is lost by how a program uses completions, short of taking them
//! apart.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proverbs::completion::{Completions, Notify, WcOpcode};
use proverbs::prelude::*;
use proverbs::qp::Drained;
use proverbs::state::QpState;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }

/// How a program polls.
#[derive(Clone, Copy, Debug)]
enum Way {
    Poll,
    PollOne,
    PollOrArm,
    Wait,
}

/// (A load is slow under Miri, and other tests there cover the other ways to poll.)
const WAYS: &[Way] =
    if cfg!(miri) { &[Way::Poll] } else { &[Way::Poll, Way::PollOne, Way::PollOrArm, Way::Wait] };

/// A server's completion queue, kept busy by a queue pair that writes to its own memory.
struct Busy {
    dev: Device,
    pd: ProtectionDomain,
    channel: CompletionChannel,
    cq: CompletionQueue,
    neighbour: QueuePair<Rc, Rts>,
    region: MemoryRegion<RemoteWrite>,
    pool: Pool,
    /// The number of the neighbour's completions that are always available or in flight.
    load: usize,
}

/// The depth of the queue pair that comes and goes.
const DEPTH: Depth = Depth { send: 2, recv: 3 };
const LIVES: usize = if cfg!(miri) { 3 } else { 100 };
/// A load that fills every poll, even after half of it was polled.
const HEAVY: usize = if cfg!(miri) { 24 } else { 40 };

impl Busy {
    fn new(load: usize) -> Busy {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let channel = dev.ctx.create_comp_channel().unwrap();
        let depth = Depth { send: load as u32, recv: 0 };
        // Room for the neighbour, and for two queue pairs that come and go.
        let room = depth.send + 1 + 2 * (DEPTH.send + 1 + DEPTH.recv);
        let cq = dev.ctx.cq(room).channel(&channel).create().unwrap();
        let pool = pd.create_pool(4 * DEPTH.recv as usize, 64).unwrap();
        let region = pd.register::<RemoteWrite>(8).unwrap();
        let neighbour = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let number = neighbour.qp_num();
        let neighbour = Rc::up(neighbour, &dev, number, &Wish::new());
        Busy { dev, pd, channel, cq, neighbour, region, pool, load }
    }

    fn keep_busy(&mut self) {
        while self.neighbour.sends_outstanding() < self.load {
            let to = self.region.remote().write();
            self.neighbour.post_send(wr::RdmaWrite::inline(b"8 bytes!", to)).unwrap();
        }
    }

    /// One poll. It takes at most half of the available completions, so that some always remain.
    fn poll(&mut self, way: Way) {
        self.keep_busy();
        match way {
            Way::Poll => self.cq.poll().unwrap().take(8).for_each(drop),
            Way::PollOne => drop(self.cq.poll_one().unwrap()),
            Way::PollOrArm => self.cq.poll_or_arm(Notify::Any).unwrap().take(8).for_each(drop),
            Way::Wait => self.channel.wait(&mut self.cq).unwrap().take(8).for_each(drop),
        }
    }

    fn lives(mut self, way: Way) {
        let depth = DEPTH;
        let mut polls = 0;
        for life in 0..LIVES {
            let qp = loop {
                // There are buffers and room, or there will be; no idle moment is needed. (A device
                // that grants more room than requested runs out of buffers first.)
                let has_buffers = self.pool.available() >= depth.recv as usize;
                match self.pd.create_qp::<Rc, DefaultProfile>(&self.cq, &self.cq, depth) {
                    Ok(qp) if has_buffers => break qp,
                    Ok(_) => {}
                    Err(error) => {
                        // A larger queue would be enough. So would the polls that the next rounds
                        // make.
                        let ErrorKind::CqTooSmall { enough, .. } = *error.kind() else {
                            panic!("{error}")
                        };
                        assert!(enough > self.cq.capacity());
                    }
                }
                polls += 1;
                assert!(polls < 100 * (LIVES + 10), "life {life}: no room or no buffers, {way:?}");
                self.poll(way);
            };
            let number = qp.qp_num();
            let mut qp = Rc::up(qp, &self.dev, number, &Wish::new());
            while qp.recv_room() > 0 {
                qp.post_recv(wr::Recv::new(self.pool.take().unwrap())).unwrap();
            }
            if life % 3 == 0 {
                qp.post_send(wr::Send::inline(b"to itself")).unwrap();
            }
            for _ in 0..2 {
                self.poll(way);
            }
            drop(qp);
        }
        for _ in 0..if cfg!(miri) { 20 } else { 100 } {
            self.poll(way);
        }
        assert_eq!(self.pool.available(), self.pool.count(), "{way:?}, load {}", self.load);
        let neighbour = self.load as u32 + 1;
        assert_eq!(self.cq.capacity() - self.cq.unbooked(), neighbour, "{way:?}");
    }
}

/// Polls return fewer completions than requested, but never none.
///
/// Room of destroyed queue pairs is released though no poll finds the queue empty.
/// Buffers of a dropped queue pair return just by polls, without `reclaim`.
#[test]
fn under_a_light_load() {
    fails_on!(Iwarp, "R24.5");
    for &way in WAYS {
        Busy::new(4).lives(way);
    }
}

/// Every poll is filled.
///
/// Room of destroyed queue pairs is released though each poll fills its batch.
#[test]
fn under_a_heavy_load() {
    fails_on!(Iwarp, "R24.5");
    for &way in WAYS {
        Busy::new(HEAVY).lives(way);
    }
}

/// A queue pair with nothing outstanding releases its room without a poll.
#[test]
fn room_returns_without_a_poll() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let wish = Wish::new();
    let pool = pd.create_pool(4, 64).unwrap();
    // Exactly the room that one queue pair books.
    let mut cq: CompletionQueue = dev.ctx.create_cq(8).unwrap();
    let depth = Depth { send: 4, recv: cq.capacity() - 5 };
    for life in 0..12 {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let number = qp.qp_num();
        match life % 4 {
            // Never used.
            0 => drop(qp),
            1 => qp.destroy().unwrap(),
            // Everything completed.
            2 => {
                let mut qp = Rc::up(qp, &dev, number, &wish);
                qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
                qp.post_send(wr::Send::new(filled(&pool, b"to itself"))).unwrap();
                poll(&dev, &mut cq, 2);
            }
            // Drained.
            _ => {
                let mut qp = Rc::up(qp, &dev, number, &wish);
                qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
                let mut qp = qp.to_error().unwrap();
                qp.drain(&mut cq, |_| ()).unwrap();
            }
        }
        assert_eq!((cq.unbooked(), pool.available()), (cq.capacity(), 4), "life {life}");
    }
    // Outstanding work may still complete.
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let number = qp.qp_num();
    let mut qp = Rc::up(qp, &dev, number, &wish);
    qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    drop(qp);
    assert_eq!(
        cq.unbooked(),
        cq.capacity() - depth.recv,
        "room for the sends is back, room for \
        the receives is not"
    );
    assert_eq!(poll_empty(&mut cq), 0);
    assert_eq!((cq.unbooked(), pool.available()), (cq.capacity(), 4));
}

/// The room of each direction is in its own completion queue. It stays booked until no completion
/// can arrive there.
///
/// The completion queue of the receives does not release room for sends that complete
/// elsewhere.
#[test]
fn room_in_two_completion_queues_is_released_separately() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let region = pd.register::<RemoteWrite>(8).unwrap();
    let pool = pd.create_pool(1, 64).unwrap();
    let mut sends: CompletionQueue = dev.ctx.create_cq(8).unwrap();
    let mut receives: CompletionQueue = dev.ctx.create_cq(8).unwrap();
    let depth = Depth { send: 4, recv: 3 };
    for is_send in [true, false] {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&sends, &receives, depth).unwrap();
        let number = qp.qp_num();
        let mut qp = Rc::up(qp, &dev, number, &Wish::new());
        if is_send {
            let wr = wr::RdmaWrite::new(filled(&pool, b"a write"), region.remote().write());
            qp.post_send(wr).unwrap();
        } else {
            qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        }
        drop(qp);
        let booked = |cq: &CompletionQueue| cq.capacity() - cq.unbooked();
        let (sent, received) = if is_send { (depth.send + 1, 0) } else { (0, depth.recv) };
        assert_eq!((booked(&sends), booked(&receives)), (sent, received), "{is_send}");
        until(&dev, "its end", || {
            poll_empty(&mut sends);
            poll_empty(&mut receives);
            booked(&sends) == 0 && booked(&receives) == 0 && pool.available() == 1
        });
    }
}

/// The room of a ring also returns, and its stale completion then releases nothing.
#[test]
fn room_of_a_ring_returns_without_a_poll() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    for i in 0..2 {
        let wr = wr::RdmaWrite::new(filled(&p.pool, &[i]), region.remote().write());
        p.a.post_send(wr).unwrap();
    }
    let free = p.ca.unbooked();
    let mut stale = Vec::new();
    until(&p.dev, "both completions", || {
        let mut completions: Vec<_> = p.ca.poll().unwrap().collect();
        match completions.len() {
            2 => {
                let last = completions.pop().unwrap();
                assert_eq!(p.a.complete(last).map_err(drop).unwrap().released.count(), 2);
                stale.push(completions.pop().unwrap().qp_num());
                true
            }
            n => {
                completions.into_iter().for_each(std::mem::forget);
                n != 0
            }
        }
    });
    if stale.is_empty() {
        // They arrived one by one.
        return;
    }
    let recvs = 8;
    p.a.destroy().unwrap();
    assert_eq!(p.ca.unbooked(), free + 8 + 1 + recvs);
    assert_eq!((poll_empty(&mut p.ca), p.ca.unbooked()), (0, p.ca.capacity()));
}

/// A queue pair fails and is dropped at the first failure. Its buffers are available to the next
/// one.
///
/// Dropping a queue pair does not lose receives of its shared receive queue on mlx5.
#[test]
fn a_server_whose_clients_crash() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let wish = Wish::new();
    let (feed, pool) = (pd.create_pool(4, 64).unwrap(), pd.create_pool(2, 64).unwrap());
    let mut cq = dev.ctx.create_cq::<Buf>(64).unwrap();
    let mut clients = dev.ctx.create_cq::<Buf>(64).unwrap();
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&feed).unwrap();
    let depth = Depth { send: 4, recv: 4 };
    for _ in 0..if cfg!(miri) { 3 } else { 12 } {
        while let Some(buf) = feed.take() {
            srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
        }
        let client = pd.create_qp::<Rc, DefaultProfile>(&clients, &clients, depth).unwrap();
        let server = pd.create_qp::<Rc, Server>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
        let (mut client, mut server) = Rc::connect((client, &pd), (server, &pd), &dev, &wish);
        for _ in 0..3 {
            client.post_send(wr::Send::inline(b"a question")).unwrap();
        }
        poll(&dev, &mut clients, 3);
        // One question is answered. The answer fails, since the client crashed.
        let question = poll(&dev, &mut cq, 1).remove(0).received();
        assert_eq!(question.data(), b"a question");
        drop((question, client));
        server.post_send(wr::Send::new(filled(&pool, b"an answer"))).unwrap();
        drop(server);
        // The other two questions may or may not be there, depending on the device; no buffer is
        // lost.
        poll_empty(&mut cq);
        assert_eq!(pool.available(), 2);
        poll_empty(&mut clients);
        assert_eq!(feed.available() + srq.recvs_outstanding(), 4);
        assert_eq!(clients.unbooked(), clients.capacity());
    }
    srq.destroy().unwrap();
    poll_empty(&mut cq);
    assert_eq!((feed.available(), cq.unbooked()), (4, cq.capacity()));
}

profile! { pub Server { receive: SharedRq } }
profile! { pub RingServer { receive: SharedRq, signaling: Selective, initiator: NoReads } }

/// A client, and a server that receives from a shared receive queue and has three unpolled
/// questions.
pub struct Asked<P: Profile> {
    pub dev: Device,
    pub pd: ProtectionDomain,
    pub feed: Pool,
    pub pool: Pool,
    pub sends: CompletionQueue,
    pub receives: CompletionQueue,
    pub clients: CompletionQueue,
    pub srq: SharedReceiveQueue<Rc>,
    pub client: QueuePair<Rc, Rts>,
    pub server: QueuePair<Rc, Rts, P>,
}

/// Sends three questions.
fn ask(client: &mut QueuePair<Rc, Rts>) {
    for _ in 0..3 {
        client.post_send(wr::Send::inline(b"a question")).unwrap();
    }
}

impl<P: Profile<Entry = Buf, Receive = SharedRq, Threads = AnyThread>> Asked<P>
where
    Rc: Bring<P>,
{
    pub fn new() -> Self {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let wish = Wish::new();
        let (feed, pool) = (pd.create_pool(5, 64).unwrap(), pd.create_pool(2, 64).unwrap());
        let [sends, receives, mut clients] = [(); 3].map(|()| dev.ctx.create_cq(64).unwrap());
        let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&feed).unwrap();
        while let Some(buf) = feed.take() {
            srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
        }
        let depth = Depth { send: 4, recv: 4 };
        let client = pd.create_qp::<Rc, DefaultProfile>(&clients, &clients, depth).unwrap();
        let server = pd.create_qp::<Rc, P>(&sends, &receives, Depth::on_srq(4, &srq)).unwrap();
        let (mut client, server) =
            <Rc as Bring<DefaultProfile>>::connect((client, &pd), (server, &pd), &dev, &wish);
        ask(&mut client);
        poll(&dev, &mut clients, 3);
        Asked { dev, pd, feed, pool, sends, receives, clients, srq, client, server }
    }
}

/// A device may remove a queue pair's completions when it is destroyed. So the queue pair is
/// destroyed only after they were polled.
#[test]
fn a_dropped_server_keeps_its_questions() {
    let Asked { dev, feed, pool, mut sends, mut receives, mut srq, client, mut server, .. } =
        Asked::<Server>::new();
    server.post_send(wr::Send::new(filled(&pool, b"nobody listens"))).unwrap();
    drop(server);
    // From here on it receives nothing.
    let mut client = client;
    client.post_send(wr::Send::inline(b"too late")).unwrap();
    for left in (2..5).rev() {
        let question = poll(&dev, &mut receives, 1).remove(0).received();
        assert_eq!(question.data(), b"a question");
        assert_eq!(srq.recvs_outstanding(), left);
    }
    // Now it is destroyed, and its buffers return, whether they were flushed or not.
    assert_eq!(poll_empty(&mut receives), 0);
    poll_empty(&mut sends);
    poll_empty(&mut sends);
    assert_eq!((pool.available(), feed.available()), (2, 3));
    assert_eq!(sends.unbooked(), sends.capacity());
    assert_eq!(
        receives.unbooked(),
        receives.capacity() - 5,
        "they belong to the shared receive \
        queue"
    );
    srq.post_srq_recv(wr::Recv::new(feed.take().unwrap())).unwrap();
    assert_eq!(srq.recvs_outstanding(), 3);
    drop(client);
}

/// The same after it was moved to ERR and drained: it is destroyed at once, and nothing is left.
#[test]
fn a_drained_server_is_destroyed_at_once() {
    fails_on!(NoRings);
    let Asked { feed, mut sends, mut receives, srq, client, server, .. } =
        Asked::<RingServer>::new();
    let mut server = server.to_error().unwrap();
    server.drain(&mut sends, |_| panic!("nothing was sent")).unwrap();
    let mut questions = 0;
    server
        .drain(&mut receives, |found| match found {
            Drained::Entry(_) => panic!("it has no receives of its own"),
            Drained::Other(completion) => questions += completion.status().is_ok() as u32,
        })
        .unwrap();
    assert_eq!(questions, 3);
    drop(server);
    assert_eq!(sends.unbooked(), sends.capacity(), "nothing waits for a poll");
    assert_eq!((feed.available(), srq.recvs_outstanding()), (3, 2));
    drop(client);
    srq.destroy().unwrap();
}

/// The objects that a dropped queue pair needs may be dropped before it, in any order, or be
/// destroyed in the documented order.
#[test]
fn a_dropped_server_blocks_no_other_object() {
    fails_on!(NoRings);
    // (Destroying frees objects like dropping, which is all that Miri checks.)
    for order in if cfg!(miri) { 3..6 } else { 0..6 } {
        let asked = Asked::<RingServer>::new();
        let Asked { dev, pd, feed, pool, sends, receives, clients, srq, client, mut server } =
            asked;
        server.post_send(wr::Send::new(filled(&pool, b"nobody listens"))).unwrap();
        drop((client, server));
        clients.destroy().unwrap();
        match order {
            0 => {
                srq.destroy().unwrap();
                receives.destroy().unwrap();
                sends.destroy().unwrap();
            }
            1 => {
                receives.destroy().unwrap();
                sends.destroy().unwrap();
                srq.destroy().unwrap();
            }
            2 => {
                sends.destroy().unwrap();
                srq.destroy().unwrap();
                receives.destroy().unwrap();
            }
            3 => drop((srq, receives, sends)),
            4 => drop((receives, srq, sends)),
            _ => drop((sends, receives, srq)),
        }
        assert_eq!((feed.available(), pool.available()), (5, 2), "order {order}");
        feed.destroy().unwrap();
        pool.destroy().unwrap();
        pd.destroy().unwrap();
        let_ids_go();
        dev.ctx.destroy().unwrap();
    }
}

/// The last queue pair ends after the shared receive queue was dropped.
#[test]
fn a_server_that_outlives_its_shared_receive_queue() {
    let Asked { pd, feed, pool, sends, receives, srq, client, server, .. } = Asked::<Server>::new();
    drop(srq);
    drop((client, server));
    assert_eq!(sends.unbooked(), sends.capacity(), "nothing keeps it waiting");
    drop((sends, receives));
    assert_eq!((feed.available(), pool.available()), (5, 2));
    feed.destroy().unwrap();
    pool.destroy().unwrap();
    drop(pd);
}

/// A held completion is unaffected by its iterator, or another one, being dropped or moved.
///
/// Under Miri, a completion that outlives its iterator refers to no batch that the
/// iterator borrows exclusively.
#[test]
fn a_completion_outlives_its_iterator() {
    fn both(completions: Completions<'_, Buf>, completion: Completion<'_, Buf>) -> Option<Buf> {
        drop(completions);
        completion.into_entry()
    }
    let mut p = Pair::<Rc>::new();
    let mut other = Pair::<Rc>::new();
    let arrive = |p: &mut Pair<Rc>| {
        for i in 0..4 {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
        }
        poll(&p.dev, &mut p.ca, 4);
    };
    for _ in 0..2 {
        arrive(&mut p);
        let completion = p.cb.poll().unwrap().next().unwrap();
        let Outcome::Received(message) = completion.outcome() else { panic!("a receive") };
        assert_eq!(message.data()[0], 0);
        let kept: Vec<_> = p.cb.poll().unwrap().take(2).collect();
        assert_eq!(kept.iter().filter(|kept| kept.status().is_ok()).count(), 2);
        drop(kept);
        let mut completions = p.cb.poll().unwrap();
        let completion = completions.next().unwrap();
        assert_eq!(both(completions, completion).unwrap()[0], 3);
    }
    // The two iterators are swapped.
    arrive(&mut p);
    arrive(&mut other);
    let (mut one, mut two) = (p.cb.poll().unwrap(), other.cb.poll().unwrap());
    let held = [one.next().unwrap(), two.next().unwrap()];
    std::mem::swap(&mut one, &mut two);
    let more = one.next().unwrap();
    drop((two, one));
    assert!(held.iter().chain([&more]).all(|held| held.opcode() == Some(WcOpcode::Recv)));
    drop((held, more));
    assert_eq!((poll_empty(&mut p.cb), poll_empty(&mut other.cb)), (3, 2));
    // A panic while some completions are held.
    arrive(&mut p);
    let mut kept = Vec::new();
    let completions = p.cb.poll().unwrap();
    let panics = AssertUnwindSafe(|| {
        completions.for_each(|completion| {
            kept.push(completion);
            assert!(kept.len() < 2, "on purpose");
        })
    });
    assert!(catch_unwind(panics).is_err());
    assert_eq!(kept.into_iter().filter_map(Completion::into_entry).count(), 2);
    assert_eq!((poll_empty(&mut p.cb), p.pool.available()), (2, 40));
}

/// A buffer that is forgotten and posted again, on a queue that ends and on one that stays, has one
/// owner at a time.
#[test]
fn a_forgotten_buffer_returns_once() {
    let mut p = Pair::<Rc>::new();
    for i in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    poll(&p.dev, &mut p.ca, 3);
    let mut completions = p.cb.poll().unwrap();
    drop(p.b);
    let first = completions.next().unwrap().into_entry().unwrap();
    std::mem::forget(completions.next());
    std::mem::forget(completions);
    assert_eq!(p.pool.available(), 37);
    // After this poll no completion of the queue pair can arrive.
    assert_eq!(poll_empty(&mut p.cb), 0);
    assert_eq!((p.pool.available(), first[0]), (39, 0));
    drop(first);
    assert_eq!((p.pool.reclaim(&mut p.cb), p.pool.available()), (0, 40));
}

/// `_ => {}` for every polled completion.
///
/// A dropped completion of a selectively signaled queue pair still releases its entries.
#[test]
fn dropped_completions_of_a_ring_release_their_entries() {
    fails_on!(NoRings);
    let wish = Wish { depth: Depth { send: 4, recv: 0 }, ..Wish::new() };
    let mut p = Pair::<Rc, Ring>::with(&wish);
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    let write = |i: u8| wr::RdmaWrite::new(filled(&p.pool, &[i]), region.remote().write());
    let mut seen = 0;
    for round in 0..3 * 4 {
        p.a.post_send(write(round)).unwrap();
        seen += 1;
        while seen >= 4 || (round == 11 && seen > 0) {
            for completion in p.ca.poll().unwrap() {
                seen -= 1;
                match completion.outcome() {
                    Outcome::Sent(_) => unreachable!("a ring"),
                    _ if round % 2 == 0 => {}
                    Outcome::Selective(completion) => assert!(completion.into_entry().is_none()),
                    _ => {}
                }
            }
        }
    }
    assert_eq!((p.a.sends_outstanding(), p.a.send_room(), p.pool.available()), (0, 4, 40));
    // In any order: the last one covers all.
    for i in 0..3 {
        p.a.post_send(write(i)).unwrap();
    }
    let mut count = 0;
    until(&p.dev, "three completions", || {
        let mut some: Vec<_> = p.ca.poll().unwrap().collect();
        count += some.len();
        while let Some(completion) = some.pop() {
            drop(completion);
        }
        count == 3
    });
    assert_eq!((p.a.sends_outstanding(), p.pool.available()), (0, 37));
    // A drain returns the released entries.
    let mut a = p.a.to_error().unwrap();
    let mut found = Vec::new();
    a.drain(&mut p.ca, |drained| match drained {
        Drained::Entry(entry) => found.push(entry[0]),
        Drained::Other(_) => panic!("nothing else is there"),
    })
    .unwrap();
    assert_eq!((found, p.pool.available()), (vec![0, 1, 2], 40));
}

/// Returning the buffers drops their pool, and a user's context panics. The other buffers still
/// return.
#[test]
fn a_panic_while_buffers_return_loses_nothing() {
    fails_on!(Iwarp, "R24.5");
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    struct Loud(Arc<AtomicU32>);
    impl Drop for Loud {
        fn drop(&mut self) {
            if self.0.fetch_add(1, Relaxed) == 0 {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }
    }
    profile! { WithLoud { entry: Buf<Option<Loud>> } }
    let dropped = Arc::new(AtomicU32::new(0));
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq = dev.ctx.create_cq(8).unwrap();
    let qp = pd.create_qp::<Rc, WithLoud>(&cq, &cq, Depth { send: 2, recv: 4 }).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let mut qp = qp.modify(init).unwrap();
    let pools =
        [(); 3].map(|()| pd.pool(8).contexts(|_| Some(Loud(dropped.clone()))).create(1).unwrap());
    let quiet = pd.pool(8).contexts(|_| None).create(1).unwrap();
    for pool in pools {
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    }
    qp.post_recv(wr::Recv::new(quiet.take().unwrap())).unwrap();
    drop(qp);
    assert!(catch_unwind(AssertUnwindSafe(|| cq.poll_one().map(drop))).is_err());
    assert_eq!((dropped.load(Relaxed), quiet.available()), (3, 1));
    assert_eq!(cq.unbooked(), cq.capacity());
    assert!(cq.poll_one().unwrap().is_none(), "and it still works");
}

/// A queue pair that was drained, reset and used again can lose buffers again.
#[test]
fn a_reused_server_loses_nothing() {
    fails_on!(Iwarp, "R24.6");
    let Asked { dev, feed, mut sends, mut receives, srq, client, server, .. } =
        Asked::<Server>::new();
    let own = server.qp_num();
    let mut server = server.to_error().unwrap();
    server.drain(&mut sends, |_| ()).unwrap();
    server.drain(&mut receives, |found| drop(found)).unwrap();
    let server = server.reset().unwrap();
    let server = Rc::up(server, &dev, own, &Wish::new());
    assert_eq!((feed.available(), srq.recvs_outstanding()), (3, 2));
    drop(server);
    assert!(sends.unbooked() < sends.capacity(), "it waits for a poll of the other queue");
    assert_eq!((poll_empty(&mut receives), poll_empty(&mut sends)), (0, 0));
    assert_eq!(sends.unbooked(), sends.capacity());
    drop(client);
}

/// Without outstanding work it has nothing to lose, so it is destroyed at once.
#[test]
fn a_server_without_receives_is_destroyed_at_once() {
    fails_on!(Iwarp, "R24.5");
    let Asked { mut sends, mut receives, srq, client, server, dev, .. } = Asked::<Server>::new();
    drop(server);
    assert!(sends.unbooked() < sends.capacity(), "it waits for completions in the other queue");
    poll(&dev, &mut receives, 3);
    assert_eq!((poll_empty(&mut receives), poll_empty(&mut sends)), (0, 0));
    assert_eq!(sends.unbooked(), sends.capacity());
    drop((client, srq));
    let (dev, depth) = (Device::open(), Depth { send: 4, recv: 0 });
    let pd = dev.ctx.alloc_pd().unwrap();
    let feed = pd.create_pool(3, 64).unwrap();
    let cq = dev.ctx.create_cq::<Buf>(20).unwrap();
    let srq: SharedReceiveQueue<Rc> = pd.create_srq(&feed).unwrap();
    let server = pd.create_qp::<Rc, Server>(&cq, &cq, Depth::on_srq(depth.send, &srq)).unwrap();
    let own = server.qp_num();
    drop(Rc::up(server, &dev, own, &Wish::new()));
    assert_eq!(cq.unbooked(), cq.capacity() - 3, "they belong to the shared receive queue");
}

/// Its receive completion queue was dropped first, so there is no completion to wait for.
#[test]
fn a_server_outlives_its_completion_queue() {
    let Asked { feed, pool, mut sends, receives, srq, client, mut server, .. } =
        Asked::<Server>::new();
    server.post_send(wr::Send::new(filled(&pool, b"nobody listens"))).unwrap();
    drop(receives);
    assert_eq!((feed.available(), srq.recvs_outstanding()), (3, 2), "the buffers are back");
    drop(server);
    poll_empty(&mut sends);
    poll_empty(&mut sends);
    assert_eq!((sends.unbooked(), pool.available()), (sends.capacity(), 2));
    sends.destroy().unwrap();
    drop(client);
    srq.destroy().unwrap();
    assert_eq!(feed.available(), 5);
}

/// A queue pair that is destroyed without a drain behaves like a dropped one. It cannot be reset.
#[test]
fn an_undrained_server_keeps_its_questions() {
    let Asked { dev, feed, mut receives, srq, client, server, .. } = Asked::<Server>::new();
    let refused = server.reset().unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EBUSY), "{refused}");
    let server = refused.into_object();
    let state = if dev.is_iwarp() { QpState::Reset } else { QpState::Rts }; // R24.16
    assert_eq!(server.query().unwrap().state, Some(state), "as it was");
    server.destroy().unwrap();
    let mut found = 0;
    while let Some(completion) = receives.poll_one().unwrap() {
        assert_eq!(completion.status(), Ok(()));
        drop(completion);
        found += 1;
    }
    assert_eq!((found, feed.available(), srq.recvs_outstanding()), (3, 3, 2));
    drop(client);
    srq.destroy().unwrap();
    poll_empty(&mut receives);
    assert_eq!(feed.available(), 5);
}

/// A destroyed completion queue returns the buffers of its completions, and only those.
#[test]
fn unpolled_questions_return_with_their_completion_queue() {
    let Asked { feed, sends, receives, srq, client, server, .. } = Asked::<Server>::new();
    let receives = receives.destroy().unwrap_err().into_object();
    drop(server);
    receives.destroy().unwrap();
    assert_eq!((feed.available(), srq.recvs_outstanding()), (3, 2));
    sends.destroy().unwrap();
    drop(client);
    srq.destroy().unwrap();
    assert_eq!(feed.available(), 5);
}

/// A reply is in flight when its server is dropped. Its buffer returns when the completion queue is
/// dropped, which ends the server; no poll is needed.
#[test]
fn a_reply_of_a_dropped_server_returns() {
    fails_on!(Iwarp, "R24.5");
    for is_destroyed in [true, false] {
        let Asked { dev, pd, feed, pool, srq, client, .. } = Asked::<Server>::new();
        let cq = dev.ctx.create_cq(64).unwrap();
        let server = pd.create_qp::<Rc, Server>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
        let silent = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, DEPTH).unwrap();
        let (own, other) = (server.qp_num(), silent.qp_num());
        let mut server = Rc::up(server, &dev, other, &Wish::new());
        let silent = Rc::up(silent, &dev, own, &Wish::new());
        // (Its peer has no receive, and the server retries forever.)
        server.post_send(wr::Send::new(filled(&pool, b"an answer"))).unwrap();
        drop((server, silent));
        match is_destroyed {
            true => cq.destroy().unwrap(),
            false => drop(cq),
        }
        assert_eq!(pool.available(), 2);
        drop((srq, client, feed));
    }
}

/// Two dropped servers that send into one completion queue do not block it either.
#[test]
fn two_dropped_servers_do_not_block_a_completion_queue() {
    fails_on!(Iwarp, "R24.5");
    let Asked { dev, pd, feed, sends, receives, mut srq, client, server, .. } =
        Asked::<Server>::new();
    let more = dev.ctx.create_cq(64).unwrap();
    let second = pd.create_qp::<Rc, Server>(&sends, &more, Depth::on_srq(4, &srq)).unwrap();
    let own = second.qp_num();
    let second = Rc::up(second, &dev, own, &Wish::new());
    srq.post_srq_recv(wr::Recv::new(poisoned(&pd.create_pool(1, 64).unwrap()))).unwrap_err();
    drop((server, second));
    sends.destroy().expect("a queue pair that only sends into it does not block it");
    receives.destroy().unwrap();
    more.destroy().unwrap();
    drop(client);
    srq.destroy().unwrap();
    assert_eq!(feed.available(), 5);
}

/// Nor do they block their shared receive queue, whose drop ends queue pairs that only waited.
#[test]
fn two_dropped_servers_do_not_block_a_shared_receive_queue() {
    fails_on!(Iwarp, "R24.5");
    let Asked { dev, pd, feed, sends, receives, srq, client, server, .. } = Asked::<Server>::new();
    let second = pd.create_qp::<Rc, Server>(&sends, &receives, Depth::on_srq(4, &srq)).unwrap();
    let own = second.qp_num();
    let second = Rc::up(second, &dev, own, &Wish::new());
    drop(server);
    drop(second);
    srq.destroy().expect("a queue pair that only waits does not block it");
    drop(client);
    sends.destroy().unwrap();
    receives.destroy().unwrap();
    assert_eq!(feed.available(), 5);
}

/// Dropping a shared receive queue ends the queue pairs that only waited for it.
#[test]
fn a_shared_receive_queue_that_is_dropped_after_its_server() {
    let Asked { feed, sends, receives, srq, client, server, .. } = Asked::<Server>::new();
    drop(server);
    assert!(sends.unbooked() < sends.capacity());
    drop(srq);
    assert_eq!(sends.unbooked(), sends.capacity());
    drop((client, sends, receives));
    assert_eq!(feed.available(), 5);
}

/// More questions than one poll returns, to a dropped server: all are returned, on each device.
#[test]
fn a_dropped_server_keeps_many_questions() {
    let (dev, wish) = (Device::open(), Wish::new());
    let pd = dev.ctx.alloc_pd().unwrap();
    let feed = pd.create_pool(48, 64).unwrap();
    let [sends, mut receives, mut clients] = [(); 3].map(|()| dev.ctx.create_cq(64).unwrap());
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&feed).unwrap();
    while let Some(buf) = feed.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    let depth = Depth { send: 40, recv: 0 };
    let client = pd.create_qp::<Rc, DefaultProfile>(&clients, &clients, depth).unwrap();
    let server = pd.create_qp::<Rc, Server>(&sends, &receives, Depth::on_srq(4, &srq)).unwrap();
    let (mut client, server) = Rc::connect((client, &pd), (server, &pd), &dev, &wish);
    for _ in 0..40 {
        client.post_send(wr::Send::inline(b"a question")).unwrap();
    }
    poll(&dev, &mut clients, 40);
    drop(server);
    let questions = poll(&dev, &mut receives, 40);
    assert!(questions.into_iter().all(|question| question.received().data() == b"a question"));
    assert_eq!(poll_empty(&mut receives), 0);
    assert_eq!((feed.available(), srq.recvs_outstanding()), (40, 8));
}

/// A neighbour never leaves the completion queue empty. A drain still ends.
#[test]
fn a_drain_ends_beside_a_busy_neighbour() {
    fails_on!(Iwarp, "R24.5");
    let mut busy = Busy::new(HEAVY);
    let feed = busy.pd.create_pool(4, 64).unwrap();
    let mut srq: SharedReceiveQueue<Rc> = busy.pd.create_srq(&feed).unwrap();
    while let Some(buf) = feed.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    let server =
        busy.pd.create_qp::<Rc, Server>(&busy.cq, &busy.cq, Depth::on_srq(2, &srq)).unwrap();
    let own = server.qp_num();
    let mut server = Rc::up(server, &busy.dev, own, &Wish::new());
    busy.keep_busy();
    server.post_send(wr::Send::inline(b"to itself")).unwrap();
    let mut server = server.to_error().unwrap();
    let (neighbour, to) = (&mut busy.neighbour, busy.region.remote().write());
    let mut questions = 0;
    server
        .drain(&mut busy.cq, |found| {
            if let Drained::Other(completion) = found {
                questions += (completion.qp_num() == own) as u32;
                drop(completion);
            }
            while neighbour.sends_outstanding() < HEAVY {
                neighbour.post_send(wr::RdmaWrite::inline(b"8 bytes!", to)).unwrap();
            }
        })
        .unwrap();
    assert!(questions <= 1);
    assert_eq!(srq.recvs_outstanding() + feed.available(), 4);
}

/// There are more questions than one poll returns. A drain takes all of them, even from a full
/// completion queue.
#[test]
fn a_drain_takes_more_than_one_poll_returns() {
    // (A poll returns 16. For Miri a second poll is enough.)
    for (questions, rest) in [(if cfg!(miri) { 18 } else { 40 }, 4), (17, 0)] {
        let (dev, wish) = (Device::open(), Wish::new());
        let pd = dev.ctx.alloc_pd().unwrap();
        let feed = pd.create_pool(questions + rest, 64).unwrap();
        let room = (questions + rest) as u32;
        let [mut sends, mut clients] = [(); 2].map(|()| dev.ctx.create_cq(64).unwrap());
        let mut receives = dev.ctx.create_cq(room).unwrap();
        let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&feed).unwrap();
        while let Some(buf) = feed.take() {
            srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
        }
        let depth = Depth { send: room, recv: 0 };
        let client = pd.create_qp::<Rc, DefaultProfile>(&clients, &clients, depth).unwrap();
        let server = pd.create_qp::<Rc, Server>(&sends, &receives, Depth::on_srq(4, &srq)).unwrap();
        let (mut client, server) = Rc::connect((client, &pd), (server, &pd), &dev, &wish);
        for _ in 0..questions {
            client.post_send(wr::Send::inline(b"a question")).unwrap();
        }
        poll(&dev, &mut clients, questions);
        let mut server = server.to_error().unwrap();
        server.drain(&mut sends, |_| panic!("nothing was sent")).unwrap();
        let mut found = 0;
        server
            .drain(&mut receives, |drained| match drained {
                Drained::Entry(_) => panic!("it has no receives of its own"),
                Drained::Other(completion) => found += completion.status().is_ok() as usize,
            })
            .unwrap();
        let counts = (found, feed.available(), srq.recvs_outstanding());
        assert_eq!(counts, (questions, questions, rest));
    }
}

/// Asking for returned buffers in between, under an endless load, does not stop the others from
/// returning.
#[test]
fn a_heavy_load_with_queries_in_between() {
    fails_on!(Iwarp, "R24.5");
    for shares in [false, true] {
        let mut busy = Busy::new(HEAVY);
        let feed = busy.pd.create_pool(4, 64).unwrap();
        let mut srq: SharedReceiveQueue<Rc> = busy.pd.create_srq(&feed).unwrap();
        // The neighbour's entries are always booked, and so are the entries of the shared receive
        // queue once it has a queue pair.
        let rest = if shares { 4 } else { 0 };
        for _ in 0..if cfg!(miri) { 1 } else { 3 } {
            let wish = Wish::new();
            if shares {
                while let Some(buf) = feed.take() {
                    srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
                }
                let qp =
                    busy.pd.create_qp::<Rc, Server>(&busy.cq, &busy.cq, Depth::on_srq(2, &srq));
                let qp = qp.unwrap();
                let own = qp.qp_num();
                drop(Rc::up(qp, &busy.dev, own, &wish));
            } else {
                let qp = busy.pd.create_qp::<Rc, DefaultProfile>(&busy.cq, &busy.cq, DEPTH);
                let qp = qp.unwrap();
                let own = qp.qp_num();
                let mut qp = Rc::up(qp, &busy.dev, own, &wish);
                while qp.recv_room() > 0 {
                    qp.post_recv(wr::Recv::new(busy.pool.take().unwrap())).unwrap();
                }
            }
            for round in 0..HEAVY {
                busy.poll(Way::Poll);
                if round < 3 {
                    busy.pool.reclaim(&mut busy.cq);
                }
            }
            assert_eq!(busy.pool.available(), busy.pool.count());
            let booked = busy.cq.capacity() - busy.cq.unbooked();
            assert_eq!(booked as usize, busy.load + 1 + rest);
        }
    }
}

/// Completions left from an earlier poll come before later ones, and none is lost.
#[test]
fn leftovers_come_first() {
    let mut p = Pair::<Rc>::new();
    let mut sent = 0;
    let mut arrive = |p: &mut Pair<Rc>, n: u8| {
        for _ in 0..n {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(wr::Send::new(filled(&p.pool, &[sent]))).unwrap();
            sent += 1;
        }
        poll(&p.dev, &mut p.ca, n.into());
    };
    let message = |completion: Completion<'_, Buf>| match completion.outcome() {
        Outcome::Received(received) => received.data()[0],
        _ => panic!("an arrival"),
    };
    // One queue pair is destroyed, so that the queue also has cleanup to do.
    for goes in [false, true] {
        arrive(&mut p, 3);
        if goes {
            let depth = Depth { send: 1, recv: 1 };
            drop(p.pd.create_qp::<Rc, DefaultProfile>(&p.cb, &p.cb, depth).unwrap());
        }
        let mut got = vec![message(p.cb.poll().unwrap().next().unwrap())];
        got.push(message(p.cb.poll_one().unwrap().unwrap()));
        arrive(&mut p, 2);
        got.push(message(p.cb.poll_one().unwrap().unwrap()));
        let mut deadline = p.dev.deadline("five messages");
        while got.len() < 5 {
            got.extend(p.cb.poll().unwrap().map(message));
            deadline.tick(&got);
        }
        let first = sent_before(&got);
        assert_eq!(got, (first..first + 5).collect::<Vec<_>>());
        assert_eq!((poll_empty(&mut p.cb), p.pool.available()), (0, 40));
    }
    fn sent_before(got: &[u8]) -> u8 {
        got[0] / 5 * 5
    }
}

/// A completion queue is dropped, and a user's context panics when its completions are discarded.
/// Buffers of a queue pair that was destroyed earlier still return.
#[test]
fn a_panic_while_a_completion_queue_is_dropped_loses_nothing() {
    fails_on!(Iwarp, "R24.5");
    struct Loud(bool);
    impl Drop for Loud {
        fn drop(&mut self) {
            if self.0 {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }
    }
    profile! { WithLoud { entry: Buf<Loud> } }
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq(20).unwrap();
    let quiet = pd.pool(8).contexts(|_| Loud(false)).create(2).unwrap();
    let loud = pd.pool(8).contexts(|_| Loud(true)).create(1).unwrap();
    let depth = Depth { send: 2, recv: 3 };
    let init = || ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let make = || pd.create_qp::<Rc, WithLoud>(&cq, &cq, depth).unwrap().modify(init()).unwrap();
    // The receive of this one is flushed, and its completion is in the queue.
    let mut flushed = make();
    flushed.post_recv(wr::Recv::new(loud.take().unwrap())).unwrap();
    drop(loud);
    let flushed = flushed.to_error().unwrap();
    // Those of this one have no completion.
    let mut gone = make();
    for _ in 0..2 {
        gone.post_recv(wr::Recv::new(quiet.take().unwrap())).unwrap();
    }
    drop(gone);
    assert_eq!(quiet.available(), 0);
    let panics = catch_unwind(AssertUnwindSafe(|| drop(cq)));
    assert!(panics.is_err());
    drop(flushed);
    assert_eq!(quiet.available(), 2);
}

profile! { TwoQueues { signaling: Selective, initiator: NoReads } }

/// A queue pair's send completion queue is dropped after its last send completed. The receives are
/// in the other completion queue, and their buffers stay with it until then.
#[test]
fn dropping_a_completion_queue_returns_only_its_own_buffers() {
    fails_on!(NoRings);
    let (dev, wish) = (Device::open(), Wish::new());
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(2, 64).unwrap();
    let mut sends = dev.ctx.create_cq::<Buf>(20).unwrap();
    let mut receives = dev.ctx.create_cq::<Buf>(20).unwrap();
    let qp = pd.create_qp::<Rc, TwoQueues>(&sends, &receives, wish.depth).unwrap();
    let own = qp.qp_num();
    let mut qp = Rc::up(qp, &dev, own, &wish);
    for _ in 0..2 {
        qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        qp.post_send(wr::Send::inline(b"x")).unwrap();
    }
    complete(&dev, &mut sends, &mut qp, 2);
    drop(qp);
    drop(sends);
    assert_eq!(pool.available(), 0, "the device or the other queue has them");
    let mut found = Vec::new();
    for _ in 0..4 {
        found.extend(receives.poll().unwrap().filter_map(Completion::into_entry));
    }
    if let Some(takes) = dev.takes_completions_along() {
        assert_eq!(found.len(), if takes { 0 } else { 2 });
    }
    assert_eq!(pool.available() + found.len(), 2);
    drop(found);
    assert_eq!(std::iter::from_fn(|| pool.take()).collect::<Vec<_>>().len(), 2);
}

/// A completion queue was empty once, but full when the next queue pair ended. The completions of
/// that queue pair are returned before its buffers are reclaimed, even if they need several polls.
#[test]
fn an_earlier_empty_poll_does_not_cover_later_queue_pairs() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(20, 64).unwrap();
    let mut cq = dev.ctx.create_cq::<Buf>(60).unwrap();
    let make = |recv| {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 1, recv }).unwrap();
        Rc::init(qp, &Wish::new())
    };
    let (mut first, mut second) = (make(1), make(20));
    first.post_recv(wr::Recv::empty()).unwrap();
    drop(first);
    for _ in 0..3 {
        poll_empty(&mut cq);
    }
    while let Some(buf) = pool.take() {
        second.post_recv(wr::Recv::new(buf)).unwrap();
    }
    let second = second.to_error().unwrap();
    // They are flushed.
    second.query().unwrap();
    drop(second);
    let mut found = Vec::new();
    for _ in 0..6 {
        found.extend(cq.poll().unwrap().filter_map(Completion::into_entry));
        assert!(pool.available() + found.len() <= 20, "{} and {}", pool.available(), found.len());
    }
    if dev.takes_completions_along() == Some(false) {
        assert_eq!(found.len(), 20);
    }
    drop(found);
    let all: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();
    let each: std::collections::BTreeSet<_> = all.iter().map(|buf| buf.as_ptr()).collect();
    assert_eq!((all.len(), each.len()), (20, 20));
}

/// Two queue pairs of different protection domains end during the same poll. Each leaves a buffer.
#[test]
fn two_domains_in_one_poll() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let (wish, other) = (Wish::new(), dev.ctx.alloc_pd().unwrap());
    let one = dev.ctx.alloc_pd().unwrap();
    let mut cq: CompletionQueue = dev.ctx.create_cq(4 * wish.cqe).unwrap();
    let pools = [&one, &other].map(|pd| pd.create_pool(4, 64).unwrap());
    let qps = [&one, &other].map(|pd| {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
        let itself = qp.qp_num();
        Rc::up(qp, &dev, itself, &wish)
    });
    for (mut qp, pool) in qps.into_iter().zip(&pools) {
        // The first receive takes the queue pair's own message, whose completions are not polled
        // before it ends.
        qp.post_recv(wr::Recv::new(poisoned(pool))).unwrap();
        qp.post_recv(wr::Recv::new(poisoned(pool))).unwrap();
        qp.post_send(wr::Send::inline(b"to itself")).unwrap();
        drop(qp);
    }
    until(&dev, "buffers of both domains", || {
        cq.poll().unwrap().for_each(drop);
        pools.iter().all(|pool| pool.available() == pool.count())
    });
}
