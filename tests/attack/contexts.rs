//! User contexts that panic when they are made or dropped, or that post and poll at that time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use proverbs::prelude::*;
use proverbs::qp::AnyQueuePair;
use proverbs::state::{QpState, Reset, Rts};

use crate::support::*;

/// Counts its drops, and panics on each, unless the thread is already panicking.
struct Loud(Arc<AtomicUsize>);

impl Drop for Loud {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        if !std::thread::panicking() {
            resume_unwind(Box::new("on purpose"));
        }
    }
}

profile! { WithLoud { entry: Buf<Loud> } }
profile! { WithLoudRing { entry: Buf<Loud>, signaling: Selective } }

#[test]
fn a_context_that_panics_while_it_is_made() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let made = catch_unwind(AssertUnwindSafe(|| {
        pd.pool(64)
            .contexts(|i| {
                if i == 5 {
                    resume_unwind(Box::new("on purpose"));
                }
                Loud(dropped.clone())
            })
            .create(8)
    }));
    assert!(made.is_err());
    assert_eq!(dropped.load(SeqCst), 5);
    // The region is deregistered, so it leaves nothing behind.
    pd.destroy().unwrap();
}

/// Several buffers are dropped at once. The first drops its pool, whose context panics; the others
/// still return.
///
/// A context that panics in its drop does not leak the contexts dropped with it.
#[test]
fn a_context_that_panics_among_others() {
    fails_on!(NoRings);
    for place in 0..5 {
        let mut p = Pair::<Rc, WithLoud>::new();
        let mut ring = (place == 3).then(Pair::<Rc, WithLoudRing>::new);
        let dropped = Arc::new(AtomicUsize::new(0));
        let region = p.pd.register::<RemoteWrite>(64).unwrap();
        let there = region.remote();
        let pool = |pd: &ProtectionDomain, count| {
            pd.pool(64).contexts(|_| Loud(dropped.clone())).create(count).unwrap()
        };
        let pd = ring.as_ref().map_or(&p.pd, |ring| &ring.pd).clone();
        let home = pool(&pd, 2);
        // Dropping this buffer drops its pool.
        let loud = pool(&pd, 2).take().unwrap();
        let rest = || home.take().unwrap();
        let went = catch_unwind(AssertUnwindSafe(|| match place {
            0 => drop(BufList::from([loud, rest(), rest()])),
            1 => {
                let nowhere = there.slice(0, 0).unwrap().write();
                let list = (
                    wr::Send::new(loud),
                    wr::Send::new(rest()),
                    wr::RdmaWrite::inline(&[1], nowhere),
                );
                drop(post_send!(p.a, [list.0, list.1, list.2]));
            }
            2 => {
                // Flushed, and never polled.
                let Pair { mut a, mut ca, .. } = p;
                post_send!(a, [wr::Send::new(loud), wr::Send::new(rest()), wr::Send::new(rest())])
                    .unwrap();
                let a = a.to_error().unwrap();
                while ca.poll().unwrap().is_empty() {}
                drop(a);
                drop(ca);
            }
            3 => {
                let ring = ring.as_mut().unwrap();
                let region = ring.pd.register::<RemoteWrite>(64).unwrap();
                let there = region.remote().write();
                drop(ring.a.post_send_unsignaled(wr::RdmaWrite::new(loud, there)).unwrap());
                ring.a.post_send(wr::RdmaWrite::new(rest(), there)).unwrap();
                loop {
                    if let Some(completion) = ring.ca.poll_one().unwrap() {
                        drop(ring.a.complete(completion).unwrap().released);
                    }
                }
            }
            _ => {
                // Contexts of one pool.
                drop(loud);
            }
        }));
        assert!(went.is_err(), "place {place}");
        assert_eq!((dropped.load(SeqCst), home.available()), (2, 2), "place {place}");
        assert!(catch_unwind(AssertUnwindSafe(|| drop(home))).is_err());
    }
}

