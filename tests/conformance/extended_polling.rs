//! Extended polling: completions as from `ibv_poll_cq`, with the requested fields.

use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use proverbs::completion::{Direction, WcOpcode, WcStatus};
use proverbs::device::{Can, Timestamps};
use proverbs::ext::extended_polling::{
    CompletionQueueEx, CompletionTs, CompletionWallclock, DlidPathBits, ReadFields, WcFields,
    WithFields,
};
use proverbs::ext::windows::Windowed;
use proverbs::loopback::Personality;
use proverbs::memory::Owned;
use proverbs::prelude::*;
use proverbs::qp::Drained;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }
profile! { Any { entry: AnyBuf } }
profile! { Fast { threads: InLane } }

type BothClocks = (CompletionTs, CompletionWallclock);

const EOPNOTSUPP: i32 = 95;

/// A pair of queue pairs whose completions have these fields.
struct Polled<T: Bring<P>, F: WcFields, P: Profile<Entry: Owned> = DefaultProfile> {
    a: QueuePair<T, Rts, P>,
    b: QueuePair<T, Rts, P>,
    ca: CompletionQueueEx<F, P::Entry>,
    cb: CompletionQueueEx<F, P::Entry>,
    pool: Pool,
    pd: ProtectionDomain,
    dev: Device,
}

impl<T, F, P> Polled<T, F, P>
where
    T: Bring<P>,
    F: WcFields,
    P: Profile<Receive = OwnRq, Threads = AnyThread, Entry: Owned>,
{
    fn new() -> Self {
        Self::on(Device::open())
    }

    fn on(dev: Device) -> Self {
        let wish = Wish::new();
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(wish.buffers, wish.size).unwrap();
        let ca = dev.ctx.cq(wish.cqe).fields().create().unwrap();
        let cb = dev.ctx.cq(wish.cqe).fields().create().unwrap();
        let a = pd.create_qp::<T, P>(&ca, &ca, wish.depth).unwrap();
        let b = pd.create_qp::<T, P>(&cb, &cb, wish.depth).unwrap();
        let (a, b) = T::connect((a, &pd), (b, &pd), &dev, &wish);
        Polled { a, b, ca, cb, pool, pd, dev }
    }
}

/// Polls `n` completions, and returns the result of `read` on the fields of each.
fn come<F: WcFields, E: Owned, R>(
    dev: &Device,
    cq: &mut CompletionQueueEx<F, E>,
    n: usize,
    read: impl Fn(ReadFields<'_, F>) -> R,
) -> Vec<(Done<E>, R)> {
    let mut all = Vec::new();
    until(dev, "completions of extended polling", || {
        for (completion, fields) in cq.poll().unwrap() {
            let done = match completion.outcome() {
                Outcome::Sent(sent) => Done::Sent(sent),
                Outcome::Received(received) => Done::Received(received),
                Outcome::Datagram(received) => Done::Datagram(received),
                Outcome::Failed(failed) => Done::Failed(failed),
                Outcome::Selective(_) => panic!("each of these sends completes"),
            };
            all.push((done, read(fields)));
        }
        all.len() >= n
    });
    assert_eq!(all.len(), n);
    all
}

/// Whether the device has no clock. It reports that in two ways (R14.6).
fn has_no_clock(dev: &Device) -> bool {
    let can: Option<Can<Timestamps>> = dev.ctx.abilities().unwrap().can();
    let asked = dev.ctx.cq(8).fields::<CompletionTs>().create::<Buf>().map(drop);
    assert_eq!(
        asked.map_err(|error| error.errno()),
        can.as_ref().map(drop).ok_or(Some(EOPNOTSUPP))
    );
    can.is_none()
}

/// R14.6.
/// Proves R14.6.
#[test]
fn a_device_without_a_clock_reports_it() {
    fails_on!(Siw, "R18.17");
    let dev = Device::open();
    let as_rxe = Device::personality() == Personality::Rxe;
    let lacks = by_rule!(dev, "R14.6", loopback: as_rxe, rxe: true);
    assert_eq!(has_no_clock(&dev), lacks);
    let asked = dev.ctx.cq(8).fields::<CompletionWallclock>().create::<Buf>();
    let refused = asked.map(drop).map_err(|error| (error.verb(), error.errno()));
    assert_eq!(refused.err(), lacks.then_some(("ibv_create_cq_ex", Some(EOPNOTSUPP))));
}

/// Each completion has the time when it was made, by the device's clock and as a time of day.
#[test]
fn completions_have_their_times() {
    let dev = Device::open();
    if has_no_clock(&dev) {
        return println!("this device has no clock");
    }
    let clock = dev.ctx.query_device_ex().unwrap().clock().unwrap();
    let mut p = Polled::<Rc, BothClocks>::on(dev);
    let mut times = Vec::new();
    for i in 0..6u8 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i; 9]))).unwrap();
        let sent = come(&p.dev, &mut p.ca, 1, |f| (f.completion_ts(), f.completion_wallclock_ns()));
        let (done, (ticks, ns)) = sent.into_iter().next().unwrap();
        done.sent();
        times.push((ticks.unwrap(), ns.unwrap()));
        let received = come(&p.dev, &mut p.cb, 1, |f| f.completion_ts().is_some());
        let (done, has_time) = received.into_iter().next().unwrap();
        assert_eq!((done.received().data(), has_time), (&[i; 9][..], true));
    }
    for pair in times.windows(2) {
        let (ticks, ns) = (clock.between(pair[0].0, pair[1].0), pair[1].1 - pair[0].1);
        assert!(ticks > Duration::ZERO && ticks < Duration::from_secs(60), "{ticks:?}");
        if p.dev.kind == Kind::Loopback {
            // Two completions are made in each round, and each advances the clock by 8 µs.
            assert_eq!((ticks, ns), (Duration::from_micros(16), 16_000));
        }
    }
    assert_eq!(p.pool.available(), 40);
}

