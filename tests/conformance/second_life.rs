//! Reused buffers carry state from earlier posts: a type tag, a length, another queue. They are
//! checked as if they were new, and each has one owner.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }
profile! { Gather { max_send_sge: 3, max_recv_sge: 3, initiator: NoReads, entry: BufList } }

/// With room that needs no lookup.
fn roomy() -> Pair<Rc> {
    Pair::with(&Wish { depth: Depth { send: 32, recv: 32 }, cqe: 80, ..Wish::new() })
}

/// Sends them once, so that they were last posted to the send queue of `a`.
fn sent_once(p: &mut Pair<Rc>, bufs: Vec<Buf>) -> Vec<Buf> {
    let n = bufs.len();
    for buf in bufs {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(buf)).unwrap();
    }
    let sent = poll(&p.dev, &mut p.ca, n).into_iter().map(|done| done.sent().entry.unwrap());
    let sent = sent.collect();
    poll(&p.dev, &mut p.cb, n);
    sent
}

/// Receives into them once, so that they were last posted to the receive queue of `b`.
fn received_once(p: &mut Pair<Rc>, bufs: Vec<Buf>) -> Vec<Buf> {
    let n = bufs.len();
    for buf in bufs {
        p.b.post_recv(wr::Recv::new(buf)).unwrap();
        p.a.post_send(wr::Send::inline(b"x")).unwrap();
    }
    let got = poll(&p.dev, &mut p.cb, n).into_iter().map(|done| done.received().entry.unwrap());
    let got = got.collect();
    poll(&p.dev, &mut p.ca, n);
    got
}

fn take(pool: &Pool, n: usize) -> Vec<Buf> {
    (0..n).map(|i| filled(pool, &[i as u8])).collect()
}

/// A buffer is taken with its full capacity, whatever length it had.
#[test]
fn a_buffer_is_taken_with_its_full_length() {
    let p = Pair::<Rc>::new();
    let pool = p.pd.create_pool(1, 64).unwrap();
    for len in [64, 3, 0, 63] {
        let mut buf = pool.take().unwrap();
        assert_eq!((buf.len(), buf.capacity()), (64, 64));
        buf.set_len(len);
    }
    assert_eq!(pool.take().map(|buf| buf.len()), Some(64));
}

/// Posts three work requests: one by one, as a chain, pushed, and by `extend`.
macro_rules! post_three {
    ($way:ident, $wrs:expr, $qp:expr, $one:ident, $chain:ident, $list:ident, $slots:ty) => {{
        let mut wrs = $wrs;
        let mut next = || wrs.next().unwrap();
        let mut slots = <$slots>::new();
        match $way {
            0 => wrs.try_for_each(|wr| $qp.$one(wr)).unwrap(),
            1 => $chain!($qp, [next(), next(), next()]).unwrap(),
            _ => {
                let mut list = $qp.$list(&mut slots);
                match $way {
                    2 => wrs.try_for_each(|wr| list.push(wr)).unwrap(),
                    _ => list.extend(wrs).unwrap(),
                }
                assert_eq!((list.len(), list.is_empty()), (3, false));
                list.post().unwrap();
            }
        }
    }};
}

/// Leaves a receive at each end, from a separate pool, so that there is something to search for
/// when they end.
macro_rules! leave_some {
    ($p:ident) => {{
        let other = $p.pd.create_pool(2, 64).unwrap();
        $p.a.post_recv(wr::Recv::new(other.take().unwrap())).unwrap();
        $p.b.post_recv(wr::Recv::new(other.take().unwrap())).unwrap();
        other
    }};
}

/// The queue pairs end, and the completions that the device still has are forgotten, so that only
/// the headers' queue pointers count. The search returns the pool's `left` buffers, and none that
/// the program holds or that are already free.
fn marks_bring_home(p: Pair<Rc, impl Profile<Entry = Buf>>, left: usize, held: usize) {
    let Pair { a, b, mut ca, mut cb, pool, .. } = p;
    assert_eq!(pool.available() + left + held, pool.count());
    drop((a, b));
    for _ in 0..2 {
        for cq in [&mut ca, &mut cb] {
            while let Some(completion) = cq.poll_one().unwrap() {
                std::mem::forget(completion);
            }
            pool.reclaim(cq);
            poll_empty(cq);
        }
    }
    assert_eq!(pool.available() + held, pool.count());
    // All buffers can be taken, each once.
    let all: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();
    let each: std::collections::BTreeSet<_> = all.iter().map(|buf| buf.as_ptr()).collect();
    assert_eq!((all.len() + held, each.len()), (pool.count(), all.len()));
}

