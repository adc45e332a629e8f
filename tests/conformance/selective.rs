//! Selective signaling: a completion covers all sends before it.

use proverbs::completion::Direction;
use proverbs::post::{PostErrorKind, Unsettled};
use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }

fn labels(released: &[Buf]) -> Vec<u8> {
    released.iter().map(|buf| buf[0]).collect()
}

/// Receives for `n` messages.
fn receives(p: &mut Pair<Rc, Ring>, n: usize) {
    for _ in 0..n {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
}

/// Proves R10.7.
#[test]
fn a_completion_releases_all_sends_up_to_its_own_in_order() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    for _ in 0..3 {
        receives(&mut p, 6);
        let send = |i| wr::Send::new(filled(&p.pool, &[i]));
        let _ = p.a.post_send_unsignaled(send(0)).unwrap();
        let _ = p.a.post_send_unsignaled(send(1)).unwrap();
        post_send!(p.a, [send(2), send(3).signaled(), wr::Send::inline(&[4]), send(5)]).unwrap();
        let done = complete(&p.dev, &mut p.ca, &mut p.a, 2);
        assert!(done.iter().all(|(status, _)| status.is_ok()));
        assert_eq!((labels(&done[0].1), labels(&done[1].1)), (vec![0, 1, 2, 3], vec![5]));
        let got = poll(&p.dev, &mut p.cb, 6).into_iter();
        let got: Vec<u8> = got.map(|g| g.received().data()[0]).collect();
        assert_eq!(got, [0, 1, 2, 3, 4, 5]);
    }
    assert_eq!((p.a.sends_outstanding(), p.pool.available()), (0, 40));
}

#[test]
fn untaken_entries_of_a_release_are_dropped() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    receives(&mut p, 3);
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    post_send!(p.a, [send(0), send(1), send(2)]).unwrap();
    poll(&p.dev, &mut p.cb, 3);
    let mut first = None;
    until(&p.dev, "the completion", || {
        let Some(completion) = p.ca.poll_one().unwrap() else { return false };
        assert!(completion.is_selective());
        assert_eq!(completion.direction(), Direction::Send);
        let mut completed = p.a.complete(completion).unwrap();
        first = completed.released.next();
        true
    });
    assert_eq!((first.unwrap()[0], p.pool.available()), (0, 39));
}

/// Proves R17.7.
#[test]
fn a_completion_of_another_queue_pair_is_returned() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    receives(&mut p, 1);
    p.a.post_send(wr::Send::new(filled(&p.pool, b"a"))).unwrap();
    poll(&p.dev, &mut p.cb, 1);
    until(&p.dev, "the completion", || {
        let Some(completion) = p.ca.poll_one().unwrap() else { return false };
        let completion = p.b.complete(completion).expect_err("not of this queue pair");
        let completed = p.a.complete(completion).map_err(drop).expect("of this one");
        assert_eq!(labels(&completed.released.collect::<Vec<_>>()), [b'a']);
        true
    });
}

#[test]
fn a_dropped_completion_counts_and_the_next_returns_its_entries() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    receives(&mut p, 2);
    p.a.post_send(wr::Send::new(filled(&p.pool, &[0]))).unwrap();
    poll(&p.dev, &mut p.cb, 1);
    until(&p.dev, "the completion", || p.ca.poll_one().unwrap().is_some());
    assert_eq!(
        (p.a.sends_outstanding(), p.pool.available()),
        (0, 38),
        "no post has read the \
        counter"
    );
    p.a.post_send(wr::Send::new(filled(&p.pool, &[1]))).unwrap();
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
    assert_eq!(labels(&done[0].1), [0, 1]);
    poll(&p.dev, &mut p.cb, 1);
}

/// Proves R9.8.
#[test]
fn the_send_that_fills_the_queue_is_signaled() {
    fails_on!(NoRings);
    let wish = Wish { depth: Depth { send: 4, recv: 8 }, ..Wish::new() };
    let mut p = Pair::<Rc, Ring>::with(&wish);
    for round in 0..3 {
        receives(&mut p, 4);
        for i in 0..4 {
            let wr = wr::Send::new(filled(&p.pool, &[round * 4 + i]));
            let _ = p.a.post_send_unsignaled(wr).unwrap();
        }
        let error = p.a.post_send_unsignaled(wr::Send::new(wr::Empty)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 1, room: 0 });
        // R9.8: otherwise no completion would ever make room.
        let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
        let expected: Vec<u8> = (0..4).map(|i| round * 4 + i).collect();
        assert_eq!(labels(&done[0].1), expected);
        poll(&p.dev, &mut p.cb, 4);
    }
}

