//! One buffer in every place, one after the other: each place accepts it and is its only owner.

use std::mem::forget;

use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }
profile! { Shared { receive: SharedRq } }

/// A place where a buffer can be posted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Send,
    Chain,
    Read,
    Receive,
    OtherSend,
    OtherReceive,
    Ring,
    SharedReceive,
}

use Place::*;

const PLACES: [Place; 8] =
    [Send, Chain, Read, Receive, OtherSend, OtherReceive, Ring, SharedReceive];

/// Connected queue pairs of one protection domain, and a shared receive queue.
struct Places {
    dev: Device,
    pd: ProtectionDomain,
    pool: Pool,
    cq: CompletionQueue,
    one: [QueuePair<Rc, Rts>; 2],
    two: [QueuePair<Rc, Rts>; 2],
    ring: (QueuePair<Rc, Rts, Ring>, QueuePair<Rc, Rts>),
    shared: (QueuePair<Rc, Rts>, QueuePair<Rc, Rts, Shared>),
    srq: SharedReceiveQueue<Rc>,
    open: MemoryRegion<RemoteReadWrite>,
}

fn connect<P, Q>(
    dev: &Device,
    pd: &ProtectionDomain,
    one: QueuePair<Rc, Reset, P>,
    two: QueuePair<Rc, Reset, Q>,
) -> (QueuePair<Rc, Rts, P>, QueuePair<Rc, Rts, Q>)
where
    P: Profile<Threads = AnyThread>,
    Q: Profile<Threads = AnyThread>,
    Rc: Bring<P> + Bring<Q>,
{
    Rc::connect((one, pd), (two, pd), dev, &Wish::new())
}

const DEPTH: Depth = Depth { send: 4, recv: 4 };

impl Places {
    fn new() -> Places {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(12, 64).unwrap();
        let cq = dev.ctx.create_cq(120).unwrap();
        let srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
        let qp = || pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, DEPTH).unwrap();
        let ring = pd.create_qp::<Rc, Ring>(&cq, &cq, DEPTH).unwrap();
        let receiver = pd.create_qp::<Rc, Shared>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
        let (a, b) = connect(&dev, &pd, qp(), qp());
        let (c, d) = connect(&dev, &pd, qp(), qp());
        let ring = connect(&dev, &pd, ring, qp());
        let shared = connect(&dev, &pd, qp(), receiver);
        let open = pd.register(64).unwrap();
        Places { one: [a, b], two: [c, d], ring, shared, srq, open, dev, pd, pool, cq }
    }

    /// Posts the buffer there, and returns it with its new content.
    fn through(&mut self, place: Place, mut buf: Buf, bytes: &[u8]) -> Buf {
        let at = buf.as_ptr();
        buf.copy_from(bytes).unwrap();
        let peer = || wr::Recv::new(poisoned(&self.pool));
        let (dev, cq) = (&self.dev, &mut self.cq);
        let (mut back, arrived) = match place {
            Send | OtherSend => {
                let [from, to] = if place == Send { &mut self.one } else { &mut self.two };
                to.post_recv(peer()).unwrap();
                from.post_send(wr::Send::new(buf)).unwrap();
                let [sent, received] = both(poll(dev, cq, 2));
                (sent, Some(received))
            }
            Chain => {
                let [from, to] = &mut self.one;
                to.post_recv(peer()).unwrap();
                let end = self.open.remote().slice(0, 8).unwrap().write();
                post_send!(from, [wr::Send::new(buf), wr::RdmaWrite::inline(&[0; 8], end)])
                    .unwrap();
                let mut done = poll(dev, cq, 3);
                let is_plain =
                    |done: &Done<Buf>| matches!(done, Done::Sent(s) if s.entry.is_none());
                let plain = done.iter().position(is_plain).unwrap();
                done.remove(plain);
                let [sent, received] = both(done);
                (sent, Some(received))
            }
            Read => {
                let [from, _] = &mut self.one;
                self.open.write_at(0, bytes).unwrap();
                let len = bytes.len() as u64;
                let source = self.open.remote().slice(0, len).unwrap().read();
                from.post_send(wr::RdmaRead::new(buf, source)).unwrap();
                (poll(dev, cq, 1).remove(0).sent().entry.unwrap(), None)
            }
            Receive | OtherReceive => {
                let [from, to] = if place == Receive { &mut self.one } else { &mut self.two };
                to.post_recv(wr::Recv::new(buf)).unwrap();
                from.post_send(wr::Send::inline_slice(bytes)).unwrap();
                (arrival(poll(dev, cq, 2)), None)
            }
            SharedReceive => {
                self.srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
                self.shared.0.post_send(wr::Send::inline_slice(bytes)).unwrap();
                (arrival(poll(dev, cq, 2)), None)
            }
            Ring => {
                let (from, to) = &mut self.ring;
                to.post_recv(peer()).unwrap();
                from.post_send(wr::Send::new(buf)).unwrap();
                let (mut sent, mut received) = (None, None);
                until(dev, "both", || {
                    match cq.poll_one().unwrap().map(Completion::outcome) {
                        Some(Outcome::Selective(completion)) => {
                            sent = from.complete(completion).unwrap().released.next();
                        }
                        Some(Outcome::Received(message)) => received = message.entry,
                        None => {}
                        Some(_) => panic!("neither of both"),
                    }
                    sent.is_some() && received.is_some()
                });
                (sent.unwrap(), received)
            }
        };
        assert_eq!((back.as_ptr(), &back[..]), (at, bytes), "{place:?}");
        if let Some(arrived) = arrived {
            assert_eq!(&arrived[..], bytes, "{place:?}");
        }
        back.set_len(64);
        back
    }
}