/// The last handle to a pool is in a completion, in a ring, in an error or in a list. Wherever it
/// is dropped, the contexts are dropped there, and panic.
#[test]
fn contexts_that_panic_when_their_pool_is_dropped() {
    for place in 0..6 {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        let pool = pd.pool(64).contexts(|_| Loud(dropped.clone())).create(2).unwrap();
        let buf = pool.take().unwrap();
        drop(pool);
        let wish = Wish::new();
        let went = catch_unwind(AssertUnwindSafe(|| {
            let cq = dev.ctx.create_cq::<Buf<Loud>>(30).unwrap();
            if place < 4 {
                let qp = pd.create_qp::<Rc, WithLoud>(&cq, &cq, wish.depth).unwrap();
                let mut qp = Rc::up(qp, &dev, 0xfffff0, &wish);
                match place {
                    // Orphaned: it is dropped with the completion queue.
                    0 => qp.post_recv(wr::Recv::new(buf)).unwrap(),
                    // In a completion that the queue polls when it is dropped.
                    1 => {
                        qp.post_recv(wr::Recv::new(buf)).unwrap();
                        drop(qp.to_error().unwrap());
                    }
                    // In a list that is not posted.
                    2 => {
                        let mut slots = RecvSlots::<1>::new();
                        qp.recv_list(&mut slots).push(wr::Recv::new(buf)).unwrap();
                    }
                    // In an error.
                    _ => {
                        drop(post_send!(
                            qp,
                            [wr::Send::inline_slice(&[0; 99]), wr::Send::new(buf)]
                        ));
                    }
                }
            } else {
                let qp = pd.create_qp::<Rc, WithLoudRing>(&cq, &cq, wish.depth).unwrap();
                let mut qp = Rc::up(qp, &dev, 0xfffff0, &wish);
                let mut slots = SendSlots::<1>::new();
                if place == 4 {
                    qp.post_send(wr::Send::new(buf)).unwrap();
                } else {
                    qp.send_list(&mut slots).push(wr::Send::new(buf)).unwrap();
                }
            }
        }));
        assert!(went.is_err(), "place {place}");
        // There was one panic, and the other context was dropped or leaked, but nothing twice.
        assert!(matches!(dropped.load(SeqCst), 1 | 2), "place {place}");
        pd.destroy().unwrap();
    }
}

/// A reset drops a pool whose contexts panic. The queue pair, in a field, is in RESET and can be
/// used again.
///
/// A context that panics during a reset of a queue pair in a field does not abort the
/// process.
#[test]
fn a_context_that_panics_while_its_queue_pair_is_reset() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let pool = pd.pool(64).contexts(|_| Loud(dropped.clone())).create(2).unwrap();
    let buf = pool.take().unwrap();
    drop(pool);
    let wish = Wish::new();
    let cq = dev.ctx.create_cq::<Buf<Loud>>(30).unwrap();
    let qp = pd.create_qp::<Rc, WithLoud>(&cq, &cq, wish.depth).unwrap();
    let mut qp = AnyQueuePair::from(Rc::up(qp, &dev, 0xfffff0, &wish));
    qp.as_state::<Rts>().unwrap().post_recv(wr::Recv::new(buf)).unwrap();
    // No more polls: the receive's buffer returns with the reset, and its pool is dropped.
    drop(cq);
    assert!(catch_unwind(AssertUnwindSafe(|| qp.reset())).is_err());
    assert!(matches!(dropped.load(SeqCst), 1 | 2));
    assert_eq!(qp.state(), QpState::Reset);
    assert!(qp.as_state::<Reset>().is_some());
    qp.reset().unwrap();
}

