//! RESET, destruction, and the completions that they leave behind.

use proverbs::completion::WcOpcode;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }

/// Connects two queue pairs that are in RESET.
fn reconnect<P>(
    dev: &Device,
    a: QueuePair<Rc, Reset, P>,
    b: QueuePair<Rc, Reset, P>,
) -> (QueuePair<Rc, Rts, P>, QueuePair<Rc, Rts, P>)
where
    P: Profile,
    Rc: Bring<P>,
{
    let (na, nb) = (a.qp_num(), b.qp_num());
    let wish = Wish { psn: 99, ..Wish::new() };
    (Rc::up(a, dev, nb, &wish), Rc::up(b, dev, na, &wish))
}

/// Proves R7.16.
#[test]
fn handles_return_with_their_completion_or_without() {
    fails_on!(Iwarp, "R24.6");
    let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc>::new();
    for i in 0..4 {
        b.post_recv(wr::Recv::new(filled(&pool, &[i]))).unwrap();
    }
    a.post_send(wr::Send::inline(b"before")).unwrap();
    // On RC the sender's completion shows that the receiver's is there.
    poll(&dev, &mut ca, 1);
    let (b, a) = (b.reset().unwrap(), a.reset().unwrap());
    assert_eq!(pool.reclaim(&mut cb), 0, "completions may still come");
    let (mut a, mut b) = reconnect(&dev, a, b);
    // Room for completions that may still arrive is not available again.
    assert_eq!(b.recv_room(), 4);
    if let Some(left) = left_behind(&dev, &mut cb) {
        let got = left.received();
        assert_eq!(got.data(), b"before");
        drop(got);
        assert_eq!(b.recvs_outstanding(), 0);
        // They would return with the next poll, since that one returned fewer completions than
        // requested.
        assert_eq!(pool.available(), 37);
        assert_eq!((pool.reclaim(&mut cb), pool.available()), (3, 40));
    }
    assert_eq!((b.recvs_outstanding(), pool.available()), (0, 40));
    assert_eq!((poll_empty(&mut cb), pool.reclaim(&mut cb)), (0, 0));
    assert_eq!(b.recv_room(), 8);
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    a.post_send(wr::Send::new(filled(&pool, b"after"))).unwrap();
    assert_eq!(poll(&dev, &mut cb, 1).remove(0).received().data(), b"after");
    poll(&dev, &mut ca, 1);
    assert_eq!((pool.available(), b.recvs_outstanding(), a.sends_outstanding()), (40, 0, 0));
}

/// Proves R7.16, R8.18.
#[test]
fn a_ring_returns_at_once_and_its_old_completions_match_nothing() {
    fails_on!(NoRings);
    let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc, Ring>::new();
    for _ in 0..2 {
        b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    }
    a.post_send(wr::Send::new(filled(&pool, &[0]))).unwrap();
    a.post_send(wr::Send::new(filled(&pool, &[1]))).unwrap();
    poll(&dev, &mut cb, 2);
    // The first completion is certainly there when the second has been requested.
    let mut stale = 0;
    until(&dev, "one completion", || {
        stale += a.sends_outstanding();
        ca.poll_one().unwrap().is_some()
    });
    let home = pool.available();
    let a = a.reset().unwrap();
    assert_eq!(pool.available(), home + 2, "the ring's");
    let b = b.reset().unwrap();
    let (mut a, mut b) = reconnect(&dev, a, b);
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    a.post_send(wr::Send::new(filled(&pool, &[2]))).unwrap();
    let mut released = Vec::new();
    until(&dev, "the new completion", || {
        let Some(completion) = ca.poll_one().unwrap() else { return false };
        match a.complete(completion) {
            Ok(completed) => released.extend(completed.released.map(|buf| buf[0])),
            Err(stale) => assert!(stale.is_selective()),
        }
        !released.is_empty()
    });
    assert_eq!(released, [2]);
    poll(&dev, &mut cb, 1);
    assert_eq!((a.sends_outstanding(), pool.available()), (0, 40));
}

