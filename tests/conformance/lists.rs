//! Chains and run-time lists: posted in order, as a whole or as far as the device accepted them;
//! the rest comes back.

use proverbs::completion::WcOpcode;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::Drained;

use crate::support::*;

/// Buffers with contents 0, 1 and so on.
fn labelled(pool: &Pool, n: u8) -> Vec<Buf> {
    (0..n).map(|i| filled(pool, &[i])).collect()
}

fn labels(bufs: impl Iterator<Item = Buf>) -> Vec<u8> {
    bufs.map(|buf| buf[0]).collect()
}

/// Proves R1.3, R9.3, R9.10, R9.12, R10.6.
#[test]
fn one_chain_of_every_opcode() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAll>(64).unwrap();
    let remote = region.remote();
    let cell = remote.atomic(8).unwrap();
    let take = || p.pool.take().unwrap();
    post_recv!(p.b, [wr::Recv::new(take()), wr::Recv::new(take()), wr::Recv::empty()]).unwrap();
    post_send!(
        p.a,
        [
            wr::Send::new(filled(&p.pool, b"first")),
            wr::SendWithImm::inline(b"second", 2),
            wr::RdmaWrite::inline(&[1; 8], remote.write()),
            wr::RdmaWriteWithImm::inline_slice(&[2; 4], remote.slice(4, 4).unwrap().write(), 3),
            wr::FetchAndAdd::new(take(), cell, 40),
            wr::CmpAndSwp::new(take(), cell, wr::CompareSwap { compare: 40, swap: 42 }).fence(),
            wr::RdmaRead::new(take(), remote.slice(0, 16).unwrap().read()).fence(),
        ]
    )
    .unwrap();
    let sent: Vec<_> = poll(&p.dev, &mut p.ca, 7).into_iter().map(Done::sent).collect();
    let opcodes: Vec<_> = sent.iter().map(|sent| sent.opcode).collect();
    use WcOpcode::{CompSwap, FetchAdd, RdmaRead as Read, RdmaWrite as Write, Send as Sent};
    assert_eq!(opcodes, [Sent, Sent, Write, Write, FetchAdd, CompSwap, Read]);
    let mut expected = [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    expected[8..].copy_from_slice(&42u64.to_ne_bytes());
    assert_eq!(sent[6].entry.as_ref().unwrap()[..], expected);
    let got = poll(&p.dev, &mut p.cb, 3).into_iter().map(Done::received);
    assert_eq!(got.map(|g| g.imm_data).collect::<Vec<_>>(), [None, Some(2), Some(3)]);
}

#[test]
fn names_inside_the_macros_are_hygienic() {
    let mut p = Pair::<Rc>::new();
    let [__post, __wr0, __slot0, __at0] = <[Buf; 4]>::try_from(labelled(&p.pool, 4)).unwrap();
    let receives = post_recv!(p.b, [wr::Recv::new(__at0), wr::Recv::new(__post)]);
    receives.unwrap();
    post_send!(p.a, [wr::Send::new(__slot0), wr::Send::new(__wr0)]).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 2).into_iter().map(|done| done.sent().entry.unwrap());
    assert_eq!(labels(sent), [2, 1]);
    let got = poll(&p.dev, &mut p.cb, 2).into_iter().map(|done| done.received().entry.unwrap());
    assert_eq!(labels(got), [2, 1]);
}

/// Proves R9.1, R9.6.
#[test]
fn a_full_queue_returns_everything_in_order() {
    let wish = Wish { depth: Depth { send: 3, recv: 2 }, ..Wish::new() };
    let mut p = Pair::<Rc>::with(&wish);
    let [a, b, c, d] = <[Buf; 4]>::try_from(labelled(&p.pool, 4)).unwrap();
    let error =
        post_send!(p.a, [wr::Send::new(a), wr::Send::new(b), wr::Send::new(c), wr::Send::new(d)]);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 4, room: 3 });
    assert!(error.is_full());
    let text = "ibv_post_send: work request 0: queue full: posting 4 work requests, room for 3 \
                (poll the completion queue to free room)";
    assert_eq!((error.to_string().as_str(), error.accepted()), (text, 0));
    let mut back = error.into_rejected();
    let (a, b, c) = (back.next().unwrap(), back.next().unwrap(), back.next().unwrap());
    assert_eq!(labels([a, b, c].into_iter().chain(back)), [0, 1, 2, 3]);

    let [a, b, c] = [7, 8, 9].map(|i| filled(&p.pool, &[i]));
    let error =
        post_recv!(p.b, [wr::Recv::new(a), wr::Recv::new(b), wr::Recv::new(c)]).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 3, room: 2 });
    // A receive that was not accepted leaves the buffer's length unchanged.
    assert_eq!(labels(error.into_rejected()), [7, 8, 9]);
    assert_eq!(p.pool.available(), 40);

    if p.dev.kind == Kind::Siw {
        return; // A message without a receive may end the connection at any time (R24.12).
    }
    // Only completions make room.
    for i in 0..3 {
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    assert!(p.a.post_send(wr::Send::new(wr::Empty)).unwrap_err().is_full());
    post_recv!(p.b, [wr::Recv::new(poisoned(&p.pool)), wr::Recv::new(poisoned(&p.pool))]).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    assert_eq!((p.a.send_room(), p.b.recv_room()), (1, 0));
    assert!(p.b.post_recv(wr::Recv::empty()).unwrap_err().is_full());
    poll(&p.dev, &mut p.ca, 1);
    poll(&p.dev, &mut p.cb, 2);
    assert_eq!((p.a.send_room(), p.b.recv_room()), (2, 2));
}