/// Completions that a poll left over have their own times, whichever poll returns them.
#[test]
fn leftovers_have_their_own_times() {
    let dev = Device::open();
    if has_no_clock(&dev) {
        return println!("this device has no clock");
    }
    let clock = dev.ctx.query_device_ex().unwrap().clock().unwrap();
    let mut p = Polled::<Rc, BothClocks>::on(dev);
    arrived(&mut p, 8);
    let mut seen = Vec::new();
    let mut take = |(completion, fields): WithFields<'_, BothClocks, Buf>| {
        let times = (fields.completion_ts().unwrap(), fields.completion_wallclock_ns().unwrap());
        seen.push((completion.into_entry().unwrap()[0], times));
    };
    p.cb.poll().unwrap().take(2).for_each(&mut take);
    take(p.cb.poll_one().unwrap().unwrap());
    p.cb.poll().unwrap().take(1).for_each(&mut take);
    p.cb.poll().unwrap().for_each(&mut take);
    let order: Vec<u8> = seen.iter().map(|(byte, _)| *byte).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
    for pair in seen.windows(2) {
        let ((ticks, ns), (next_ticks, next_ns)) = (pair[0].1, pair[1].1);
        let between = clock.between(ticks, next_ticks);
        assert!(between > Duration::ZERO && between < Duration::from_secs(60), "{between:?}");
        assert!(next_ns > ns, "{ns} and {next_ns}");
    }
}

macro_rules! connected {
    ($test:ident, $transport:ident) => {
        #[test]
        fn $test() {
            fails_on!(Iwarp, "R24.2", stringify!($transport) == "Uc");
            fails_on!(IwarpOtherwise, "R24.15", stringify!($transport) == "Rc");
            let mut p = Polled::<$transport, DlidPathBits>::new();
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.b.post_recv(wr::Recv::empty()).unwrap();
            let region = p.pd.register::<RemoteWrite>(8).unwrap();
            let to = region.remote().write();
            p.a.post_send(wr::SendWithImm::new(filled(&p.pool, b"hello"), 7)).unwrap();
            p.a.post_send(wr::RdmaWriteWithImm::inline(b"8 bytes!", to, 8)).unwrap();
            let sent = come(&p.dev, &mut p.ca, 2, |fields| fields.dlid_path_bits());
            let said = sent.into_iter().map(|(done, bits)| (done.sent().opcode, bits));
            let expected = [(WcOpcode::Send, None), (WcOpcode::RdmaWrite, None)];
            assert_eq!(said.collect::<Vec<_>>(), expected);
            let mut got = come(&p.dev, &mut p.cb, 2, |fields| fields.dlid_path_bits());
            let ((written, none), (message, bits)) = (got.pop().unwrap(), got.pop().unwrap());
            assert_eq!((none, bits), (None, None), "no datagram");
            let message = message.received();
            assert_eq!((message.opcode, message.imm_data), (WcOpcode::Recv, Some(7)));
            assert_eq!((message.qp_num, message.data()), (p.b.qp_num(), &b"hello"[..]));
            let written = written.received();
            assert_eq!((written.opcode, written.imm_data), (WcOpcode::RecvRdmaWithImm, Some(8)));
            assert_eq!((written.byte_len, written.entry.is_none()), (8, true));
            assert_eq!(p.pool.available(), 39, "the message holds one");
        }
    };
}