#[test]
fn buffers_of_an_interrupted_post_return_once() {
    let stop = || -> wr::Recv<Buf> { resume_unwind(Box::new("on purpose")) };
    let stop_send = || -> wr::WorkRequest<wr::Send, Buf> { resume_unwind(Box::new("on purpose")) };
    for life in 0..2 {
        let mut p = roomy();
        let bufs = take(&p.pool, 4);
        let bufs = if life == 0 { bufs } else { sent_once(&mut p, bufs) };
        let mut bufs = bufs.into_iter();
        let mut next = || bufs.next().unwrap();
        let post =
            || drop(post_send!(p.a, [wr::Send::new(next()), wr::Send::new(next()), stop_send()]));
        assert!(catch_unwind(AssertUnwindSafe(post)).is_err());
        let bufs: Vec<Buf> = bufs.collect();
        let bufs = if life == 0 { bufs } else { received_once(&mut p, bufs) };
        let mut bufs = bufs.into_iter();
        let mut next = || bufs.next().unwrap();
        let post = || drop(post_recv!(p.b, [wr::Recv::new(next()), wr::Recv::new(next()), stop()]));
        assert!(catch_unwind(AssertUnwindSafe(post)).is_err());
        assert_eq!((p.a.sends_outstanding(), p.b.recvs_outstanding()), (0, 0));
        assert_eq!(p.pool.available(), p.pool.count());
        let other = leave_some!(p);
        marks_bring_home(p, 0, 0);
        assert_eq!(other.available(), 2);
    }
}

#[test]
fn buffers_of_a_dropped_list_return_once() {
    for extends in [false, true] {
        let mut p = roomy();
        let bufs = take(&p.pool, 3);
        let bufs = sent_once(&mut p, bufs);
        let mut slots = SendSlots::<4>::new();
        let mut list = p.a.send_list(&mut slots);
        let mut wrs = bufs.into_iter().map(wr::Send::new);
        match extends {
            true => list.extend(wrs).unwrap(),
            false => wrs.try_for_each(|wr| list.push(wr)).unwrap(),
        }
        drop(list);
        let bufs = take(&p.pool, 3);
        let bufs = received_once(&mut p, bufs);
        let mut slots = RecvSlots::<4>::new();
        let mut list = p.b.recv_list(&mut slots);
        let mut wrs = bufs.into_iter().map(wr::Recv::new);
        match extends {
            true => list.extend(wrs).unwrap(),
            false => wrs.try_for_each(|wr| list.push(wr)).unwrap(),
        }
        drop(list);
        assert_eq!(p.pool.available(), p.pool.count());
        let other = leave_some!(p);
        marks_bring_home(p, 0, 0);
        assert_eq!(other.available(), 2);
    }
}

#[test]
fn released_entries_of_a_ring_belong_to_the_program() {
    fails_on!(NoRings);
    for (way, lives) in (0..5).flat_map(|way| [(way, 1), (way, 2)]) {
        let mut p = Pair::<Rc, Ring>::new();
        let mut held = take(&p.pool, 3);
        for _ in 0..lives {
            for _ in 0..3 {
                p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            }
            let mut bufs = held.into_iter().map(wr::Send::new);
            let mut next = || bufs.next().unwrap();
            let mut slots = SendSlots::<4>::new();
            match way {
                0 => {
                    p.a.post_send(next()).unwrap();
                    p.a.post_send(next()).unwrap();
                    p.a.post_send(next()).unwrap();
                }
                1 => post_send!(p.a, [next(), next(), next()]).unwrap(),
                _ => {
                    let mut list = p.a.send_list(&mut slots);
                    if way > 2 {
                        list.push(next()).unwrap();
                    }
                    match way {
                        4 => bufs.try_for_each(|wr| list.push(wr)).unwrap(),
                        _ => list.extend(bufs).unwrap(),
                    }
                    list.post().unwrap();
                }
            }
            let n = if way == 0 { 3 } else { 1 };
            let done = complete(&p.dev, &mut p.ca, &mut p.a, n);
            held = done.into_iter().flat_map(|(_, released)| released).collect();
            assert_eq!(held.iter().map(|buf| buf[0]).collect::<Vec<_>>(), [0, 1, 2]);
            poll(&p.dev, &mut p.cb, 3);
        }
        // And one that the device owns at the end.
        p.a.post_send(wr::Send::new(filled(&p.pool, b"waits"))).unwrap();
        let other = leave_some!(p);
        marks_bring_home(p, 1, held.len());
        assert_eq!(other.available(), 2);
        held[0].copy_from(b"still ours").unwrap();
    }
}

