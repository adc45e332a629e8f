//! What queues left that are gone comes home by itself, buffers and room, whatever the completion queue is used for
//! meanwhile; and what a program does with completions, besides taking them apart, loses nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proverbs::*;

use crate::support::*;

profile! { Ring { signaling: Selective } }

/// How a program polls.
#[derive(Clone, Copy, Debug)]
enum Way {
    Poll,
    PollOne,
    PollOrArm,
    Wait,
}

const WAYS: [Way; 4] = [Way::Poll, Way::PollOne, Way::PollOrArm, Way::Wait];

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
const LIVES: usize = if cfg!(miri) { 6 } else { 300 };

impl Busy {
    fn new(load: usize) -> Busy {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let channel = dev.ctx.create_comp_channel().unwrap();
        let depth = Depth { send: load as u32, recv: 0 };
        // Room for the neighbour, and for two that come and go.
        let room = depth.send + 1 + 2 * (DEPTH.send + 1 + DEPTH.recv);
        let cq = dev.ctx.create_cq_on(room, &channel).unwrap();
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
            self.neighbour.post_send(RdmaWrite::inline(b"8 bytes!", to)).unwrap();
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
                // There are buffers and room, or there will be: no idle moment is needed. (A device that grants more
                // room than was asked for runs out of buffers first.)
                let has_buffers = self.pool.available() >= depth.recv as usize;
                match self.pd.create_qp::<Rc, DefaultProfile>(&self.cq, &self.cq, depth) {
                    Ok(qp) if has_buffers => break qp,
                    Ok(_) => {}
                    Err(error) => {
                        let full = matches!(error.kind(), ErrorKind::CqTooSmall { .. });
                        assert!(full && error.to_string().contains("poll the completion queue"));
                    }
                }
                polls += 1;
                assert!(polls < 100 * (LIVES + 10), "life {life}: no room or no buffers, {way:?}");
                self.poll(way);
            };
            let number = qp.qp_num();
            let mut qp = Rc::up(qp, &self.dev, number, &Wish::new());
            while qp.recv_room() > 0 {
                qp.post_recv(Recv::new(self.pool.take().unwrap())).unwrap();
            }
            if life % 3 == 0 {
                qp.post_send(Send::inline(b"to itself")).unwrap();
            }
            for _ in 0..2 {
                self.poll(way);
            }
            drop(qp);
        }
        for _ in 0..100 {
            self.poll(way);
        }
        assert_eq!(self.pool.available(), self.pool.count(), "{way:?}, load {}", self.load);
        let neighbour = self.load as u32 + 1;
        assert_eq!(self.cq.capacity() - self.cq.unbooked(), neighbour, "{way:?}");
    }
}

/// Polls bring fewer than they ask for, and are never empty.
#[test]
fn under_a_light_load() {
    for way in WAYS {
        Busy::new(4).lives(way);
    }
}

/// Polls bring as many as they ask for, always.
#[test]
fn under_a_heavy_load() {
    for way in WAYS {
        Busy::new(40).lives(way);
    }
}

#[test]
fn room_without_a_poll() {
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
            1 => drop(qp.destroy().unwrap()),
            // Everything was completed.
            2 => {
                let mut qp = Rc::up(qp, &dev, number, &wish);
                qp.post_recv(Recv::new(poisoned(&pool))).unwrap();
                qp.post_send(Send::new(filled(&pool, b"to itself"))).unwrap();
                poll(&dev, &mut cq, 2);
            }
            // Drained.
            _ => {
                let mut qp = Rc::up(qp, &dev, number, &wish);
                qp.post_recv(Recv::new(poisoned(&pool))).unwrap();
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
    qp.post_recv(Recv::new(poisoned(&pool))).unwrap();
    drop(qp);
    assert_eq!(cq.unbooked(), cq.capacity() - depth.recv, "the sends' is back, the receives' not");
    assert_eq!(poll_empty(&mut cq), 0);
    assert_eq!((cq.unbooked(), pool.available()), (cq.capacity(), 4));
}

/// A ring's room, too; and a completion of it that is stale by then releases nothing.
#[test]
fn room_of_a_ring_without_a_poll() {
    let mut p = Pair::<Rc, Ring>::new();
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    for i in 0..2 {
        let wr = RdmaWrite::new(filled(&p.pool, &[i]), region.remote().write());
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
    assert!(p.a.destroy().unwrap().is_empty());
    assert_eq!(p.ca.unbooked(), free + 8 + 1 + recvs);
    assert_eq!((poll_empty(&mut p.ca), p.ca.unbooked()), (0, p.ca.capacity()));
}

/// The buffers of a queue pair that failed, and was dropped at the first failure, are not missed by the next.
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
            srq.post_srq_recv(Recv::new(buf)).unwrap();
        }
        let client = pd.create_qp::<Rc, DefaultProfile>(&clients, &clients, depth).unwrap();
        let server = pd.create_qp_on_srq::<Rc, Server, _>(&cq, &cq, &srq, 4).unwrap();
        let (nc, ns) = (client.qp_num(), server.qp_num());
        let mut client = Rc::up(client, &dev, ns, &wish);
        let mut server = Rc::up(server, &dev, nc, &wish);
        for _ in 0..3 {
            client.post_send(Send::inline(b"a question")).unwrap();
        }
        poll(&dev, &mut clients, 3);
        // One question is answered; the answer fails, since the client crashed.
        let question = poll(&dev, &mut cq, 1).remove(0).received();
        assert_eq!(question.data(), b"a question");
        drop((question, client));
        server.post_send(Send::new(filled(&pool, b"an answer"))).unwrap();
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

profile! { Server { receive: SharedRq } }
profile! { RingServer { receive: SharedRq, signaling: Selective } }

/// A client, and a server that receives from a shared receive queue and has three questions that it did not look at.
struct Asked<P: Profile> {
    dev: Device,
    pd: ProtectionDomain,
    feed: Pool,
    pool: Pool,
    sends: CompletionQueue,
    receives: CompletionQueue,
    clients: CompletionQueue,
    srq: SharedReceiveQueue<Rc>,
    client: QueuePair<Rc, Rts>,
    server: QueuePair<Rc, Rts, P>,
}

/// Asks three questions.
fn ask(client: QueuePair<Rc, Reset>, dev: &Device, server: u32) -> QueuePair<Rc, Rts> {
    let mut client = Rc::up(client, dev, server, &Wish::new());
    for _ in 0..3 {
        client.post_send(Send::inline(b"a question")).unwrap();
    }
    client
}

impl<P: Profile<Entry = Buf, Receive = SharedRq>> Asked<P>
where
    Rc: Bring<P>,
{
    fn new() -> Self {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let wish = Wish::new();
        let (feed, pool) = (pd.create_pool(5, 64).unwrap(), pd.create_pool(2, 64).unwrap());
        let [sends, receives, mut clients] = [(); 3].map(|()| dev.ctx.create_cq(64).unwrap());
        let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&feed).unwrap();
        while let Some(buf) = feed.take() {
            srq.post_srq_recv(Recv::new(buf)).unwrap();
        }
        let depth = Depth { send: 4, recv: 4 };
        let client = pd.create_qp::<Rc, DefaultProfile>(&clients, &clients, depth).unwrap();
        let server = pd.create_qp_on_srq::<Rc, P, _>(&sends, &receives, &srq, 4).unwrap();
        let (nc, ns) = (client.qp_num(), server.qp_num());
        let server = Rc::up(server, &dev, nc, &wish);
        let client = ask(client, &dev, ns);
        poll(&dev, &mut clients, 3);
        Asked { dev, pd, feed, pool, sends, receives, clients, srq, client, server }
    }
}

