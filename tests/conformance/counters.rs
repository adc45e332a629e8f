//! The counts for monitoring are exactly what the program did.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use proverbs::completion::{Direction, GRH_LEN};
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::loopback::{Fabric, Fault, Script};
use proverbs::post::{RecvSlots, Refusal, SendSlots};
use proverbs::prelude::*;
use proverbs::qp::QpCounters;

use crate::support::*;
use Direction::{Receive, Send};

profile! { Watched { counted: true } }
profile! { Direct { counted: true, posting: ExtendedPosting } }
profile! { Ring { counted: true, signaling: Selective, initiator: NoReads } }
profile! { Lists {
    counted: true, max_send_sge: 3, max_recv_sge: 3, entry: BufList, initiator: NoReads
} }
profile! { Served { counted: true, receive: SharedRq } }
profile! { Unwatched { counted: false, signaling: Selective, initiator: NoReads } }

/// Posted, completed and outstanding work requests of a direction.
fn counts(counters: &QpCounters, direction: Direction) -> [Option<u64>; 3] {
    let of = |count: fn(&QpCounters, Direction) -> Option<u64>| count(counters, direction);
    [of(QpCounters::posted), of(QpCounters::completed), of(QpCounters::outstanding)]
}

/// The counts if the profile asked for them.
fn known(posted: u64, completed: u64) -> [Option<u64>; 3] {
    [Some(posted), Some(completed), Some(posted - completed)]
}

fn bytes(counters: &QpCounters) -> [Option<u64>; 2] {
    [counters.sent_bytes(), counters.read_bytes()]
}

fn refused(counters: &QpCounters, direction: Direction) -> [u64; Refusal::ALL.len()] {
    Refusal::ALL.map(|why| counters.refused(direction, why))
}

/// Single posts, chains, lists and prepared work requests: from buffers, inline, empty, and READs.
/// All posts succeed.
macro_rules! each_way_to_post {
    ($profile:ty) => {{
        let mut p = Pair::<Rc, $profile>::with(&Wish { counted: true, ..Wish::new() });
        let [a, b] = [&p.a, &p.b].map(|qp| qp.counters());
        let [sends, receives] = [&p.ca, &p.cb].map(|cq| cq.counters().expect("it counts"));
        assert_eq!((a.qp_num(), counts(&a, Send)), (p.a.qp_num(), known(0, 0)));
        assert_eq!(bytes(&a), [Some(0), Some(0)]);
        let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
        let (to, from) = (region.remote().write(), region.remote().slice(8, 20).unwrap().read());
        let (take, sink) = (|data: &[u8]| filled(&p.pool, data), || poisoned(&p.pool));

        p.b.post_recv(wr::Recv::new(sink())).unwrap();
        post_recv!(p.b, [wr::Recv::new(sink()), wr::Recv::new(sink())]).unwrap();
        let mut slots = RecvSlots::<2>::new();
        let mut list = p.b.recv_list(&mut slots);
        list.push(wr::Recv::new(sink())).unwrap();
        list.post().unwrap();
        assert_eq!((counts(&b, Receive), bytes(&b)), (known(4, 0), [Some(0), Some(0)]));

        p.a.post_send(wr::Send::new(take(b"five!"))).unwrap();
        post_send!(
            p.a,
            [
                wr::Send::inline(b"abc"),
                wr::Send::new(wr::Empty),
                wr::RdmaWrite::inline(b"8 bytes!", to),
                wr::RdmaRead::new(sink(), from)
            ]
        )
        .unwrap();
        assert_eq!((counts(&a, Send), bytes(&a)), (known(5, 0), [Some(16), Some(20)]));
        poll(&p.dev, &mut p.ca, 5);
        assert_eq!(counts(&a, Send), known(5, 5));

        let mut slots = SendSlots::<2>::new();
        let mut list = p.a.send_list(&mut slots);
        list.push(wr::RdmaWrite::new(take(b"listed"), to)).unwrap();
        list.push(wr::Send::new(take(b""))).unwrap(); // a buffer that is inspected
        list.post().unwrap();
        let mut prepared = wr::RdmaWrite::new(wr::Placeholder, to).prepare();
        p.a.post_prepared(&mut prepared, take(b"prepared")).unwrap();
        assert_eq!((counts(&a, Send), bytes(&a)), (known(8, 5), [Some(30), Some(20)]));
        poll(&p.dev, &mut p.ca, 3);
        poll(&p.dev, &mut p.cb, 4);

        assert_eq!((counts(&a, Send), counts(&b, Receive)), (known(8, 8), known(4, 4)));
        assert_eq!((counts(&a, Receive), counts(&b, Send)), (known(0, 0), known(0, 0)));
        assert_eq!((sends.completions(), sends.received_bytes()), (8, 0));
        assert_eq!((receives.completions(), receives.received_bytes()), (4, 8));
        assert_eq!(sends.failures().chain(receives.failures()).count(), 0);
        assert_eq!((refused(&a, Send), refused(&b, Receive)), ([0; 5], [0; 5]));
    }};
}

