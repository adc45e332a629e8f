//! All buffers return in any drop order, and nothing leaks that was not forgotten.

use proverbs::loopback::{Fault, Script};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::Max;

use crate::support::*;

profile! { Ring { signaling: Selective } }
profile! { OnSrq { receive: SharedRq } }

/// An open region and exclusive, shared and listed buffers, all with the device, dropped in every
/// order. The completion queue takes the last chance to poll with it, so orphaned buffers return by
/// themselves.
///
/// Outstanding buffers return to their pool when the last completion queue is dropped.
/// Proves R11.8.
#[test]
fn orphaned_buffers_return_when_the_last_completion_queue_is_dropped() {
    fails_on!(Iwarp, "R24.5");
    profile! { Any { entry: AnyBuf, max_recv_sge: 2 } }
    for order in 0..6 {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(8, 64).unwrap();
        let region = pd.register::<RemoteRead>(64).unwrap();
        let cq = dev.ctx.create_cq::<AnyBuf>(30).unwrap();
        let qp = pd.create_qp::<Rc, Any>(&cq, &cq, Depth { send: 8, recv: 8 }).unwrap();
        // A peer that does not exist: nothing completes.
        let wish = Wish::new();
        let mut qp = Rc::up(qp, &dev, 0xfffff0, &wish);
        qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        qp.post_recv(wr::Recv::new([poisoned(&pool), poisoned(&pool)])).unwrap();
        qp.post_send(wr::Send::new(filled(&pool, b"exclusive"))).unwrap();
        for shared in filled(&pool, b"shared").share(2) {
            qp.post_send(wr::Send::new(shared)).unwrap();
        }
        let mut piece = region.piece(0, 8).unwrap();
        piece.set_range(8, 56).unwrap();
        qp.post_send(wr::Send::new(piece)).unwrap();
        let watch = pool.clone();
        match order {
            0 => drop((qp, cq, pool, region, pd)),
            1 => drop((cq, qp, pool, region, pd)),
            2 => drop((pool, region, pd, cq, qp)),
            3 => drop((pd, pool, qp, region, cq)),
            4 => {
                qp.destroy().unwrap();
                cq.destroy().unwrap();
                region.destroy().unwrap();
                drop((pool, pd));
            }
            _ => {
                let qp = qp.reset().unwrap();
                drop((cq, region, qp, pool, pd));
            }
        }
        assert_eq!(watch.available(), 8, "order {order}");
        watch.destroy().unwrap();
        dev.ctx.destroy().unwrap();
    }
}

/// Buffers of a shared receive queue that no completion queue ever used return to their
/// pool.
/// Proves R7.16.
#[test]
fn a_shared_receive_queue_that_was_never_used() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool).unwrap();
    srq.post_srq_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    srq.destroy().unwrap();
    assert_eq!(pool.available(), 4);
}

/// The queue pair is dropped, the completion queue is polled, and then the shared receive queue is
/// dropped.
///
/// A shared receive queue that is dropped last releases its room.
/// Proves R7.16.
#[test]
fn a_shared_receive_queue_that_is_dropped_last() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let mut cq = dev.ctx.create_cq(30).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool).unwrap();
    let qp = pd.create_qp::<Rc, OnSrq>(&cq, &cq, Depth::on_srq(2, &srq)).unwrap();
    srq.post_srq_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    drop(qp);
    assert_eq!(poll_empty(&mut cq), 0);
    srq.destroy().unwrap();
    assert_eq!(poll_empty(&mut cq), 0);
    assert_eq!((pool.reclaim(&mut cq), pool.available()), (0, 4), "home by itself");
    assert_eq!(cq.unbooked(), cq.capacity());
}

/// A queue in use keeps its completions instead of discarding other queue pairs' messages.
///
/// A rejected `CompletionQueue::destroy` keeps the completions.
/// Proves R12.1.
#[test]
fn a_completion_queue_that_is_not_destroyed_loses_nothing() {
    let mut p = Pair::<Rc>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::inline(b"kept")).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let mut cb = p.cb.destroy().unwrap_err().into_object();
    assert_eq!(poll(&p.dev, &mut cb, 1).remove(0).received().data(), b"kept");
}