/// A panic in a post does not unwind out of it. The payload is also user code, and may panic when
/// it is dropped.
#[test]
fn a_panic_payload_that_panics_during_a_post() {
    fails_on!(NoRings);
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            resume_unwind(Box::new("this payload panics on purpose"));
        }
    }
    struct Louder(Arc<AtomicUsize>);
    impl Drop for Louder {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            resume_unwind(Box::new(Payload));
        }
    }
    profile! { WithLouderRing { entry: Buf<Louder>, signaling: Selective } }
    let mut p = Pair::<Rc, WithLouderRing>::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let pool = p.pd.pool(64).contexts(|_| Louder(dropped.clone())).create(1).unwrap();
    let buf = pool.take().unwrap();
    drop(pool);
    let room = p.a.send_room();
    p.a.post_send(wr::RdmaWrite::new(buf, region.remote().write())).unwrap();
    let mut deadline = p.dev.deadline("the WRITE is done");
    while p.ca.poll_one().unwrap().is_none() {
        deadline.tick(&());
    }
    // Its completion was dropped. The queue pair finds that there is room, and drops the entry
    // here.
    assert_eq!((p.a.send_room(), dropped.load(SeqCst)), (room, 1));
}

/// A context that posts to another queue pair, polls its completion queue and takes from a pool
/// when it is dropped.
#[test]
fn a_context_that_posts_and_polls_when_it_is_dropped() {
    fails_on!(Iwarp, "R24.5");
    struct Busy(Arc<Mutex<Pair<Rc>>>);
    impl Drop for Busy {
        fn drop(&mut self) {
            let mut p = self.0.lock().unwrap();
            let p = &mut *p;
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(wr::Send::new(filled(&p.pool, b"last words"))).unwrap();
            poll(&p.dev, &mut p.ca, 1);
            assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"last words");
            assert_eq!(p.pool.reclaim(&mut p.ca), 0);
        }
    }
    profile! { WithBusy { entry: Buf<Busy> } }
    let pair = Arc::new(Mutex::new(Pair::<Rc>::new()));
    let (dev, pd) = {
        let p = pair.lock().unwrap();
        (p.dev.clone(), p.pd.clone())
    };
    let pool = pd.pool(64).contexts(|_| Busy(pair.clone())).create(3).unwrap();
    let cq = dev.ctx.create_cq::<Buf<Busy>>(30).unwrap();
    let qp = pd.create_qp::<Rc, WithBusy>(&cq, &cq, Wish::new().depth).unwrap();
    let mut qp = Rc::up(qp, &dev, 0xfffff0, &Wish::new());
    while let Some(buf) = pool.take() {
        qp.post_recv(wr::Recv::new(buf)).unwrap();
    }
    drop(pool);
    drop(qp);
    // The orphaned buffers return here. The last one drops the pool, whose contexts post and poll.
    drop(cq);
    assert_eq!(Arc::strong_count(&pair), 1);
}

/// A buffer in the context of another one, from the same pool and from its own.
#[test]
fn contexts_that_hold_buffers() {
    struct Nest(Option<Buf<Nest>>);
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let (outer, inner) = (
        pd.pool(64).contexts(|_| Nest(None)).create(2).unwrap(),
        pd.pool(64).contexts(|_| Nest(None)).create(2).unwrap(),
    );
    let mut a = outer.take().unwrap();
    a.context_mut().0 = inner.take();
    let in_a = a.context_mut().0.as_mut().unwrap();
    in_a.copy_from(b"nested").unwrap();
    in_a.context_mut().0 = inner.take();
    drop(inner);
    assert_eq!(&a.context().0.as_ref().unwrap()[..], b"nested");
    drop(a);
    // It keeps its context while it is in the pool; dropping the pool drops both.
    assert_eq!(outer.available(), 2);
    let mut b = outer.take().unwrap();
    let inside = b.context_mut().0.take().unwrap();
    drop((outer, b));
    assert!(inside.context().0.is_some());
    // A cycle within a pool keeps the pool forever, so it is broken here.
    let mut inside = inside;
    drop(inside.context_mut().0.take());
    drop(inside);
    pd.destroy().unwrap();
}
