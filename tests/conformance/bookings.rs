//! Completion queues cannot overrun: a queue books all its possible completions when it attaches.

use proverbs::prelude::*;

use crate::support::*;

fn device() -> (Device, ProtectionDomain) {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    (dev, pd)
}

/// Proves R10.13.
#[test]
fn each_direction_books_its_depth() {
    fails_on!(Iwarp, "R24.2");
    let (dev, pd) = device();
    let (sends, receives) = (dev.ctx.create_cq::<Buf>(40).unwrap(), dev.ctx.create_cq(40).unwrap());
    let (free_s, free_r) = (sends.unbooked(), receives.unbooked());
    assert_eq!((free_s, free_r), (sends.capacity(), receives.capacity()));
    assert!(free_s >= 40);
    let depth = Depth { send: 5, recv: 9 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&sends, &receives, depth).unwrap();
    assert_eq!((qp.depth(), qp.granted_depth().recv >= 9), (depth, true));
    // One more send than requested, for the marker of a drain.
    assert_eq!((sends.unbooked(), receives.unbooked()), (free_s - 6, free_r - 9));
    let both = pd.create_qp::<Uc, DefaultProfile>(&sends, &sends, depth).unwrap();
    assert_eq!(sends.unbooked(), free_s - 6 - 15);
    drop((qp, both));
    // Nothing was outstanding, so no completion of theirs can be in the queue.
    assert_eq!((sends.unbooked(), receives.unbooked()), (free_s, free_r));
}

/// Proves R9.9.
#[test]
fn a_queue_without_room_refuses_and_books_nothing() {
    let (dev, pd) = device();
    let cq = dev.ctx.create_cq::<Buf>(10).unwrap();
    let free = cq.unbooked();
    for depth in [Depth { send: free, recv: 0 }, Depth { send: 1, recv: free - 1 }] {
        let error = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap_err();
        let asked = free + 1;
        assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked, free, enough: asked });
        assert_eq!(error.verb(), "ibv_create_qp");
        let text = format!(
            "ibv_create_qp: the completion queue has room for {free} of the {asked} entries these \
             queues need: create it with at least {asked}"
        );
        assert_eq!(error.to_string(), text);
        assert_eq!(cq.unbooked(), cq.capacity());
    }
    // This uses the last entry.
    let depth = Depth { send: free - 4, recv: 3 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    assert_eq!(cq.unbooked(), 0);
    drop(qp);
}

/// The capacity in the error is enough for both directions, including all bookings.
///
/// Proves R9.9.
#[test]
fn a_refusal_has_a_sufficient_capacity() {
    let (dev, pd) = device();
    let create = |send: &CompletionQueue, recv: &CompletionQueue, depth| {
        pd.create_qp::<Rc, DefaultProfile>(send, recv, depth)
    };
    let cq = dev.ctx.create_cq(8).unwrap();
    let all = cq.capacity();
    let large = Depth { send: all, recv: 8 };
    let error = create(&cq, &cq, large).unwrap_err();
    let asked = all + 1 + 8;
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked, free: all, enough: asked });

    // Each direction alone would fit.
    let halves = Depth { send: all - 1, recv: all };
    let error = create(&cq, &cq, halves).unwrap_err();
    let (asked, enough) = (2 * all, 2 * all);
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked, free: all, enough });

    // Four entries are booked.
    let small = create(&cq, &cq, Depth { send: 2, recv: 1 }).unwrap();
    let error = create(&cq, &cq, large).unwrap_err();
    let (asked, free, enough) = (all + 1 + 8, all - 4, 4 + all + 1 + 8);
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked, free, enough });

    // With two completion queues, each needs room for its own direction.
    let other = dev.ctx.create_cq(8).unwrap();
    let most = other.capacity();
    let error = create(&other, &cq, Depth { send: 1, recv: all }).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked: all, free: all - 4, enough: 4 + all });
    let error = create(&other, &cq, Depth { send: most, recv: 1 }).unwrap_err();
    let asked = most + 1;
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked, free: most, enough: asked });
    assert_eq!((other.unbooked(), cq.unbooked()), (most, all - 4));

    // That capacity is enough.
    let larger = dev.ctx.create_cq(enough).unwrap();
    let both = [Depth { send: 2, recv: 1 }, large].map(|depth| create(&larger, &larger, depth));
    assert!(both.iter().all(Result::is_ok), "{both:?}");
    drop((small, both));
}

/// A shared receive queue whose receives complete on the same queue as the sends is counted with
/// them, once.
///
/// Proves R7.8, R9.9.
#[test]
fn a_refusal_counts_a_shared_receive_queue() {
    profile! { Sharing { receive: SharedRq } }
    let (dev, pd) = device();
    let pool = pd.create_pool(7, 64).unwrap();
    let srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
    let cq = dev.ctx.create_cq(16).unwrap();
    let all = cq.capacity();
    let create = |cq: &CompletionQueue, sends: u32| {
        pd.create_qp::<Rc, Sharing>(cq, cq, Depth::on_srq(sends, &srq))
    };
    // The sends alone would fit.
    let error = create(&cq, all - 1).unwrap_err();
    let (asked, enough) = (all + 7, all + 7);
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked, free: all, enough });
    assert_eq!(cq.unbooked(), all);

    let one = create(&cq, 2).unwrap();
    assert_eq!(cq.unbooked(), all - 3 - 7);
    let error = create(&cq, all).unwrap_err();
    let (asked, free, enough) = (all + 1, all - 10, all + 1 + 10);
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked, free, enough });

    let larger = dev.ctx.create_cq(enough).unwrap();
    let both = [create(&larger, 2), create(&larger, all)];
    assert!(both.iter().all(Result::is_ok), "{both:?}");
    drop((one, both));
}