connected!(rc_says_what_it_says, Rc);
connected!(uc_says_what_it_says, Uc);

/// The fields of a datagram: its source, its immediate, and the requested fields.
#[test]
fn a_datagram_completion_has_its_fields() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Polled::<Ud, DlidPathBits>::new();
    let (dev, pd) = (p.dev.clone(), p.pd.clone());
    let to = p.a.way_to(&dev, &pd, p.b.qp_num());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::SendWithImm::new(filled(&p.pool, b"hello"), 7).to(to)).unwrap();
    let (done, bits) = come(&dev, &mut p.ca, 1, |fields| fields.dlid_path_bits()).remove(0);
    assert_eq!((done.sent().opcode, bits), (WcOpcode::Send, None));
    let (done, bits) = come(&dev, &mut p.cb, 1, |fields| fields.dlid_path_bits()).remove(0);
    let got = done.datagram();
    assert_eq!(
        (got.src_qp.get(), got.imm_data, got.payload()),
        (p.a.qp_num(), Some(7), &b"hello"[..])
    );
    assert_eq!(bits, Some(0), "the port has one LID");
}

/// A field that was not requested is not read.
#[test]
fn a_datagram_without_fields() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Polled::<Ud, ()>::new();
    let (dev, pd) = (p.dev.clone(), p.pd.clone());
    let to = p.a.way_to(&dev, &pd, p.b.qp_num());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"hello")).to(to)).unwrap();
    come(&dev, &mut p.ca, 1, |_| ()).remove(0).0.sent();
    let got = come(&dev, &mut p.cb, 1, |_| ()).remove(0).0.datagram();
    assert_eq!((got.src_qp.get(), got.payload()), (p.a.qp_num(), &b"hello"[..]));
}

/// A drain polls as usual: requests posted before and after the failure return.
#[test]
fn flushed_requests_return() {
    fails_on!(Siw, "R18.17");
    let mut p = Polled::<Rc, ()>::new();
    p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let mut a = p.a.to_error().unwrap();
    let mut home = 0;
    a.drain(&mut p.ca, |found| home += usize::from(matches!(found, Drained::Entry(_)))).unwrap();
    assert_eq!((home, a.sends_outstanding(), a.recvs_outstanding()), (1, 0, 0));
    assert_eq!(p.pool.available(), 40);
    drop(a);
    p.ca.destroy().unwrap();
}

/// A failure has a status, but no time, which is not promised.
#[test]
fn a_failure_has_no_time() {
    let dev = Device::open();
    if has_no_clock(&dev) {
        return println!("this device has no clock");
    }
    let mut p = Polled::<Rc, CompletionTs>::on(dev);
    let nothing = RemoteSlice::<RemoteRead>::from_parts(0x1000, 8, 0xbad);
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), nothing.read())).unwrap();
    let (done, ticks) = come(&p.dev, &mut p.ca, 1, |fields| fields.completion_ts()).remove(0);
    assert!(done.failed(Direction::Send, WcStatus::RemAccess).entry.is_some());
    assert_eq!(ticks, None);
}

/// An invalidated key is in the field of an immediate.
#[test]
fn an_invalidated_key_is_reported() {
    fails_on!(IwarpOtherwise, "R24.15");
    let mut p = Polled::<Rc, (), Any>::new();
    let region: MemoryRegion<Windowed<LocalWrite>> = p.pd.register(64).unwrap();
    let window = p.a.alloc_mw().unwrap();
    let (bind, lent) =
        ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap().lend();
    p.a.post_send(bind).unwrap();
    p.a.post_recv(wr::Recv::empty()).unwrap();
    let mut done = come(&p.dev, &mut p.ca, 1, |_| ());
    let Some(AnyBuf::Window(window)) = done.remove(0).0.sent().entry else { panic!("no window") };
    let window = window.into_lent().unwrap();
    p.b.post_send(ext::windows::SendWithInv::new(wr::Empty, lent)).unwrap();
    let mut window = Some(window);
    until(&p.dev, "the message", || match p.ca.poll_one().unwrap() {
        Some((completion, _)) => {
            window.take().unwrap().revoked(completion).unwrap();
            true
        }
        None => false,
    });
}

#[test]
fn selective_sends_are_released() {
    fails_on!(NoRings);
    let mut p = Polled::<Rc, (), Ring>::new();
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    post_send!(p.a, [send(0), send(1), send(2)]).unwrap();
    let mut released = Vec::new();
    until(&p.dev, "the completion", || {
        let Some((completion, _)) = p.ca.poll_one().unwrap() else { return false };
        released.extend(p.a.complete(completion).unwrap().released.map(|buf| buf[0]));
        true
    });
    assert_eq!((released, p.a.sends_outstanding()), (vec![0, 1, 2], 0));
}