/// No more completions can arrive in it, so it may be dropped while the shared receive queue stays.
#[test]
fn a_completion_queue_that_is_dropped_before_its_shared_receive_queue() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool).unwrap();
    for _ in 0..2 {
        let cq = dev.ctx.create_cq(30).unwrap();
        let qp = pd.create_qp::<Rc, OnSrq>(&cq, &cq, Depth::on_srq(2, &srq)).unwrap();
        srq.post_srq_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        drop(qp);
        cq.destroy().unwrap();
    }
    assert_eq!(pool.available(), 2);
    // One that is dropped on another thread at the same time as the shared receive queue.
    let cq = dev.ctx.create_cq::<Buf>(30).unwrap();
    drop(pd.create_qp::<Rc, OnSrq>(&cq, &cq, Depth::on_srq(2, &srq)).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| cq.destroy().unwrap());
        srq.destroy().unwrap();
    });
    assert_eq!(pool.available(), 4);
    pool.destroy().unwrap();
}

/// There are no more polls when the queue pair is dropped. Its sends return at once, although its
/// shared receive queue stays.
#[test]
fn a_queue_pair_with_a_shared_receive_queue_that_outlives_its_completion_queues() {
    fails_on!(Iwarp, "R24.5");
    profile! { RingOnSrq { receive: SharedRq, signaling: Selective } }
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool).unwrap();
    srq.post_srq_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    let wish = Wish::new();
    macro_rules! goes {
        ($profile:ty) => {
            let sends = dev.ctx.create_cq::<Buf>(30).unwrap();
            let receives = dev.ctx.create_cq::<Buf>(30).unwrap();
            let qp =
                pd.create_qp::<Rc, $profile>(&sends, &receives, Depth::on_srq(8, &srq)).unwrap();
            // A peer that does not exist: nothing completes.
            let mut qp = Rc::up(qp, &dev, 0xfffff0, &wish);
            qp.post_send(wr::Send::new(filled(&pool, b"to nobody"))).unwrap();
            qp.post_send(wr::Send::new(filled(&pool, b"nor this"))).unwrap();
            drop((sends, receives));
            drop(qp);
            assert_eq!(pool.available(), 3);
        };
    }
    goes!(OnSrq);
    goes!(RingOnSrq);
    srq.destroy().unwrap();
    assert_eq!(pool.available(), 4);
    pool.destroy().unwrap();
}

/// A completion queue is dropped while a queue pair still uses it. Buffers that a destroyed queue
/// pair left there return then, without waiting for the other one. The same holds if it is broken,
/// so that polls fail.
#[test]
fn a_completion_queue_that_is_dropped_while_one_of_its_queue_pairs_lives() {
    fails_on!(Iwarp, "R24.5", Device::open().kind != Kind::Siw);
    for broken in [false, true] {
        let fabric = Device::fabric();
        let dev = Device::loopback(&fabric);
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(4, 64).unwrap();
        let cq = dev.ctx.create_cq::<Buf>(30).unwrap();
        let (wish, depth) = (Wish::new(), Depth { send: 2, recv: 2 });
        let [mut dead, mut living] = [0xfffff0, 0xfffff1].map(|nobody| {
            let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
            Rc::up(qp, &dev, nobody, &wish)
        });
        dead.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        dead.post_send(wr::Send::new(filled(&pool, b"to nobody"))).unwrap();
        living.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        if broken {
            fabric.inject(Script::default().with(Fault::BreakCq.always()));
        }
        drop(dead);
        drop(cq);
        assert_eq!(pool.available(), 3, "broken: {broken}");
        drop(living);
        assert_eq!(pool.available(), 4, "broken: {broken}");
        pool.destroy().unwrap();
    }
}