#[test]
fn each_post_and_its_bytes() {
    each_way_to_post!(Watched);
}

#[test]
fn each_post_in_a_session() {
    fails_on!(Iwarp, "R15.1");
    each_way_to_post!(Direct);
}

/// Atomics return 8 bytes, and a WRITE with immediate counts where its receive completes.
#[test]
fn atomics_and_writes_with_immediate() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc, Watched>::with(&Wish { counted: true, ..Wish::new() });
    let region = p.pd.register::<RemoteAll>(64).unwrap();
    let (cell, to) = (region.remote().atomic(0).unwrap(), region.remote().write());
    p.b.post_recv(wr::Recv::empty()).unwrap();
    p.a.post_send(wr::FetchAndAdd::new(poisoned(&p.pool), cell, 3)).unwrap();
    p.a.post_send(wr::RdmaWriteWithImm::inline(b"by far", to, 7)).unwrap();
    poll(&p.dev, &mut p.ca, 2);
    poll(&p.dev, &mut p.cb, 1);
    assert_eq!(bytes(&p.a.counters()), [Some(6), Some(8)]);
    assert_eq!(p.cb.counters().unwrap().received_bytes(), 6);
}

/// The bytes of all elements of a list count.
#[test]
fn lists_of_buffers() {
    let mut p = Pair::<Rc, Lists>::with(&Wish::new());
    let list = |lens: [usize; 3]| -> BufList {
        lens.into_iter().map(|len| filled(&p.pool, &vec![1; len])).collect()
    };
    p.b.post_recv(wr::Recv::new(list([8; 3]))).unwrap();
    p.a.post_send(wr::Send::new(list([3, 0, 5]))).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    poll(&p.dev, &mut p.cb, 1);
    assert_eq!(bytes(&p.a.counters()), [Some(8), Some(0)]);
    assert!(p.ca.counters().is_none(), "it was created without");
}

/// Each datagram arrives after 40 bytes.
#[test]
fn datagrams() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud, Watched>::with(&Wish { counted: true, ..Wish::new() });
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::inline(b"to you").to(to)).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    poll(&p.dev, &mut p.cb, 1);
    assert_eq!(bytes(&p.a.counters()), [Some(6), Some(0)]);
    assert_eq!(p.cb.counters().unwrap().received_bytes(), GRH_LEN as u64 + 6);
}

