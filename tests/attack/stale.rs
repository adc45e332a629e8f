//! Completions, credits and markers from before a reset.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proverbs::prelude::*;
use proverbs::qp::Drained;

use crate::support::*;

profile! { Ring { signaling: Selective } }

/// Brings two queue pairs in RESET up again.
fn again<P: Profile>(
    dev: &Device,
    a: QueuePair<Rc, Reset, P>,
    b: QueuePair<Rc, Reset, P>,
) -> (QueuePair<Rc, Rts, P>, QueuePair<Rc, Rts, P>)
where
    Rc: Bring<P>,
{
    let (na, nb, wish) = (a.qp_num(), b.qp_num(), Wish::new());
    (Rc::up(a, dev, nb, &wish), Rc::up(b, dev, na, &wish))
}

/// Fills the completion queue of a ring, resets, and fills it again: it must not overrun (R9.9).
///
/// A reset of a selectively signaled queue pair keeps room for completions that are
/// still queued.
/// Proves R8.18.
#[test]
fn a_reset_ring_leaves_room_for_queued_completions() {
    fails_on!(NoRings);
    let wish = Wish { cqe: 17, ..Wish::new() };
    let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc, Ring>::with(&wish);
    for round in 0..3 {
        let mut posted = 0;
        while a.send_room() != 0 {
            b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
            a.post_send(wr::Send::new(filled(&pool, &[round]))).unwrap();
            posted += 1;
        }
        poll(&dev, &mut cb, posted);
        assert_eq!(pool.available(), 40 - posted);
        let ra = a.reset().unwrap();
        assert_eq!(pool.available(), 40, "the ring's");
        let rb = b.reset().unwrap();
        (a, b) = again(&dev, ra, rb);
    }
    // All queued completions are stale, and the queue works.
    until(&dev, "room for all", || {
        for completion in ca.poll().expect("the completion queue did not overrun") {
            assert!(a.complete(completion).is_err());
        }
        a.send_room() == 8
    });
    poll_empty(&mut cb);
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    a.post_send(wr::Send::new(filled(&pool, b"fresh"))).unwrap();
    let (status, released) = complete(&dev, &mut ca, &mut a, 1).remove(0);
    assert_eq!((status, &released[0][..]), (Ok(()), &b"fresh"[..]));
    poll(&dev, &mut cb, 1);
    drop(released);
    assert_eq!(pool.available(), 40);
}

/// A drain that is interrupted (its closure panics) has posted its marker; the next one needs none.
/// A second marker would take the slot of the oldest entry.
///
/// A drain that is resumed after an interruption posts no second marker over the
/// oldest entry.
/// Proves R10.14.
#[test]
fn an_interrupted_drain_is_resumed() {
    fails_on!(NoRings);
    let p = Pair::<Rc, Ring>::new();
    let (dev, pd, pool) = (p.dev, p.pd, p.pool);
    let wish = Wish { depth: Depth { send: 3, recv: 3 }, ..Wish::new() };
    let mut cq = dev.ctx.create_cq(30).unwrap();
    let other = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
    let mut other = Rc::init(other, &wish);
    for i in 0..3 {
        other.post_recv(wr::Recv::new(filled(&pool, &[10 + i]))).unwrap();
    }
    // Their completions come before those on the ring.
    let other = other.to_error().unwrap();
    until(&dev, "the receives are flushed", || other.query().is_ok());

    let qp = pd.create_qp::<Rc, Ring>(&cq, &cq, wish.depth).unwrap();
    let mut qp = Rc::up(qp, &dev, 0xfffff0, &wish);
    let number = |i: u8| wr::Send::new(filled(&pool, &[i]));
    post_send!(qp, [number(0), number(1), number(2)]).unwrap();
    let mut qp = qp.to_error().unwrap();
    let (mut found, mut foreign) = (Vec::new(), 0);
    while foreign < 4 && found.is_empty() {
        let interrupted = AssertUnwindSafe(|| {
            qp.drain(&mut cq, |drained| match drained {
                Drained::Entry(buf) => found.push(buf[0]),
                Drained::Other(completion) => {
                    foreign += 1;
                    drop(completion);
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
            })
            .unwrap();
        });
        assert_eq!(catch_unwind(interrupted).is_err(), foreign <= 3 && found.is_empty());
        assert!(qp.sends_outstanding() <= 4, "three, and one marker, which is the booked number");
    }
    assert_eq!((found, foreign), (vec![0, 1, 2], 3));
    assert_eq!((qp.sends_outstanding(), pool.available()), (0, 40));
    drop((other, qp));
}

/// The marker of an interrupted drain exceeds the depth. A reset that withholds its room must not
/// release room for the marker; otherwise the completion queue, whose booking counts it, would
/// overrun (R9.9).
///
/// A reset after an interrupted drain does not give out the room of the marker.
#[test]
fn the_room_of_a_marker_is_not_released_by_a_reset() {
    fails_on!(NoRings);
    let p = Pair::<Rc, Ring>::new();
    let (dev, pd, pool) = (p.dev, p.pd, p.pool);
    let wish = Wish { depth: Depth { send: 3, recv: 1 }, ..Wish::new() };
    let mut cq = dev.ctx.create_cq(30).unwrap();
    let other = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
    let mut other = Rc::init(other, &wish);
    other.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    // Its completion comes before those on the ring.
    let other = other.to_error().unwrap();
    until(&dev, "the receive is flushed", || other.query().is_ok());

    let qp = pd.create_qp::<Rc, Ring>(&cq, &cq, wish.depth).unwrap();
    let mut qp = Rc::up(qp, &dev, 0xfffff0, &wish);
    let one = || wr::Send::new(filled(&pool, &[1]));
    post_send!(qp, [one(), one(), one()]).unwrap();
    let mut qp = qp.to_error().unwrap();
    let interrupted = AssertUnwindSafe(|| {
        qp.drain(&mut cq, |_| std::panic::resume_unwind(Box::new("on purpose"))).unwrap();
    });
    assert!(catch_unwind(interrupted).is_err());
    assert_eq!(qp.sends_outstanding(), 4, "three, and the marker");

    let home = pool.available();
    let mut qp = qp.reset().unwrap();
    assert_eq!((pool.available(), qp.send_room()), (home + 3, 0));
    poll_empty(&mut cq);
    assert_eq!(qp.send_room(), 3);
    drop((other, qp));
}