/// Proves R9.8.
#[test]
fn an_unsignaled_chain_leaves_unsettled_sends() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    receives(&mut p, 4);
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    let debt: Unsettled = post_send!(p.a, [send(0), send(1)], unsignaled).unwrap();
    assert_eq!(format!("{debt:?}"), "Unsettled(())");
    let _ = post_send!(p.a, [send(2).signaled(), wr::Send::new(wr::Empty)], unsignaled).unwrap();
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
    assert_eq!(labels(&done[0].1), [0, 1, 2]);
    assert_eq!(p.a.sends_outstanding(), 1);
    poll(&p.dev, &mut p.cb, 4);
    p.a.destroy().unwrap();
}

#[test]
fn lists_of_any_length_signal_their_last_request() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    for n in [1, 3, 8] {
        receives(&mut p, n);
        let mut slots = SendSlots::<8>::new();
        let mut list = p.a.send_list(&mut slots);
        for i in 0..n {
            list.push(wr::Send::new(filled(&p.pool, &[i as u8]))).unwrap();
        }
        list.post().unwrap();
        let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
        assert_eq!(labels(&done[0].1), (0..n as u8).collect::<Vec<_>>());
        poll(&p.dev, &mut p.cb, n);
    }
    // A dropped list leaves the ring unchanged.
    let mut slots = SendSlots::<8>::new();
    let mut list = p.a.send_list(&mut slots);
    for i in 0..8 {
        list.push(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    let error = list.push(wr::Send::new(filled(&p.pool, &[8]))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 9, room: 8 });
    drop(error);
    drop(list);
    assert_eq!((p.pool.available(), p.a.send_room()), (40, 8));
}

/// Proves R10.8, R10.9.
#[test]
fn an_error_completes_an_unsignaled_send_and_flushes_those_behind() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    let nowhere = RemoteSlice::<RemoteWrite>::from_parts(8, 8, 0xdead_0000);
    let buf = |i| filled(&p.pool, &[i]);
    // All of them in one post, so that the third cannot be too late.
    let chain = [
        wr::RdmaWrite::new(buf(0), nowhere.write()),
        wr::RdmaWrite::new(buf(1), nowhere.write()),
        wr::RdmaWrite::new(buf(2), nowhere.write()),
    ];
    let [first, second, third] = chain;
    let _ = post_send!(p.a, [first, second, third], unsignaled).unwrap();
    // R10.8: each of them has a completion, signaled or not.
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 3);
    let status: Vec<_> = done.iter().map(|(status, _)| status.unwrap_err()).collect();
    assert_eq!(status, [WcStatus::RemAccess, WcStatus::WrFlush, WcStatus::WrFlush]);
    let released: Vec<u8> = done.iter().flat_map(|(_, released)| labels(released)).collect();
    assert_eq!(released, [0, 1, 2]);
    assert_eq!(p.a.sends_outstanding(), 0);
}

/// Proves R9.7.
#[test]
fn a_ring_wraps_around() {
    fails_on!(Iwarp, "R24.2");
    fails_on!(NoRings);
    let wish = Wish { depth: Depth { send: 3, recv: 3 }, buffers: 8, ..Wish::new() };
    let mut p = Pair::<Uc, Ring>::with(&wish);
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    let rounds = if cfg!(miri) { 20 } else { 1000 };
    for i in 0..rounds {
        let remote = region.remote().write();
        let one = wr::RdmaWrite::new(filled(&p.pool, &[i as u8]), remote);
        match i % 3 {
            0 => p.a.post_send(one).unwrap(),
            _ => post_send!(p.a, [one, wr::RdmaWrite::inline(&[1], remote)]).unwrap(),
        }
        let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
        assert_eq!(labels(&done[0].1), [i as u8]);
    }
    assert_eq!(p.pool.available(), 8);
}