/// A device may take a queue pair's completions away with it. So it is destroyed only when they were handed out.
#[test]
fn questions_to_a_server_that_is_dropped() {
    let Asked { dev, feed, pool, mut sends, mut receives, mut srq, client, mut server, .. } =
        Asked::<Server>::new();
    server.post_send(Send::new(filled(&pool, b"nobody listens"))).unwrap();
    drop(server);
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
    srq.post_srq_recv(Recv::new(feed.take().unwrap())).unwrap();
    assert_eq!(srq.recvs_outstanding(), 3);
    drop(client);
}

/// The same, when it was moved to ERR and drained: then it goes at once, and nothing is left.
#[test]
fn questions_to_a_server_that_is_drained() {
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
    assert_eq!((feed.available(), srq.recvs_outstanding()), (3, 2));
    drop(client);
    srq.destroy().unwrap();
}

/// What a queue pair that was dropped needs may go before it, in any order, and be destroyed in the order of the
/// manual.
#[test]
fn a_server_that_is_dropped_is_in_nobodys_way() {
    for order in 0..6 {
        let asked = Asked::<RingServer>::new();
        let Asked { dev, pd, feed, pool, sends, receives, clients, srq, client, mut server } =
            asked;
        server.post_send(Send::new(filled(&pool, b"nobody listens"))).unwrap();
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
        dev.ctx.destroy().unwrap();
    }
}

/// The last queue pair goes after the shared receive queue was dropped.
#[test]
fn a_server_that_outlives_its_shared_receive_queue() {
    let Asked { pd, feed, pool, sends, receives, srq, client, server, .. } = Asked::<Server>::new();
    drop(srq);
    drop((client, server));
    drop((sends, receives));
    assert_eq!((feed.available(), pool.available()), (5, 2));
    feed.destroy().unwrap();
    pool.destroy().unwrap();
    drop(pd);
}

/// A completion that is held does not mind what becomes of the iterator that gave it, or of its like.
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
            p.b.post_recv(Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(Send::new(filled(&p.pool, &[i]))).unwrap();
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

/// A buffer that is posted twice, for a queue that dies and for one that lives, has one life at a time.
#[test]
fn what_was_forgotten_comes_home_once() {
    let mut p = Pair::<Rc>::new();
    for i in 0..3 {
        p.b.post_recv(Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(Send::new(filled(&p.pool, &[i]))).unwrap();
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
#[test]
fn a_completion_of_a_ring_that_nobody_takes() {
    let wish = Wish { depth: Depth { send: 4, recv: 0 }, ..Wish::new() };
    let mut p = Pair::<Rc, Ring>::with(&wish);
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    let write = |i: u8| RdmaWrite::new(filled(&p.pool, &[i]), region.remote().write());
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

/// Buffers that come home take their pool along, and a user's context panics: the others come home all the same.
#[test]
fn a_panic_on_the_way_home_loses_nothing() {
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
        [(); 3].map(|()| pd.create_pool_with(1, 8, |_| Some(Loud(dropped.clone()))).unwrap());
    let quiet = pd.create_pool_with(1, 8, |_| None).unwrap();
    for pool in pools {
        qp.post_recv(Recv::new(pool.take().unwrap())).unwrap();
    }
    qp.post_recv(Recv::new(quiet.take().unwrap())).unwrap();
    drop(qp);
    assert!(catch_unwind(AssertUnwindSafe(|| cq.poll_one().map(drop))).is_err());
    assert_eq!((dropped.load(Relaxed), quiet.available()), (3, 1));
    assert_eq!(cq.unbooked(), cq.capacity());
    assert!(cq.poll_one().unwrap().is_none(), "and it is as good as before");
}