#[test]
fn a_buffer_of_another_domain_among_known_ones() {
    for place in 0..4 {
        let mut p = roomy();
        let foreign = p.dev.ctx.alloc_pd().unwrap().create_pool(1, 8).unwrap();
        let bufs = take(&p.pool, 3);
        let mut bufs = sent_once(&mut p, bufs);
        bufs.insert(place, foreign.take().unwrap());
        let mut slots = SendSlots::<8>::new();
        let mut list = p.a.send_list(&mut slots);
        let error = list.extend(bufs.into_iter().map(wr::Send::new)).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (PostErrorKind::PdMismatch, place));
        assert_eq!((list.len(), error.into_rejected().count()), (place, 4 - place));
        drop(list);

        let bufs = take(&p.pool, 3);
        let mut bufs = received_once(&mut p, bufs);
        bufs.insert(place, foreign.take().unwrap());
        let mut slots = RecvSlots::<8>::new();
        let mut list = p.b.recv_list(&mut slots);
        let error = list.extend(bufs.into_iter().map(wr::Recv::new)).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (PostErrorKind::PdMismatch, place));
        assert_eq!((list.len(), error.into_rejected().count()), (place, 4 - place));
        drop(list);

        // In a chain, all come back.
        let bufs = take(&p.pool, 2);
        let mut bufs = received_once(&mut p, bufs);
        bufs.insert(place % 3, foreign.take().unwrap());
        let [one, two, three] = bufs.try_into().unwrap();
        let wrs = [wr::Recv::new(one), wr::Recv::new(two), wr::Recv::new(three)];
        let [one, two, three] = wrs;
        let error = post_recv!(p.b, [one, two, three]).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (PostErrorKind::PdMismatch, 0));
        assert_eq!(error.into_rejected().count(), 3);
        assert_eq!((foreign.available(), p.pool.available()), (1, p.pool.count()));
    }
}

#[test]
fn receives_after_a_panicking_iterator_are_checked() {
    for (next, known) in [(0, 0), (1, 0), (2, 0), (0, 2), (1, 2), (2, 2)] {
        let mut p = roomy();
        let foreign = p.dev.ctx.alloc_pd().unwrap().create_pool(1, 8).unwrap();
        let bufs = take(&p.pool, known);
        let mut bufs: Vec<_> = received_once(&mut p, bufs).into_iter().map(Some).collect();
        bufs.extend([foreign.take(), None]);
        let mut slots = RecvSlots::<8>::new();
        let mut list = p.b.recv_list(&mut slots);
        // As many as claimed, so that they are checked after the last one.
        let wrs = bufs.into_iter().map(|buf| match buf {
            Some(buf) => wr::Recv::new(buf),
            None => resume_unwind(Box::new("on purpose")),
        });
        assert!(catch_unwind(AssertUnwindSafe(|| drop(list.extend(wrs)))).is_err());
        assert_eq!(list.len(), known + 1);
        let good = || take(&p.pool, 2).into_iter().map(wr::Recv::new);
        let result = match next {
            0 => list.post(),
            1 => list.extend(good()),
            // Of unknown length.
            _ => {
                let mut good = good();
                list.extend(std::iter::from_fn(move || good.next()))
            }
        };
        assert_eq!(result.unwrap_err().kind(), PostErrorKind::PdMismatch);
        assert_eq!(foreign.available(), 1);
    }
}