/// One completion stands for several sends, even if it is dropped, detached or drained.
#[test]
fn completions_of_a_ring() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::with(&Wish { counted: true, ..Wish::new() });
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    let write = || wr::RdmaWrite::inline(b"written", region.remote().write());
    let (counters, cq) = (p.a.counters(), p.ca.counters().unwrap());
    let _ = p.a.post_send_unsignaled(write()).unwrap();
    let _ = p.a.post_send_unsignaled(write()).unwrap();
    p.a.post_send(write()).unwrap();
    assert_eq!((counts(&counters, Send), bytes(&counters)[0]), (known(3, 0), Some(21)));
    complete(&p.dev, &mut p.ca, &mut p.a, 1);
    assert_eq!((counts(&counters, Send), cq.completions()), (known(3, 3), 1));

    post_send!(p.a, [write(), write()]).unwrap();
    until(&p.dev, "the completion", || p.ca.poll_one().unwrap().is_some());
    assert_eq!(counts(&counters, Send), known(5, 5), "a dropped completion counts");
    assert_eq!(p.a.send_room(), 8, "and still when the queue pair has seen it");
    assert_eq!(counts(&counters, Send), known(5, 5));

    post_send!(p.a, [write(), write()]).unwrap();
    let mut kept = None;
    until(&p.dev, "the completion", || {
        kept = p.ca.poll_one().unwrap().map(|completion| completion.detach().unwrap());
        kept.is_some()
    });
    assert_eq!(counts(&counters, Send), known(7, 5));
    p.a.redeem(kept.unwrap()).unwrap();
    assert_eq!(counts(&counters, Send), known(7, 7));

    let _ = p.a.post_send_unsignaled(write()).unwrap();
    let mut a = p.a.to_error().unwrap();
    a.drain(&mut p.ca, |_| ()).unwrap();
    assert_eq!(counts(&counters, Send), known(8, 8), "without the send of the drain");
    assert_eq!(bytes(&counters)[0], Some(56));
}

/// Failures count by status, flushed work requests too.
#[test]
fn failures() {
    let mut p = Pair::<Rc, Watched>::with(&Wish { counted: true, ..Wish::new() });
    let (counters, sends, cq) =
        (p.b.counters(), p.ca.counters().unwrap(), p.cb.counters().unwrap());
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let wrong = RemoteSlice::<RemoteRead>::from_parts(0x1000, 8, 0xbad);
    // (A refused WRITE completes on iWARP, R24.12.)
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), wrong.read())).unwrap();
    let failed = poll(&p.dev, &mut p.ca, 1).remove(0);
    let Done::Failed(failed) = failed else { panic!("there is no such key") };
    assert_eq!(sends.failures().collect::<Vec<_>>(), [(failed.error.status, 1)]);
    // (siw flushes a READ of an unknown key.)
    let is_flush = u64::from(failed.error.status == WcStatus::WrFlush);
    assert_eq!((sends.completions(), sends.failed(WcStatus::WrFlush)), (1, is_flush));

    let mut b = p.b.to_error().unwrap();
    b.drain(&mut p.cb, |_| ()).unwrap();
    assert_eq!(counts(&counters, Receive), known(3, 3));
    assert_eq!((cq.completions(), cq.received_bytes()), (3, 0));
    assert_eq!(cq.failures().collect::<Vec<_>>(), [(WcStatus::WrFlush, 3)]);
}

/// Rejected posts count by reason, once for each call, and do not count as posted.
#[test]
fn refusals() {
    let mut p = Pair::<Rc, Watched>::with(&Wish { shares: false, ..Wish::new() });
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    let write = || wr::RdmaWrite::inline(b"8 bytes!", region.remote().write());
    let counters = p.a.counters();
    p.a.post_send(wr::RdmaWrite::inline_slice(&[0; 9], region.remote().write())).unwrap_err();
    p.a.post_send(wr::RdmaWrite::inline_slice(&[0; 65], region.remote().write())).unwrap_err();
    assert_eq!((refused(&counters, Send), counts(&counters, Send)), ([0, 0, 0, 0, 2], known(0, 0)));
    for _ in 0..7 {
        p.a.post_send(write()).unwrap();
    }
    post_send!(p.a, [write(), write()]).unwrap_err();
    assert_eq!((refused(&counters, Send), counts(&counters, Send)), ([1, 0, 0, 0, 2], known(7, 0)));
    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(write()).unwrap();
    list.push(write()).unwrap_err();
    list.push(write()).unwrap_err();
    list.post().unwrap();
    p.a.post_send(write()).unwrap_err();
    assert_eq!((refused(&counters, Send), counts(&counters, Send)), ([4, 0, 0, 0, 2], known(8, 0)));
    assert_eq!(bytes(&counters), [Some(64), Some(0)]);
    poll(&p.dev, &mut p.ca, 8);
    assert_eq!(counts(&counters, Send), known(8, 8));
}