/// The sent and the received buffer.
fn both(done: Vec<Done<Buf>>) -> [Buf; 2] {
    let (mut sent, mut received) = (None, None);
    for done in done {
        match done {
            Done::Sent(done) => sent = done.entry,
            other => received = other.received().entry,
        }
    }
    [sent.unwrap(), received.unwrap()]
}

/// The received buffer, beside an inline send.
fn arrival(done: Vec<Done<Buf>>) -> Buf {
    let is_receive = |done: Done<Buf>| match done {
        Done::Sent(_) => None,
        other => other.received().entry,
    };
    done.into_iter().find_map(is_receive).unwrap()
}

#[test]
fn from_each_place_to_each() {
    fails_on!(NoRings);
    let mut places = Places::new();
    let mut buf = poisoned(&places.pool);
    let mut round = 0u8;
    // This is slow under Miri: each place before and after some others.
    let step = if cfg!(miri) { 3 } else { 1 };
    for (i, from) in PLACES.into_iter().enumerate() {
        for to in PLACES.into_iter().skip(i % step).step_by(step) {
            for place in [from, to] {
                round += 1;
                buf = places.through(place, buf, &[round; 9]);
            }
        }
    }
    drop(buf);
    assert_eq!((places.pool.available(), places.srq.recvs_outstanding()), (12, 0));
}

/// Wherever it was, a queue of another protection domain rejects it, and its own accepts it again.
#[test]
fn another_domain_rejects_it_after_each_place() {
    fails_on!(NoRings);
    let mut places = Places::new();
    let pd = places.dev.ctx.alloc_pd().unwrap();
    let mut cq = places.dev.ctx.create_cq(40).unwrap();
    let qp = || pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, DEPTH).unwrap();
    let (mut a, mut b) = connect(&places.dev, &pd, qp(), qp());
    let other_pool = places.pd.create_pool(1, 64).unwrap();
    for place in PLACES {
        let buf = poisoned(&places.pool);
        let buf = places.through(place, buf, b"known here");
        let error = a.post_send(wr::Send::new(buf)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::PdMismatch, "{place:?}");
        let buf = error.into_rejected().next().unwrap();
        let error = b.post_recv(wr::Recv::new(buf)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::PdMismatch, "{place:?}");
        let buf = error.into_rejected().next().unwrap();
        let mut slots = RecvSlots::<2>::new();
        let mut list = b.recv_list(&mut slots);
        let error = list.extend([wr::Recv::new(buf)]).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::PdMismatch, "{place:?}");
        drop(list);
        let buf = error.into_rejected().next().unwrap();
        drop(places.through(place, buf, b"and again"));
        // A shared receive queue also rejects a buffer of another pool of the same domain.
        if place != SharedReceive {
            let buf = other_pool.take().unwrap();
            let buf = places.through(place, buf, b"of another pool");
            let error = places.srq.post_srq_recv(wr::Recv::new(buf)).unwrap_err();
            assert_eq!(error.kind(), PostErrorKind::ForeignPool, "{place:?}");
        }
    }
    assert!(cq.poll_one().unwrap().is_none());
    assert_eq!((places.pool.available(), other_pool.available()), (12, 1));
}