/// Proves R6.8.
#[test]
fn one_bad_element_keeps_the_whole_chain_back() {
    let mut p = Pair::<Rc>::new();
    let other = p.dev.ctx.alloc_pd().unwrap();
    let foreign = other.create_pool(1, 8).unwrap();
    for place in 0..3 {
        let mut bufs = labelled(&p.pool, 3);
        bufs[place] = filled(&foreign, &[place as u8]);
        let [a, b, c] = <[Buf; 3]>::try_from(bufs).unwrap();
        let error =
            post_send!(p.a, [wr::Send::new(a), wr::Send::new(b), wr::Send::new(c)]).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (PostErrorKind::PdMismatch, 0));
        let text = "ibv_post_send: work request 0: a buffer belongs to another protection domain than the \
                    queue (take one of a pool of the queue's domain)";
        assert_eq!(error.to_string(), text);
        assert_eq!(labels(error.into_rejected()), [0, 1, 2]);
        let error = p.b.post_recv(wr::Recv::new(foreign.take().unwrap())).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::PdMismatch);
    }
    assert_eq!((p.pool.available(), foreign.available()), (40, 1));
    assert_eq!((p.a.sends_outstanding(), p.b.recvs_outstanding()), (0, 0));
}

/// Proves R9.5, R9.11, R9.12.
#[test]
fn lists_of_a_length_known_at_run_time() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    for n in [0, 1, 5, 8] {
        let mut slots = RecvSlots::<8>::new();
        let mut list = p.b.recv_list(&mut slots);
        assert!(list.is_empty());
        for _ in 0..n {
            list.push(wr::Recv::new(poisoned(&p.pool))).unwrap();
        }
        assert_eq!(list.len(), n);
        list.post().unwrap();
        let mut slots = SendSlots::<8>::new();
        let mut list = p.a.send_list(&mut slots);
        for (i, buf) in labelled(&p.pool, n as u8).into_iter().enumerate() {
            // Opcodes may be mixed.
            match i % 2 {
                0 => list.push(wr::Send::new(buf)).unwrap(),
                _ => list.push(wr::SendWithImm::new(buf, i as u32)).unwrap(),
            }
        }
        list.post().unwrap();
        let sent = poll(&p.dev, &mut p.ca, n).into_iter().map(|s| s.sent().entry.unwrap());
        assert_eq!(labels(sent), (0..n as u8).collect::<Vec<_>>());
        let got = poll(&p.dev, &mut p.cb, n).into_iter().map(|g| g.received().entry.unwrap());
        assert_eq!(labels(got), (0..n as u8).collect::<Vec<_>>());
    }
    assert_eq!((p.pool.available(), p.a.send_room(), p.b.recv_room()), (40, 8, 8));
}

#[test]
fn a_list_is_unchanged_after_a_rejected_push() {
    let mut p = Pair::<Rc>::new();
    let other = p.dev.ctx.alloc_pd().unwrap();
    let foreign = other.create_pool(1, 8).unwrap();
    for _ in 0..2 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let long = [0; 100];
    let mut slots = SendSlots::<2>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(wr::Send::new(filled(&p.pool, b"0"))).unwrap();
    let error = list.push(wr::Send::inline_slice(&long)).unwrap_err();
    assert_eq!(
        (error.kind(), error.accepted()),
        (PostErrorKind::InlineTooLong { asked: 100, max: 64 }, 1)
    );
    let error = list.push(wr::Send::new(foreign.take().unwrap())).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::PdMismatch);
    drop(error);
    list.push(wr::Send::new(filled(&p.pool, b"1"))).unwrap();
    let error = list.push(wr::Send::new(filled(&p.pool, b"2"))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 3, room: 2 });
    assert_eq!(labels(error.into_rejected()), [b'2']);
    list.post().unwrap();
    let got = poll(&p.dev, &mut p.cb, 2).into_iter().map(|g| g.received().entry.unwrap());
    assert_eq!(labels(got), [b'0', b'1']);
    poll(&p.dev, &mut p.ca, 2);
    assert_eq!((p.pool.available(), foreign.available()), (40, 1));
}

