//! What queues left that are gone comes home by itself, buffers and room, whatever the completion
//! queue is used for meanwhile; and what a program does with completions, besides taking them
//! apart, loses nothing.

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

/// (To Miri a load is long, and it sees the other ways to poll in other tests.)
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
    /// Completions of the neighbour that are always there, or on their way.
    load: usize,
}

/// What the queue pair that comes and goes has.
const DEPTH: Depth = Depth { send: 2, recv: 3 };
const LIVES: usize = if cfg!(miri) { 3 } else { 300 };
/// A load of which a poll brings as much as it asks for, though half of that was there before.
const HEAVY: usize = if cfg!(miri) { 24 } else { 40 };

impl Busy {
    fn new(load: usize) -> Busy {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let channel = dev.ctx.create_comp_channel().unwrap();
        let depth = Depth { send: load as u32, recv: 0 };
        // Room for the neighbour, and for two that come and go.
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

    /// One poll. It takes at most half of what is there, so that there is always more.
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
                // There are buffers and room, or there will be: no idle moment is needed. (A device
                // that grants more room than was asked for runs out of buffers first.)
                let has_buffers = self.pool.available() >= depth.recv as usize;
                match self.pd.create_qp::<Rc, DefaultProfile>(&self.cq, &self.cq, depth) {
                    Ok(qp) if has_buffers => break qp,
                    Ok(_) => {}
                    Err(error) => {
                        // A larger queue would do. So do polls, which the next turns make.
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

/// Polls bring fewer than they ask for, and are never empty.
///
/// Holds L12a: room of destroyed queue pairs is released though no poll finds the queue empty.
/// Holds L4: buffers of a dropped queue pair return by polls alone, without `reclaim`.
#[test]
fn under_a_light_load() {
    fails_on!(Iwarp, "R24.5");
    for &way in WAYS {
        Busy::new(4).lives(way);
    }
}

/// Polls bring as many as they ask for, always.
///
/// Holds L12b: room of destroyed queue pairs is released though each poll fills its batch.
#[test]
fn under_a_heavy_load() {
    fails_on!(Iwarp, "R24.5");
    for &way in WAYS {
        Busy::new(HEAVY).lives(way);
    }
}

/// Holds L5: a queue pair with nothing outstanding releases its room without a poll.
#[test]
fn room_without_a_poll() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let wish = Wish::new();
    let pool = pd.create_pool(4, 64).unwrap();
    // Exactly as much as one queue pair books.
    let mut cq: CompletionQueue = dev.ctx.create_cq(8).unwrap();
    let depth = Depth { send: 4, recv: cq.capacity() - 5 };
    for life in 0..12 {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let number = qp.qp_num();
        match life % 4 {
            // Never used.
            0 => drop(qp),
            1 => qp.destroy().unwrap(),
            // Everything was completed.
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
    // What is outstanding may still complete.
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let number = qp.qp_num();
    let mut qp = Rc::up(qp, &dev, number, &wish);
    qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    drop(qp);
    assert_eq!(cq.unbooked(), cq.capacity() - depth.recv, "the sends' is back, the receives' not");
    assert_eq!(poll_empty(&mut cq), 0);
    assert_eq!((cq.unbooked(), pool.available()), (cq.capacity(), 4));
}

/// Each direction's room is where its completions come, and stays until they can come no more.
///
/// Holds L16: the completion queue of the receives does not release room for sends that complete
/// elsewhere.
#[test]
fn room_in_two_completion_queues() {
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

/// A ring's room, too; and a completion of it that is stale by then releases nothing.
#[test]
fn room_of_a_ring_without_a_poll() {
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
        // They came one by one.
        return;
    }
    let recvs = 8;
    p.a.destroy().unwrap();
    assert_eq!(p.ca.unbooked(), free + 8 + 1 + recvs);
    assert_eq!((poll_empty(&mut p.ca), p.ca.unbooked()), (0, p.ca.capacity()));
}

/// The buffers of a queue pair that failed, and was dropped at the first failure, are not missed by
/// the next.
///
/// Holds L3: dropping a queue pair does not lose receives of its shared receive queue on mlx5.
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
        // One question is answered; the answer fails, since the client crashed.
        let question = poll(&dev, &mut cq, 1).remove(0).received();
        assert_eq!(question.data(), b"a question");
        drop((question, client));
        server.post_send(wr::Send::new(filled(&pool, b"an answer"))).unwrap();
        drop(server);
        // The other two questions are there, or not, as the device likes it; nothing of it is lost.
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

/// A client, and a server that receives from a shared receive queue and has three questions that it
/// did not look at.
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

/// Asks three questions.
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

/// A device may take a queue pair's completions away with it. So it is destroyed only when they
/// were handed out.
#[test]
fn questions_to_a_server_that_is_dropped() {
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
    // Now it goes, and what was flushed, or not, comes home.
    assert_eq!(poll_empty(&mut receives), 0);
    poll_empty(&mut sends);
    poll_empty(&mut sends);
    assert_eq!((pool.available(), feed.available()), (2, 3));
    assert_eq!(sends.unbooked(), sends.capacity());
    assert_eq!(receives.unbooked(), receives.capacity() - 5, "the shared receive queue's");
    srq.post_srq_recv(wr::Recv::new(feed.take().unwrap())).unwrap();
    assert_eq!(srq.recvs_outstanding(), 3);
    drop(client);
}

/// The same, when it was moved to ERR and drained: then it goes at once, and nothing is left.
#[test]
fn questions_to_a_server_that_is_drained() {
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

/// What a queue pair that was dropped needs may go before it, in any order, and be destroyed in the
/// order of the manual.
#[test]
fn a_server_that_is_dropped_is_in_nobodys_way() {
    fails_on!(NoRings);
    // (What is destroyed goes as what is dropped does, which is all that Miri looks for.)
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

/// The last queue pair goes after the shared receive queue was dropped.
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

/// A completion that is held does not mind what becomes of the iterator that gave it, or of its
/// like.
///
/// Holds U1: under Miri, a completion that outlives its iterator refers to no batch that the
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
    // Two iterators change places.
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
    // A panic while some are kept.
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

/// A buffer that is posted twice, for a queue that dies and for one that lives, has one life at a
/// time.
#[test]
fn what_was_forgotten_comes_home_once() {
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
    // This poll says that nothing of the queue pair can come any more.
    assert_eq!(poll_empty(&mut p.cb), 0);
    assert_eq!((p.pool.available(), first[0]), (39, 0));
    drop(first);
    assert_eq!((p.pool.reclaim(&mut p.cb), p.pool.available()), (0, 40));
}

/// `_ => {}` over what a poll brings.
///
/// Holds L6: a dropped completion of a selectively signaled queue pair still releases its entries.
#[test]
fn a_completion_of_a_ring_that_nobody_takes() {
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
    // In any order: the last speaks for all.
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
    // A drain gives what they released.
    let mut a = p.a.to_error().unwrap();
    let mut found = Vec::new();
    a.drain(&mut p.ca, |drained| match drained {
        Drained::Entry(entry) => found.push(entry[0]),
        Drained::Other(_) => panic!("nothing else is there"),
    })
    .unwrap();
    assert_eq!((found, p.pool.available()), (vec![0, 1, 2], 40));
}

/// Buffers that come home take their pool along, and a user's context panics: the others come home
/// all the same.
#[test]
fn a_panic_on_the_way_home_loses_nothing() {
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
    assert!(cq.poll_one().unwrap().is_none(), "and it is as good as before");
}

/// One that was drained, reset and used again has something to lose again.
#[test]
fn a_server_in_its_second_life() {
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
    assert!(sends.unbooked() < sends.capacity(), "it waits for a look at the other queue");
    assert_eq!((poll_empty(&mut receives), poll_empty(&mut sends)), (0, 0));
    assert_eq!(sends.unbooked(), sends.capacity());
    drop(client);
}

/// One that has nothing outstanding has nothing to lose: it goes at once.
#[test]
fn a_server_without_receives_goes_at_once() {
    fails_on!(Iwarp, "R24.5");
    let Asked { mut sends, mut receives, srq, client, server, dev, .. } = Asked::<Server>::new();
    drop(server);
    assert!(sends.unbooked() < sends.capacity(), "it waits for what is in the other queue");
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
    assert_eq!(cq.unbooked(), cq.capacity() - 3, "the shared receive queue's");
}

/// Its receive completion queue went before it, so nothing can be handed out that it would wait
/// for.
#[test]
fn a_server_whose_completion_queue_went_first() {
    let Asked { feed, pool, mut sends, receives, srq, client, mut server, .. } =
        Asked::<Server>::new();
    server.post_send(wr::Send::new(filled(&pool, b"nobody listens"))).unwrap();
    drop(receives);
    assert_eq!((feed.available(), srq.recvs_outstanding()), (3, 2), "what was there came home");
    drop(server);
    poll_empty(&mut sends);
    poll_empty(&mut sends);
    assert_eq!((sends.unbooked(), pool.available()), (sends.capacity(), 2));
    sends.destroy().unwrap();
    drop(client);
    srq.destroy().unwrap();
    assert_eq!(feed.available(), 5);
}

/// One that is destroyed without a drain is as one that is dropped; it is not reset.
#[test]
fn questions_to_a_server_that_is_not_drained() {
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

/// A completion queue that is destroyed gives back what it has, and only that.
#[test]
fn questions_that_nobody_took() {
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

/// An answer that is on its way when its server is dropped comes home with the completion queue,
/// which ends the server: nobody need poll for it.
#[test]
fn an_answer_of_a_server_that_is_dropped() {
    fails_on!(Iwarp, "R24.5");
    for is_destroyed in [true, false] {
        let Asked { dev, pd, feed, pool, srq, client, .. } = Asked::<Server>::new();
        let cq = dev.ctx.create_cq(64).unwrap();
        let server = pd.create_qp::<Rc, Server>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
        let silent = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, DEPTH).unwrap();
        let (own, other) = (server.qp_num(), silent.qp_num());
        let mut server = Rc::up(server, &dev, other, &Wish::new());
        let silent = Rc::up(silent, &dev, own, &Wish::new());
        // (Its peer has no receive, and the server tries again for ever.)
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

/// Two servers that send into one completion queue, and were dropped, are in nobody's way either.
#[test]
fn two_servers_that_are_dropped() {
    fails_on!(Iwarp, "R24.5");
    let Asked { dev, pd, feed, sends, receives, mut srq, client, server, .. } =
        Asked::<Server>::new();
    let more = dev.ctx.create_cq(64).unwrap();
    let second = pd.create_qp::<Rc, Server>(&sends, &more, Depth::on_srq(4, &srq)).unwrap();
    let own = second.qp_num();
    let second = Rc::up(second, &dev, own, &Wish::new());
    srq.post_srq_recv(wr::Recv::new(poisoned(&pd.create_pool(1, 64).unwrap()))).unwrap_err();
    drop((server, second));
    sends.destroy().expect("who only sends into it is not in its way");
    receives.destroy().unwrap();
    more.destroy().unwrap();
    drop(client);
    srq.destroy().unwrap();
    assert_eq!(feed.available(), 5);
}

/// Nor are they in the way of their shared receive queue, which ends what only waited.
#[test]
fn two_servers_whose_shared_receive_queue_goes_first() {
    fails_on!(Iwarp, "R24.5");
    let Asked { dev, pd, feed, sends, receives, srq, client, server, .. } = Asked::<Server>::new();
    let second = pd.create_qp::<Rc, Server>(&sends, &receives, Depth::on_srq(4, &srq)).unwrap();
    let own = second.qp_num();
    let second = Rc::up(second, &dev, own, &Wish::new());
    drop(server);
    drop(second);
    srq.destroy().expect("who only waits is not in its way");
    drop(client);
    sends.destroy().unwrap();
    receives.destroy().unwrap();
    assert_eq!(feed.available(), 5);
}

/// A shared receive queue that is dropped takes the queue pairs along that only waited.
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

/// More questions than one poll brings, to a server that is dropped: all are handed out, on each
/// device.
#[test]
fn many_questions_to_a_server_that_is_dropped() {
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

/// A neighbour that never leaves the completion queue empty: a drain ends all the same.
#[test]
fn a_drain_beside_a_neighbour_that_never_rests() {
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

/// More questions than one poll brings: a drain takes out all of them, of a completion queue that
/// is full, too.
#[test]
fn a_drain_finds_more_than_a_poll_brings() {
    // (A poll brings 16. Miri sees that there are more by a second one.)
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

/// Who asks in between what came home, under a load that never ends, does not stop what is on its
/// way.
#[test]
fn under_a_heavy_load_with_questions_in_between() {
    fails_on!(Iwarp, "R24.5");
    for shares in [false, true] {
        let mut busy = Busy::new(HEAVY);
        let feed = busy.pd.create_pool(4, 64).unwrap();
        let mut srq: SharedReceiveQueue<Rc> = busy.pd.create_srq(&feed).unwrap();
        // The neighbour's is always booked, and so is what the shared receive queue has, once
        // somebody uses it.
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

/// What is left of an earlier poll comes before what a later one brings, and none is lost.
#[test]
fn what_is_left_comes_first() {
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
    // So that the queue is one that has something to do besides: a queue pair goes.
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

/// A completion queue goes, and a user's context panics as it is discarded: what a queue pair left
/// that was gone before comes home all the same.
#[test]
fn a_panic_as_a_completion_queue_goes_loses_nothing() {
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
    // This one's receive is flushed, and its completion is there.
    let mut flushed = make();
    flushed.post_recv(wr::Recv::new(loud.take().unwrap())).unwrap();
    drop(loud);
    let flushed = flushed.to_error().unwrap();
    // This one's are nowhere.
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

/// The completion queue of its sends goes, which had nothing of it any more: what its receives left
/// in the other one is there all the same, and is nobody else's until then.
#[test]
fn a_completion_queue_that_has_nothing_of_a_ring_takes_nothing_home() {
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
    assert_eq!(pool.available(), 0, "the device, or the other queue, has them");
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

/// A completion queue that was empty once, and full when the next queue pair went: what that left
/// is handed out before anything of it comes home, though it is more than one poll takes.
#[test]
fn what_was_seen_once_says_nothing_of_later() {
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

/// Two queue pairs of different protection domains are over in the same poll. Each leaves a buffer.
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
        // The first is for its own message, whose completions nobody polls before it goes.
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