/// The completion queue is full before the queue is.
#[test]
fn refusals_of_a_shared_budget() {
    let wish = Wish { shares: true, counted: true, cqe: 1, buffers: 600, ..Wish::new() };
    let wish = Wish { depth: Depth { send: 8, recv: 4000 }, ..wish };
    let mut p = Pair::<Rc, Watched>::with(&wish);
    let (counters, cq) = (p.b.counters(), p.cb.counters().unwrap());
    let capacity = p.cb.capacity();
    assert_eq!(cq.unbooked(), capacity);
    for _ in 0..capacity {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap_err();
    assert_eq!(refused(&counters, Receive), [0, 1, 0, 0, 0]);
    assert_eq!((counts(&counters, Receive), cq.unbooked()), (known(capacity.into(), 0), 0));
    let mut b = p.b.to_error().unwrap();
    b.drain(&mut p.cb, |_| ()).unwrap();
    assert_eq!(cq.failed(WcStatus::WrFlush), u64::from(capacity));
    assert_eq!(cq.unbooked(), capacity);
}

/// A device that accepts only the first work requests of a list, or has no room.
#[test]
fn a_list_that_the_device_rejects_in_part() {
    let fabric = Fabric::new();
    let mut p = Pair::<Rc, Watched>::on(Device::loopback(&fabric), &Wish::new());
    let region = p.pd.register::<RemoteAll>(64).unwrap();
    let (to, from) = (region.remote().write(), region.remote().read());
    let counters = p.a.counters();
    let mut fails = |errno, nth| {
        let fault = Fault::Refuse { errno }.nth(nth).posting(Send);
        fabric.inject(Script::default().with(fault));
        let (buf, sink) = (filled(&p.pool, b"some"), poisoned(&p.pool));
        let posted = post_send!(
            p.a,
            [
                wr::RdmaWrite::inline(b"8 bytes!", to),
                wr::RdmaWrite::new(buf, to),
                wr::RdmaRead::new(sink, from)
            ]
        );
        let accepted = posted.unwrap_err().accepted();
        poll(&p.dev, &mut p.ca, accepted);
        accepted as u64
    };
    assert_eq!(fails(libc::ENOMEM, 2), 2);
    assert_eq!((counts(&counters, Send), bytes(&counters)), (known(2, 2), [Some(12), Some(0)]));
    assert_eq!(fails(libc::EINVAL, 0), 0);
    assert_eq!((counts(&counters, Send), bytes(&counters)), (known(2, 2), [Some(12), Some(0)]));
    assert_eq!(fails(libc::EINVAL, 1), 1);
    assert_eq!((counts(&counters, Send), bytes(&counters)), (known(3, 3), [Some(20), Some(0)]));
    assert_eq!(refused(&counters, Send), [0, 0, 1, 2, 0]);
}

/// A reset starts new counts. Old ones stay as they are, also after the queue pair ended.
#[test]
fn counts_after_a_reset() {
    fails_on!(Iwarp, "R24.6");
    let mut p = Pair::<Rc, Watched>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let old = p.b.counters();
    let mut b = p.b.to_error().unwrap();
    b.drain(&mut p.cb, |_| ()).unwrap();
    let mut b = <Rc as Bring<Watched>>::init(b.reset().unwrap(), &Wish::new());
    let new = b.counters();
    assert_eq!((counts(&old, Receive), counts(&new, Receive)), (known(1, 1), known(0, 0)));
    b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    drop(b);
    poll_empty(&mut p.cb);
    drop(p.cb);
    assert_eq!((counts(&old, Receive), counts(&new, Receive)[0]), (known(1, 1), Some(2)));
    assert_eq!(counts(&new.clone(), Receive)[0], Some(2));
}

/// Completions and rejected posts count without a request in the profile.
#[test]
fn a_profile_that_does_not_count() {
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    let counters = p.a.counters();
    for _ in 0..20 {
        p.a.post_send(wr::RdmaWrite::inline(b"8 bytes!", region.remote().write())).unwrap();
        poll(&p.dev, &mut p.ca, 1);
    }
    p.a.post_send(wr::RdmaWrite::inline_slice(&[0; 9], region.remote().write())).unwrap_err();
    assert_eq!(counts(&counters, Send), [None, Some(20), None]);
    assert_eq!((bytes(&counters), refused(&counters, Send)), ([None; 2], [0, 0, 0, 0, 1]));
    let later = p.a.counters();
    assert_eq!(counts(&later, Send), [None, Some(20), None], "a later handle too");
    assert_eq!(counts(&later, Receive), [None, Some(0), None]);
}

#[test]
fn a_ring_that_does_not_count() {
    fails_on!(NoRings);
    let p = Pair::<Rc, Unwatched>::new();
    assert_eq!(counts(&p.a.counters(), Send), [None; 3]);
    assert_eq!(counts(&p.a.counters(), Receive), [None, Some(0), None]);
}

/// Receives of a shared receive queue belong to no queue pair.
#[test]
fn a_shared_receive_queue_has_no_counts() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
    let cq = dev.ctx.create_cq(60).unwrap();
    let qp = pd.create_qp::<Rc, Served>(&cq, &cq, Depth::on_srq(8, &srq)).unwrap();
    let counters = qp.counters();
    assert_eq!((counts(&counters, Send), counts(&counters, Receive)), (known(0, 0), [None; 3]));
}