#[test]
fn a_dropped_list_posts_nothing() {
    let mut p = Pair::<Rc>::new();
    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    assert!(list.is_empty());
    for buf in labelled(&p.pool, 3) {
        list.push(wr::Send::new(buf)).unwrap();
    }
    assert!(!list.is_empty());
    drop(list);
    let mut slots = RecvSlots::<4>::new();
    let mut list = p.b.recv_list(&mut slots);
    assert!(list.is_empty());
    list.push(wr::Recv::new(poisoned(&p.pool))).unwrap();
    assert!(!list.is_empty());
    drop(list);
    assert_eq!((p.pool.available(), p.a.send_room(), p.b.recv_room()), (40, 8, 8));
    assert_eq!((poll_empty(&mut p.ca), poll_empty(&mut p.cb)), (0, 0));
}

#[test]
fn an_expression_that_returns_or_panics_posts_nothing() {
    let mut p = Pair::<Rc>::new();
    let none: Option<Buf> = None;
    let leave = || -> Option<()> {
        post_send!(p.a, [wr::Send::new(p.pool.take()?), wr::Send::new(none?)]).unwrap();
        Some(())
    };
    assert!(leave().is_none());
    assert_eq!((p.pool.available(), p.a.sends_outstanding()), (40, 0));
    let panics = std::panic::AssertUnwindSafe(|| {
        let first = wr::Send::new(p.pool.take().unwrap());
        let second = || -> Buf { std::panic::resume_unwind(Box::new("on purpose")) };
        post_send!(p.a, [first, wr::Send::new(second())])
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!((p.pool.available(), p.a.sends_outstanding()), (40, 0));
    assert_eq!(poll_empty(&mut p.ca), 0);
}

/// Proves R6.8.
#[test]
fn a_domain_is_checked_again_at_a_reused_address() {
    fails_on!(Iwarp, "R24.5");
    let p = Pair::<Rc>::new();
    let (dev, wish) = (p.dev.clone(), Wish::new());
    let (mut ours, mut cq) = (poisoned(&p.pool), dev.ctx.create_cq::<Buf>(60).unwrap());
    let other = dev.ctx.alloc_pd().unwrap();
    // The second queue pair's counters may or may not reuse the first one's address: try often.
    for _ in 0..20 {
        let qp = p.pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
        let mut qp = Rc::init(qp, &wish);
        qp.post_recv(wr::Recv::new(ours)).unwrap();
        let mut qp = qp.to_error().unwrap();
        let mut back = None;
        qp.drain(&mut cq, |drained| match drained {
            Drained::Entry(entry) => back = Some(entry),
            Drained::Other(_) => unreachable!(),
        })
        .unwrap();
        ours = back.unwrap();
        drop(qp);
        assert_eq!(poll_empty(&mut cq), 0);
        let qp = other.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
        let mut qp = Rc::init(qp, &wish);
        let error = qp.post_recv(wr::Recv::new(ours)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::PdMismatch);
        ours = error.into_rejected().next().unwrap();
        drop(qp);
        assert_eq!(poll_empty(&mut cq), 0);
    }
}

/// Slots are stored in a struct with their queue pair, and move to another thread with it.
#[test]
fn slots_move_with_their_queue_pair() {
    struct End<P: Profile> {
        qp: QueuePair<Rc, Rts, P>,
        sends: SendSlots<4>,
        receives: RecvSlots<4>,
    }
    let Pair { a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc>::new();
    let mut end = End { qp: a, sends: SendSlots::default(), receives: RecvSlots::default() };
    for round in 0..2 {
        for _ in 0..2 {
            b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        }
        let bufs = [filled(&pool, &[round]), filled(&pool, &[round + 1])];
        let into = poisoned(&pool);
        let thread = std::thread::spawn(move || {
            let End { qp, sends, receives } = &mut end;
            let (mut sends, mut receives) = qp.lists(sends, receives);
            sends.extend(bufs.map(wr::Send::new)).unwrap();
            receives.push(wr::Recv::new(into)).unwrap();
            assert_eq!(
                format!("{sends:?} {receives:?}"),
                "SendList(2 work requests) RecvList(1 work request)"
            );
            receives.post().unwrap();
            sends.post().unwrap();
            end
        });
        end = thread.join().unwrap();
        assert_eq!(poll(&dev, &mut ca, 2).len(), 2);
        assert_eq!(poll(&dev, &mut cb, 2).len(), 2);
    }
    assert_eq!(end.qp.recvs_outstanding(), 2);
}