/// The user's iterator panics when it is dropped: its requests are dropped with their list, and so
/// are rejected ones.
///
/// An iterator that panics in its drop loses no buffer of its list.
#[test]
fn iterators_that_panic_when_they_are_dropped() {
    fails_on!(NoRings);
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    struct Bad<'p> {
        pool: &'p Pool,
        left: usize,
        says_how_many: bool,
    }
    impl Iterator for Bad<'_> {
        type Item = Buf;
        fn next(&mut self) -> Option<Buf> {
            self.left = self.left.checked_sub(1)?;
            Some(poisoned(self.pool))
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (self.left, self.says_how_many.then_some(self.left))
        }
    }
    impl Drop for Bad<'_> {
        fn drop(&mut self) {
            resume_unwind(Box::new("on purpose"))
        }
    }
    profile! { Lists { entry: BufList } }
    fn one(_: &Pool, buf: Buf) -> Buf {
        buf
    }
    fn two(pool: &Pool, buf: Buf) -> BufList {
        BufList::from([buf, poisoned(pool)])
    }
    macro_rules! all {
        ($profile:ident: $n:expr, $of:expr) => {
            for says_how_many in [false, true] {
                let mut p = Pair::<Rc, $profile>::new();
                let bad = || Bad { pool: &p.pool, left: $n, says_how_many };
                let (mut sends, mut receives) = (SendSlots::<4>::new(), RecvSlots::<4>::new());
                let mut list = p.a.send_list(&mut sends);
                let panics =
                    || drop(list.extend(bad().map(|buf| $of(&p.pool, buf)).map(wr::Send::new)));
                assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
                drop(list);
                let mut list = p.b.recv_list(&mut receives);
                let panics =
                    || drop(list.extend(bad().map(|buf| $of(&p.pool, buf)).map(wr::Recv::new)));
                assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
                drop(list);
                assert_eq!(p.pool.available(), 40);
                drop((p.a, p.b));
                assert_eq!((poll_empty(&mut p.ca), poll_empty(&mut p.cb)), (0, 0));
            }
        };
    }
    all!(DefaultProfile: 3, one);
    all!(Ring: 3, one);
    // One more than there are slots.
    all!(DefaultProfile: 5, one);
    all!(Ring: 5, one);
    // The first has more elements than the profile allows.
    all!(Lists: 3, two);
}