/// Proves R9.9.
#[test]
fn a_builder_computes_the_size_from_the_depths() {
    profile! { Sharing { receive: SharedRq } }
    let (dev, pd) = device();
    let (depth, sends) = (Depth { send: 8, recv: 4 }, Depth { send: 6, recv: 0 });
    let builder = || dev.ctx.cq(0).queue_pairs(2, depth).queue_pairs(3, sends).receives(7);
    let cq = builder().create().unwrap();
    let entries = 2 * (8 + 1 + 4) + 3 * (6 + 1) + 7;
    assert_eq!(format!("{:?}", builder()), format!("CqBuilder({entries} entries)"));
    assert!(cq.capacity() >= entries);

    let pool = pd.create_pool(7, 64).unwrap();
    let srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
    let own = [(); 2].map(|()| pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap());
    let shared =
        [(); 3].map(|()| pd.create_qp::<Rc, Sharing>(&cq, &cq, Depth::on_srq(6, &srq)).unwrap());
    assert_eq!(cq.capacity() - cq.unbooked(), entries);
    drop((own, shared));

    // More than any device has.
    for depth in [depth, Depth { send: u32::MAX, recv: u32::MAX }] {
        let too_many = dev.ctx.cq(1).queue_pairs(u32::MAX, depth).create::<Buf>().unwrap_err();
        let limit = |asked: u64| matches!(too_many.kind(), ErrorKind::Limit { what: "cqe", asked: a, .. } if *a == asked);
        assert!(limit(u32::MAX.into()), "{too_many}");
    }
}

/// Proves R9.7, R9.9.
#[test]
fn a_fully_booked_queue_never_overruns() {
    let wish = Wish { depth: Depth { send: 6, recv: 6 }, cqe: 13, ..Wish::new() };
    let mut p = Pair::<Rc>::with(&wish);
    for round in 0..if cfg!(miri) { 1 } else { 3 } {
        for _ in 0..6 {
            p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        }
        for _ in 0..6 {
            p.a.post_send(wr::Send::new(filled(&p.pool, &[round]))).unwrap();
            p.b.post_send(wr::Send::new(filled(&p.pool, &[round]))).unwrap();
        }
        // Both queues fill up before either is polled.
        assert!(p.a.post_send(wr::Send::new(wr::Empty)).unwrap_err().is_full());
        assert_eq!(poll(&p.dev, &mut p.ca, 12).len(), 12);
        assert_eq!(poll(&p.dev, &mut p.cb, 12).len(), 12);
    }
    assert_eq!(p.pool.available(), 40);
}

/// Proves R7.8.
#[test]
fn a_shared_receive_queue_books_each_completion_queue_once() {
    profile! { Shared { receive: SharedRq } }
    let (dev, pd) = device();
    let pool = pd.create_pool(7, 64).unwrap();
    let srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
    let sends = dev.ctx.create_cq(40).unwrap();
    let mut receives = dev.ctx.create_cq(40).unwrap();
    let free = receives.unbooked();
    let make = |receives: &CompletionQueue| {
        pd.create_qp::<Rc, Shared>(&sends, receives, Depth::on_srq(2, &srq)).unwrap()
    };
    let one = make(&receives);
    assert_eq!(receives.unbooked(), free - 7);
    let two = make(&receives);
    assert_eq!(receives.unbooked(), free - 7);
    drop((one, two));
    assert_eq!((poll_empty(&mut receives), receives.unbooked()), (0, free - 7));
    drop(srq);
    assert_eq!(poll_empty(&mut receives), 0);
    println!("{receives:?}");
}

/// Proves R8.18.
#[test]
fn a_reset_keeps_its_booking() {
    fails_on!(Iwarp, "R24.6");
    let Pair { a, mut ca, .. } = Pair::<Rc>::new();
    let left = ca.unbooked();
    let a = a.reset().unwrap();
    assert_eq!(ca.unbooked(), left);
    assert_eq!((poll_empty(&mut ca), ca.unbooked()), (0, left));
    drop(a);
    assert_eq!((poll_empty(&mut ca), ca.unbooked()), (0, ca.capacity()));
}

/// If sends and receives complete on different queues, each completion queue is notified of a
/// reset, and of the end.
#[test]
fn each_completion_queue_is_notified_of_the_end() {
    fails_on!(Iwarp, "R24.5");
    let (dev, pd) = device();
    let pool = pd.create_pool(8, 64).unwrap();
    let (mut sends, mut receives) =
        (dev.ctx.create_cq(40).unwrap(), dev.ctx.create_cq(40).unwrap());
    let free = (sends.unbooked(), receives.unbooked());
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    for destroys in [false, true] {
        let depth = Depth { send: 3, recv: 3 };
        let mut qp = pd.create_qp::<Rc, DefaultProfile>(&sends, &receives, depth).unwrap();
        for _ in 0..3 {
            let mut init = qp.modify(init).unwrap();
            for _ in 0..3 {
                init.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
            }
            let mut error = init.to_error().unwrap();
            for _ in 0..3 {
                error.post_send(wr::Send::new(filled(&pool, b"x"))).unwrap();
            }
            let mut reset = error.reset().unwrap();
            for cq in [&mut sends, &mut receives] {
                poll_empty(cq);
                pool.reclaim(cq);
                poll_empty(cq);
            }
            assert_eq!((reset.send_room(), reset.recv_room(), pool.available()), (3, 3, 8));
            qp = reset;
        }
        match destroys {
            true => qp.destroy().unwrap(),
            false => drop(qp),
        }
        for cq in [&mut sends, &mut receives] {
            poll_empty(cq);
        }
        assert_eq!((sends.unbooked(), receives.unbooked()), free);
    }
}