/// Proves R8.18.
#[test]
fn resets_again_and_again() {
    fails_on!(Iwarp, "R24.6");
    let Pair { a, b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc>::new();
    let (mut a, mut b) = (a, b);
    for round in 0..if cfg!(miri) { 3 } else { 10 } {
        b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        a.post_send(wr::Send::new(filled(&pool, &[round]))).unwrap();
        a.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        let got = poll(&dev, &mut cb, 1).remove(0).received();
        assert_eq!(got.data(), [round]);
        poll(&dev, &mut ca, 1);
        let (ra, rb) = (a.reset().unwrap(), b.reset().unwrap());
        assert_eq!((poll_empty(&mut ca), poll_empty(&mut cb)), (0, 0));
        assert_eq!((pool.reclaim(&mut ca), pool.available()), (0, 39));
        drop(got);
        (a, b) = reconnect(&dev, ra, rb);
        assert_eq!((a.send_room(), a.recv_room()), (8, 8));
    }
    drop((a, b));
    assert_eq!(pool.available(), 40);
}

/// Proves R10.13.
#[test]
fn completions_of_a_destroyed_queue_pair_are_polled_later() {
    fails_on!(Siw, "R10.13");
    let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc>::new();
    for i in 0..3 {
        b.post_recv(wr::Recv::new(filled(&pool, &[i]))).unwrap();
    }
    a.post_send(wr::Send::inline(b"x")).unwrap();
    poll(&dev, &mut ca, 1);
    let number = b.qp_num();
    b.destroy().unwrap();
    assert_eq!(pool.reclaim(&mut cb), 0);
    if let Some(left) = left_behind(&dev, &mut cb) {
        let got = left.received();
        assert_eq!((got.qp_num, got.opcode, got.data()), (number, WcOpcode::Recv, &b"x"[..]));
        drop(got);
        assert_eq!(pool.reclaim(&mut ca), 0, "another queue's");
        assert_eq!(pool.available(), 38);
    }
    assert_eq!(poll_empty(&mut cb), 0);
    assert_eq!((pool.reclaim(&mut cb), pool.available()), (0, 40), "home by themselves");
    drop(a);
}

/// Proves R10.15.
#[test]
fn a_destroyed_ring_returns_its_entries() {
    fails_on!(NoRings);
    let Pair { mut a, ca, pool, .. } = Pair::<Rc, Ring>::new();
    for i in 0..3 {
        // The peer has no receives.
        a.post_send(wr::Send::new(filled(&pool, &[i]))).unwrap();
    }
    assert_eq!(pool.available(), 37);
    a.destroy().unwrap();
    assert_eq!(pool.available(), 40);
    drop(ca);
}

/// A ring's entries return at a reset, but its completions stay in the completion queue (R8.18).
/// Their room is not available again until the queue was polled empty; otherwise it would overrun
/// (R9.9).
#[test]
fn completions_from_before_a_reset_keep_their_room() {
    fails_on!(NoRings);
    let wish = Wish { depth: Depth { send: 4, recv: 2 }, cqe: 7, ..Wish::new() };
    let mut p = Pair::<Rc, Ring>::with(&wish);
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    let write = |a: &mut QueuePair<Rc, Rts, Ring>, i: u8| {
        a.post_send(wr::RdmaWrite::new(filled(&p.pool, &[i]), region.remote().write()))
    };
    for i in 0..4 {
        write(&mut p.a, i).unwrap();
    }
    let a = p.a.reset().unwrap();
    assert_eq!(p.pool.available(), 40, "the ring's");
    let (mut a, b) = reconnect(&p.dev, a, p.b.reset().unwrap());
    assert_eq!(a.send_room(), 0);
    let error = write(&mut a, 4).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 1, room: 0 });
    drop(error);
    poll_empty(&mut p.ca);
    assert_eq!(a.send_room(), 4);
    for i in 0..4 {
        write(&mut a, i).unwrap();
    }
    let released = complete(&p.dev, &mut p.ca, &mut a, 4);
    assert!(released.iter().all(|(status, entries)| status.is_ok() && entries.len() == 1));
    drop(b);
}

#[test]
fn a_list_returns_whole() {
    profile! { Lists { max_recv_sge: 3, entry: BufList } }
    let Pair { mut b, mut cb, pool, .. } = Pair::<Rc, Lists>::new();
    b.post_recv(wr::Recv::new([(); 3].map(|()| poisoned(&pool)))).unwrap();
    b.post_recv(wr::Recv::new([(); 2].map(|()| poisoned(&pool)))).unwrap();
    assert_eq!(pool.available(), 35);
    drop(b);
    assert_eq!(poll_empty(&mut cb), 0);
    assert_eq!((pool.reclaim(&mut cb), pool.available()), (0, 40));
}