#[test]
fn a_buffer_that_became_empty_is_an_empty_message() {
    let mut p = roomy();
    for way in 0..4 {
        let bufs = take(&p.pool, 3);
        let mut bufs = sent_once(&mut p, bufs);
        bufs[1].set_len(0);
        // And again, unchanged.
        for _ in 0..2 {
            for _ in 0..3 {
                p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            }
            let wrs = bufs.into_iter().map(wr::Send::new);
            post_three!(way, wrs, p.a, post_send, post_send, send_list, SendSlots::<4>);
            let sent = poll(&p.dev, &mut p.ca, 3).into_iter();
            bufs = sent.map(|done| done.sent().entry.unwrap()).collect();
            assert_eq!(bufs.iter().map(|buf| buf.len()).collect::<Vec<_>>(), [1, 0, 1]);
            let got = poll(&p.dev, &mut p.cb, 3).into_iter();
            assert_eq!(
                got.map(|done| done.received().data().to_vec()).collect::<Vec<_>>(),
                [vec![0], vec![], vec![2]]
            );
        }
    }
}

#[test]
fn a_buffer_of_a_gather_list_that_became_empty_is_left_out() {
    let mut p = Pair::<Rc, Gather>::new();
    for empty in 0..3 {
        let gather = |p: &mut Pair<Rc, Gather>, bufs: [Buf; 3]| {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(wr::Send::new(bufs)).unwrap();
            let entry = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
            let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
            let got: Vec<u8> = got.segments().flatten().copied().collect();
            let bufs: Vec<Buf> = entry.collect();
            (<[Buf; 3]>::try_from(bufs).unwrap(), got)
        };
        let bufs = [b"a", b"b", b"c"].map(|byte| filled(&p.pool, byte));
        let (mut bufs, got) = gather(&mut p, bufs);
        assert_eq!(got, b"abc");
        bufs[empty].set_len(0);
        let (_, got) = gather(&mut p, bufs);
        let mut expected = b"abc".to_vec();
        expected.remove(empty);
        assert_eq!(got, expected);
    }
}

/// New buffers, those that were posted there before, and both.
#[test]
fn orphaned_buffers_are_found_however_they_were_posted() {
    for (way, known) in (0..4).flat_map(|way| [0, 2, 3].map(|known| (way, known))) {
        let mut p = roomy();
        let bufs = take(&p.pool, known);
        let mut bufs = received_once(&mut p, bufs);
        bufs.extend(take(&p.pool, 3 - known));
        let wrs = bufs.into_iter().map(wr::Recv::new);
        post_three!(way, wrs, p.b, post_recv, post_recv, recv_list, RecvSlots::<8>);
        marks_bring_home(p, 3, 0);

        let mut p = roomy();
        let bufs = take(&p.pool, known);
        let mut bufs = sent_once(&mut p, bufs);
        bufs.extend(take(&p.pool, 3 - known));
        // The peer has no receive, so they wait.
        let wrs = bufs.into_iter().map(wr::Send::new);
        post_three!(way, wrs, p.a, post_send, post_send, send_list, SendSlots::<8>);
        marks_bring_home(p, 3, 0);
    }
}

#[test]
fn a_closure_that_panics_over_released_entries_loses_nothing() {
    fails_on!(NoRings);
    for at in 0..4 {
        let mut p = Pair::<Rc, Ring>::new();
        for _ in 0..4 {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        }
        // Once around the ring, so that released entries also lie on both sides of its end.
        let mut slots = SendSlots::<4>::new();
        let mut list = p.a.send_list(&mut slots);
        list.extend(take(&p.pool, 4).into_iter().map(wr::Send::new)).unwrap();
        list.post().unwrap();
        poll(&p.dev, &mut p.cb, 4);
        until(&p.dev, "the completion", || {
            let Some(completion) = p.ca.poll_one().unwrap() else { return false };
            let released = p.a.complete(completion).unwrap().released;
            let mut seen = Vec::new();
            let all = || {
                released.for_each(|buf| {
                    seen.push(buf[0]);
                    if buf[0] == at {
                        resume_unwind(Box::new("on purpose"))
                    }
                });
            };
            assert!(catch_unwind(AssertUnwindSafe(all)).is_err());
            assert_eq!(seen, (0..=at).collect::<Vec<_>>());
            true
        });
        assert_eq!((p.pool.available(), p.a.sends_outstanding()), (p.pool.count(), 0));
        let other = leave_some!(p);
        marks_bring_home(p, 0, 0);
        assert_eq!(other.available(), 2);
    }
}