/// Sends messages 0, 1 and so on from `a` to `b`, which receives all of them.
fn arrived<F: WcFields>(p: &mut Polled<Rc, F>, n: u8) {
    for i in 0..n {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    // On RC the sender's completions show that the receiver's are there.
    come(&p.dev, &mut p.ca, n.into(), |_| ());
}

/// A panic in the loop: every start still has its end, and the next poll returns the rest.
/// Proves R14.1.
#[test]
fn a_panic_between_completions_loses_none() {
    fails_on!(Siw, "R18.17");
    let mut p = Polled::<Rc, ()>::new();
    arrived(&mut p, 4);
    let mut seen = Vec::new();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        for (completion, _) in p.cb.poll().unwrap() {
            seen.push(completion.into_entry().unwrap()[0]);
            assert!(seen.len() < 2, "the second is one too many");
        }
    }));
    assert!(ended.is_err());
    let left = p.cb.poll().unwrap().filter_map(|(completion, _)| completion.into_entry());
    seen.extend(left.map(|buf| buf[0]));
    assert_eq!((seen, p.pool.available()), (vec![0, 1, 2, 3], 40));
    arrived(&mut p, 1);
}

/// Forgetting an iterator loses the completions that it did not return, and nothing else: the queue
/// is not locked.
/// Proves R14.1.
#[test]
fn a_forgotten_iterator_leaves_nothing_locked() {
    fails_on!(Siw, "R18.17");
    let mut p = Polled::<Rc, ()>::new();
    arrived(&mut p, 3);
    let mut completions = p.cb.poll().unwrap();
    let first = completions.next().unwrap().0.into_entry().unwrap();
    assert_eq!((completions.len(), completions.is_empty()), (2, false));
    forget(completions);
    assert_eq!((first[0], p.pool.available()), (0, 37));
    arrived(&mut p, 1);
    let next = come(&p.dev, &mut p.cb, 1, |_| ()).remove(0).0;
    assert_eq!(next.received().data(), [0]);
    assert!(p.cb.poll().unwrap().is_empty());
}

/// More completions than a poll returns arrive in order, with both kinds of polls mixed.
/// Proves R14.3.
#[test]
fn more_than_a_batch_arrives_in_order() {
    fails_on!(Siw, "R18.17");
    let mut p = Polled::<Rc, ()>::new();
    for round in 0..3u8 {
        for i in 0..8 {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(wr::Send::new(filled(&p.pool, &[round, i]))).unwrap();
        }
        poll(&p.dev, &mut p.ca, 8);
        let first = p.cb.poll_one().unwrap().unwrap().0.into_entry().unwrap();
        assert!(!p.cb.poll().unwrap().is_empty(), "seven are left, and stay");
        let rest = poll(&p.dev, &mut p.cb, 3).into_iter().map(|done| done.received().data()[1]);
        let mut order = vec![first[1]];
        order.extend(rest);
        let last = come(&p.dev, &mut p.cb, 4, |_| ()).into_iter();
        order.extend(last.map(|(done, ())| done.received().data()[1]));
        assert_eq!(order, (0..8).collect::<Vec<_>>());
    }
    assert_eq!(p.pool.available(), 40);
}

/// Buffers left by a destroyed queue pair return with polls, as usual.
#[test]
fn orphaned_buffers_return() {
    fails_on!(Siw, "R18.17");
    let mut p = Polled::<Rc, ()>::new();
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    p.b.destroy().unwrap();
    assert_eq!(p.pool.available(), 37);
    while p.cb.poll_one().unwrap().is_some() {}
    assert_eq!((p.pool.available(), p.cb.unbooked()), (40, p.cb.capacity()));
    p.cb.resize(80).unwrap();
    assert!(p.cb.capacity() >= 80);
    p.cb.destroy().unwrap();
}

/// A queue that queue pairs still use is returned, and can still be polled with its fields.
#[test]
fn a_queue_in_use_is_not_destroyed() {
    fails_on!(Siw, "R18.17");
    let p = Polled::<Rc, DlidPathBits>::new();
    let mut cb = p.cb.destroy().unwrap_err().into_object();
    assert!(cb.poll_one().unwrap().is_none());
    assert!(format!("{cb:?}").contains("wc_flags 0x7f"), "{cb:?}");
}