/// A thread reads while another posts and polls: counts never decrease, and are exact at the end.
#[test]
fn another_thread_reads() {
    let rounds: u64 = if cfg!(miri) { 12 } else { 2000 };
    let mut p = Pair::<Rc, Watched>::with(&Wish { counted: true, ..Wish::new() });
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    let (counters, cq) = (p.a.counters(), p.ca.counters().unwrap());
    let (is_over, starts) = (AtomicBool::new(false), std::sync::Barrier::new(2));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut before, mut reads) = ([0; 5], 0u64);
            starts.wait();
            while !is_over.load(SeqCst) || reads == 0 {
                let completed = counters.completed(Send).unwrap();
                let posted = counters.posted(Send).unwrap();
                let full = counters.refused(Send, Refusal::QueueFull);
                let sent = counters.sent_bytes().unwrap();
                let now = [completed, posted, full, sent, cq.completions()];
                assert!(before.iter().zip(&now).all(|(before, now)| before <= now));
                // (Between two reads the other thread may do any number of rounds.)
                assert!(completed <= posted);
                (before, reads) = (now, reads + 1);
                thread::yield_now();
            }
        });
        starts.wait();
        for _ in 0..rounds {
            for _ in 0..8 {
                let write = wr::RdmaWrite::inline(b"8 bytes!", region.remote().write());
                p.a.post_send(write).unwrap();
            }
            p.a.post_send(wr::RdmaWrite::inline(b"no", region.remote().write())).unwrap_err();
            poll(&p.dev, &mut p.ca, 8);
        }
        drop(p.a);
        is_over.store(true, SeqCst);
        reader.join().unwrap();
    });
    assert_eq!(counts(&counters, Send), known(8 * rounds, 8 * rounds));
    assert_eq!((bytes(&counters)[0], cq.completions()), (Some(64 * rounds), 8 * rounds));
    assert_eq!(refused(&counters, Send), [rounds, 0, 0, 0, 0]);
}