/// Queues come and go with receives outstanding, often at the same address, while another queue has
/// buffers of the same pool. That queue keeps its buffers, and the others return each time.
#[test]
fn an_ending_queue_returns_only_its_own_buffers() {
    fails_on!(NoRings);
    let mut places = Places::new();
    let Places { dev, pd, pool, cq, one, .. } = &mut places;
    let [from, to] = one;
    for i in 0..3u8 {
        to.post_recv(wr::Recv::new(filled(pool, &[i]))).unwrap();
    }
    let mut kept = poisoned(pool);
    for life in 0..if cfg!(miri) { 3u8 } else { 12 } {
        let qp = || pd.create_qp::<Rc, DefaultProfile>(cq, cq, DEPTH).unwrap();
        let (mut a, b) = connect(dev, pd, qp(), qp());
        // The buffer that was with the previous queue is with this one now.
        a.post_recv(wr::Recv::new(kept)).unwrap();
        a.post_recv(wr::Recv::new(poisoned(pool))).unwrap();
        match life % 3 {
            0 => a.destroy().unwrap(),
            1 => drop(a),
            _ => drop(a.reset().unwrap()),
        }
        drop(b);
        until(dev, "both are home", || poll_empty(cq) == 0 && pool.available() == 9);
        kept = poisoned(pool);
    }
    drop(kept);
    for i in 0..3u8 {
        from.post_send(wr::Send::inline_slice(&[life_of(i)])).unwrap();
    }
    let mut got: Vec<u8> = Vec::new();
    for done in poll(dev, cq, 6) {
        if let Done::Received(message) = done {
            got.push(message.data()[0]);
        }
    }
    assert_eq!((got, pool.available()), ((0..3).map(life_of).collect(), 12));
}

fn life_of(i: u8) -> u8 {
    100 + i
}

/// A buffer that was rejected among others is used separately from them, in any order.
#[test]
fn rejected_buffers_are_used_separately() {
    fails_on!(NoRings);
    let mut places = Places::new();
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let send = |i: u8| wr::Send::new(filled(&places.pool, &[i]));
        let long = wr::Send::inline_slice(&[0; 65]);
        let error = post_send!(places.one[0], [send(0), send(1), send(2), long]).unwrap_err();
        let mut bufs: Vec<Option<Buf>> = error.into_rejected().map(Some).collect();
        assert_eq!(bufs.len(), 3);
        for i in order {
            let buf = bufs[i].take().unwrap();
            assert_eq!(buf[0], i as u8);
            let buf = places.through(PLACES[i], buf, &[7; 3]);
            drop(places.through(SharedReceive, buf, &[8; 3]));
        }
    }
    assert_eq!(places.pool.available(), 12);
}

/// The buffers of a forgotten list return with its queue. A later queue at the same address does
/// not affect them: each buffer exists once.
#[test]
fn a_forgotten_list_returns_with_its_queue() {
    fails_on!(NoRings);
    let mut places = Places::new();
    let Places { dev, pd, pool, cq, .. } = &mut places;
    for _ in 0..4 {
        let mut qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, DEPTH).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        let mut ready = qp.modify(init).unwrap();
        let mut slots = RecvSlots::<2>::new();
        let mut list = ready.recv_list(&mut slots);
        list.push(wr::Recv::new(poisoned(pool))).unwrap();
        forget(list);
        drop(ready);
        // One more queue, perhaps at the address of the first, that orphans a buffer.
        qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, DEPTH).unwrap();
        ready = qp.modify(init).unwrap();
        ready.post_recv(wr::Recv::new(poisoned(pool))).unwrap();
        drop(ready);
        poll_empty(cq);
        let bufs: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();
        let mut places: Vec<usize> = bufs.iter().map(|buf| buf.as_ptr().addr()).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), bufs.len(), "no buffer exists twice");
    }
    until(dev, "nothing comes", || poll_empty(cq) == 0);
    assert_eq!(pool.available(), 12);
}

/// A buffer that was empty or exceeded a slice is checked once; then any queue accepts it without a
/// check.
#[test]
fn a_checked_buffer_is_accepted_again() {
    fails_on!(NoRings);
    let mut places = Places::new();
    let mut buf = poisoned(&places.pool);
    for place in PLACES {
        buf.set_len(0);
        let at = buf.as_ptr();
        places.one[1].post_recv(wr::Recv::new(poisoned(&places.pool))).unwrap();
        places.one[0].post_send(wr::Send::new(buf)).unwrap();
        let [sent, received] = both(poll(&places.dev, &mut places.cq, 2));
        assert_eq!((sent.as_ptr(), sent.len(), received.len()), (at, 0, 0));
        buf = places.through(place, sent, b"not empty any more");
        let narrow = places.open.remote().slice(0, 8).unwrap().write();
        let error = places.one[0].post_send(wr::RdmaWrite::new(buf, narrow)).unwrap_err();
        assert!(matches!(error.kind(), PostErrorKind::ExceedsSlice { .. }), "{:?}", error.kind());
        buf = error.into_rejected().next().unwrap();
        buf = places.through(place, buf, b"9 of 8");
    }
}