/// A wait finds the completions; the next poll returns them with their fields.
#[test]
fn a_channel_wakes_for_completions_with_fields() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let (pd, wish) = (dev.ctx.alloc_pd().unwrap(), Wish::new());
    let mut channel = dev.ctx.create_comp_channel().unwrap();
    let vector = dev.ctx.comp_vectors().pop().unwrap();
    let mut cq: CompletionQueueEx<()> =
        dev.ctx.cq(wish.cqe).fields().channel(&channel).vector(&vector).create().unwrap();
    let stranger = Device::open().ctx.comp_vectors().pop().unwrap();
    let refused = dev
        .ctx
        .cq(wish.cqe)
        .fields::<()>()
        .channel(&channel)
        .vector(&stranger)
        .create::<Buf>()
        .unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::ContextMismatch { .. }), "{refused}");
    let mut other: CompletionQueueEx<()> =
        dev.ctx.cq(wish.cqe).fields().channel(&channel).create().unwrap();
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &other, wish.depth).unwrap();
    let itself = qp.qp_num();
    let mut qp = Rc::up(qp, &dev, itself, &wish);
    assert!(channel.wait_timeout(&mut cq, Duration::from_millis(1)).unwrap().is_empty());
    qp.post_recv(wr::Recv::empty()).unwrap();
    qp.post_send(wr::Send::new(wr::Empty)).unwrap();
    assert!(!channel.wait_timeout(&mut cq, long()).unwrap().is_empty());
    let (completion, _) = cq.poll_one().unwrap().unwrap();
    assert_eq!(completion.opcode(), Some(WcOpcode::Send));
    drop(completion);
    assert_eq!(channel.wait_any(&mut [&mut *other], Some(long())).unwrap(), Some(0));
    let received = other.poll().unwrap().map(|(completion, _)| completion.opcode());
    assert_eq!(received.collect::<Vec<_>>(), [Some(WcOpcode::Recv)]);
}

/// In a lane the queue is also single-threaded, if the device supports that.
#[test]
fn a_lane_supports_extended_polling() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let (pd, wish) = (dev.ctx.alloc_pd().unwrap(), Wish::new());
    let lane = pd.alloc_lane().unwrap();
    let channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq: CompletionQueueEx<DlidPathBits, Buf, InLane> =
        lane.cq(60).fields().create().unwrap();
    let waits: CompletionQueueEx<(), Buf, InLane> =
        lane.cq(60).fields().channel(&channel).create().unwrap();
    let vectors = dev.ctx.comp_vectors();
    let spread: CompletionQueueEx<(), Buf, InLane> =
        lane.cq(60).channel(&channel).vector(&vectors[0]).fields().create().unwrap();
    assert!(spread.capacity() >= 60 && waits.capacity() >= 60);
    let qp = lane.create_qp::<Rc, Fast>(&cq, &cq, wish.depth).unwrap();
    let itself = qp.qp_num();
    let mut qp = Rc::up(qp, &dev, itself, &wish);
    qp.post_recv(wr::Recv::empty()).unwrap();
    qp.post_send(wr::Send::new(wr::Empty)).unwrap();
    let mut came = 0;
    until(&dev, "both ends", || {
        came += cq.poll().unwrap().filter(|(completion, _)| completion.status().is_ok()).count();
        came == 2
    });
    drop((qp, cq, waits, spread));
    lane.destroy().unwrap();
}

/// The adapter of extended polling is below the one that counts.
#[test]
fn a_queue_with_fields_counts_and_shares_its_entries() {
    fails_on!(Siw, "R18.17");
    let p = Polled::<Rc, ()>::new();
    let mut cq: CompletionQueueEx<(), Buf> =
        p.dev.ctx.cq(8).shared_budget().counted().fields().create().unwrap();
    let (counters, capacity) = (cq.counters().unwrap(), cq.capacity());
    assert!(p.ca.counters().is_none());
    let wish = Wish::new();
    let a = p.pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
    let b = p.pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
    let (mut a, mut b) = Rc::connect((a, &p.pd), (b, &p.pd), &p.dev, &wish);
    b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    a.post_send(wr::Send::new(filled(&p.pool, b"5 byt"))).unwrap();
    assert_eq!(counters.unbooked(), capacity - 2);
    let all = come(&p.dev, &mut cq, 2, |_| ());
    assert_eq!((counters.completions(), counters.received_bytes()), (2, 5));
    drop(all);
    b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let b = b.to_error().unwrap();
    drop(come(&p.dev, &mut cq, 1, |_| ()));
    assert_eq!(counters.failures().collect::<Vec<_>>(), [(WcStatus::WrFlush, 1)]);
    assert_eq!((counters.completions(), counters.unbooked()), (3, capacity));
    drop((a, b));
}