/// The user's iterator panics, or lies about its length, while it fills a list.
#[test]
fn iterators_that_panic_or_lie() {
    struct Liar<I>(I);
    impl<I: Iterator> Iterator for Liar<I> {
        type Item = I::Item;
        fn next(&mut self) -> Option<I::Item> {
            self.0.next()
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (usize::MAX, Some(0))
        }
    }
    let mut p = Pair::<Rc>::new();
    let (mut sends, mut receives) = (SendSlots::<4>::new(), RecvSlots::<4>::new());
    let pool = &p.pool;
    let bad = |i: u8| match i {
        2 => std::panic::resume_unwind(Box::new("on purpose")),
        _ => filled(pool, &[i]),
    };
    let panics = std::panic::AssertUnwindSafe(|| {
        let mut list = p.a.send_list(&mut sends);
        list.extend((0..4).map(|i| wr::Send::new(bad(i)))).unwrap();
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    let panics = std::panic::AssertUnwindSafe(|| {
        let mut list = p.b.recv_list(&mut receives);
        list.extend((0..4).map(|i| wr::Recv::new(bad(i)))).unwrap();
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!((pool.available(), p.a.send_room(), p.b.recv_room()), (40, 8, 8));

    let mut list = p.b.recv_list(&mut receives);
    let error = list.extend(Liar((0..6).map(|_| wr::Recv::new(poisoned(pool))))).unwrap_err();
    assert!(error.is_full());
    drop(error);
    list.post().unwrap();
    let mut list = p.a.send_list(&mut sends);
    list.extend(Liar((0..4).map(|i| wr::Send::new(filled(pool, &[i]))))).unwrap();
    list.post().unwrap();
    poll(&p.dev, &mut p.ca, 4);
    let got = poll(&p.dev, &mut p.cb, 4).into_iter().map(|done| done.received().data()[0]);
    assert_eq!(got.collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(pool.available(), 40);
}

/// A work request that is rejected because the list is full, and has another mistake, does not
/// spoil the next one.
#[test]
fn a_mistake_of_one_request_is_not_charged_to_the_next() {
    fails_on!(Iwarp, "R24.5");
    let p = Pair::<Rc>::new();
    let cq = p.dev.ctx.create_cq(30).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    let qp = p.pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let stranger = p.dev.ctx.alloc_pd().unwrap().create_pool(1, 64).unwrap();
    let mut qp = Rc::up(qp, &p.dev, p.b.qp_num(), &Wish::new());
    let mut slots = SendSlots::<3>::new();
    let mut list = qp.send_list(&mut slots);
    list.push(wr::Send::new(filled(&p.pool, &[0]))).unwrap();
    list.push(wr::Send::new(filled(&p.pool, &[1]))).unwrap();
    assert!(list.push(wr::Send::new(stranger.take().unwrap())).unwrap_err().is_full());
    let error = list.push(wr::Send::new(filled(&p.pool, &[2]))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 3, room: 2 });
    drop((error, list));
    assert_eq!((stranger.available(), p.pool.available()), (1, 40));
}

/// Completions from before a reset are in the completion queue when the queue pair is destroyed.
/// Its room is released only after they were polled.
///
/// A destroy after a reset does not release room of completions that are still queued.
#[test]
fn a_reset_and_a_destroy_while_completions_wait() {
    let pair = proverbs::loopback::pair().unwrap();
    let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } = pair;
    let region = pd.register::<RemoteWrite>(64).unwrap();
    let mut posted = 0;
    while a.send_room() > 0 {
        a.post_send(wr::RdmaWrite::inline(b"one", region.remote().write())).unwrap();
        posted += 1;
    }
    let booked = cq.unbooked();
    let a = a.reset().unwrap();
    a.destroy().unwrap();
    // (The receives had nothing outstanding.)
    let sends = posted + 1;
    let receives = cq.unbooked() - booked;
    assert!(receives <= sends, "{receives} entries were released");
    while cq.poll().unwrap().count() != 0 {}
    assert_eq!(cq.unbooked(), booked + receives + sends);
}

/// The same for a queue pair that is dropped, and destroyed when its receive completion queue was
/// found empty; its sends complete in another one.
///
/// A drop after a reset does not release room of completions that are still queued.
#[test]
fn a_reset_and_a_drop_while_completions_wait() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let feed = pd.create_pool(4, 64).unwrap();
    let (mut sends, mut receives) =
        (dev.ctx.create_cq(60).unwrap(), dev.ctx.create_cq(60).unwrap());
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&feed).unwrap();
    srq.post_srq_recv(wr::Recv::new(feed.take().unwrap())).unwrap();
    let made = pd.create_qp::<Rc, OnSrq>(&sends, &receives, Depth::on_srq(4, &srq)).unwrap();
    let booked = sends.unbooked();
    // A peer that does not exist: the sends are flushed.
    let mut qp = Rc::up(made, &dev, 0xfffff0, &Wish::new());
    while qp.send_room() > 0 {
        qp.post_send(wr::Send::inline(b"flushed")).unwrap();
    }
    // (Its receives are drained; otherwise it could not be reset.)
    let mut qp = qp.to_error().unwrap();
    qp.drain(&mut receives, |_| ()).unwrap();
    let qp = qp.reset().unwrap();
    drop(Rc::up(qp, &dev, 0xfffff0, &Wish::new()));
    while receives.poll().unwrap().count() != 0 {}
    srq.destroy().unwrap();
    assert_eq!(sends.unbooked(), booked, "earlier completions are still queued");
    while sends.poll().unwrap().count() != 0 {}
    assert_eq!(sends.unbooked(), sends.capacity());
}