/// Posts of every length that fits, one by one and as lists, at every place of the ring. Each
/// completion releases exactly its own buffers, in order. (A ring of these depths has 256 slots.)
#[test]
fn a_ring_releases_in_order_at_every_place() {
    fails_on!(NoRings);
    let posts = if cfg!(miri) { 30 } else { 800 };
    for depth in [2, 3, 5, 6] {
        let wish =
            Wish { depth: Depth { send: depth, recv: 1 }, buffers: depth as usize, ..Wish::new() };
        let mut p = Pair::<Rc, Ring>::with(&wish);
        let region = p.pd.register::<RemoteWrite>(8).unwrap();
        let (mut sent, mut round) = (0, 0);
        while sent < posts {
            let n = 1 + round % depth;
            let labels_sent: Vec<u8> = (sent..sent + n).map(|i| i as u8).collect();
            let mut all: Vec<_> = labels_sent
                .iter()
                .map(|&i| wr::RdmaWrite::new(filled(&p.pool, &[i]), region.remote().write()))
                .collect();
            if round / depth % 2 == 0 {
                let last = all.pop().unwrap();
                for one in all {
                    let _ = p.a.post_send_unsignaled(one).unwrap();
                }
                p.a.post_send(last).unwrap();
            } else {
                let mut slots = SendSlots::<8>::new();
                let mut list = p.a.send_list(&mut slots);
                all.into_iter().for_each(|one| list.push(one).unwrap());
                list.post().unwrap();
            }
            let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
            let released = labels(&done[0].1);
            if released != labels_sent {
                // If a handle existed twice, dropping both would make the pool's free list a cycle.
                std::mem::forget((done, p));
                panic!(
                    "depth {depth}, after {sent} posts: {labels_sent:?} sent, {released:?} back"
                );
            }
            (sent, round) = (sent + n, round + 1);
        }
        assert_eq!(p.pool.available(), depth as usize);
    }
}

#[test]
fn an_unsignaled_list_is_unsettled_unless_it_fills_the_queue() {
    fails_on!(NoRings);
    let wish = Wish { depth: Depth { send: 4, recv: 8 }, ..Wish::new() };
    let mut p = Pair::<Rc, Ring>::with(&wish);
    receives(&mut p, 5);
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(send(0)).unwrap();
    list.push(send(1)).unwrap();
    let _: Unsettled = list.post_unsignaled().unwrap();
    let mut list = p.a.send_list(&mut slots);
    list.push(send(2).signaled()).unwrap();
    let _ = list.post_unsignaled().unwrap();
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
    assert_eq!(labels(&done[0].1), [0, 1, 2], "the first list requested no completion");
    let _ = p.a.send_list(&mut slots).post_unsignaled().unwrap();
    poll(&p.dev, &mut p.cb, 3);

    receives(&mut p, 2);
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    let mut list = p.a.send_list(&mut slots);
    for i in 3..7 {
        list.push(send(i)).unwrap();
    }
    let _ = list.post_unsignaled().unwrap();
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
    assert_eq!(labels(&done[0].1), [3, 4, 5, 6], "R9.8");
    poll(&p.dev, &mut p.cb, 4);
}

#[test]
fn settled_sends_complete() {
    fails_on!(NoRings);
    let wish = Wish { depth: Depth { send: 4, recv: 8 }, ..Wish::new() };
    let mut p = Pair::<Rc, Ring>::with(&wish);
    p.a.settle().unwrap();
    assert_eq!(p.a.sends_outstanding(), 0, "there was nothing to settle");
    receives(&mut p, 6);
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    for i in 0..2 {
        let _ = p.a.post_send_unsignaled(send(i)).unwrap();
    }
    p.a.settle().unwrap();
    assert_eq!(p.a.sends_outstanding(), 3);
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
    assert_eq!((done[0].0, labels(&done[0].1)), (Ok(()), vec![0, 1]));
    assert_eq!(p.a.sends_outstanding(), 0);

    // The last free entry is enough.
    poll(&p.dev, &mut p.cb, 2);
    receives(&mut p, 3);
    for i in 6..9 {
        let _ = p.a.post_send_unsignaled(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    p.a.settle().unwrap();
    assert_eq!(p.a.sends_outstanding(), 4);
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
    assert_eq!(labels(&done[0].1), [6, 7, 8]);
    poll(&p.dev, &mut p.cb, 3);

    // A full queue has already requested its completion (R9.8).
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    for i in 2..6 {
        let _ = p.a.post_send_unsignaled(send(i)).unwrap();
    }
    p.a.settle().unwrap();
    assert_eq!(p.a.sends_outstanding(), 4);
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
    assert_eq!(labels(&done[0].1), [2, 3, 4, 5]);
    poll(&p.dev, &mut p.cb, 4);
}

/// The marker needs the write right of the peer's queue pair, but of no region.
#[test]
fn a_marker_needs_a_peer_that_permits_writes() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::with(&Wish { access: QpAccess::empty(), ..Wish::new() });
    if p.dev.is_iwarp() {
        return println!("only rdma_cm connects there, and it grants every right");
    }
    receives(&mut p, 1);
    let _ = p.a.post_send_unsignaled(wr::Send::new(filled(&p.pool, &[7]))).unwrap();
    p.a.settle().unwrap();
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
    assert_eq!(done[0].0.unwrap_err(), WcStatus::RemInvReq);
    assert_eq!((labels(&done[0].1), p.a.sends_outstanding()), (vec![7], 0));
}
