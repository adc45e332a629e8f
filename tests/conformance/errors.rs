//! Failed completions: the status gives the reason, and the buffer comes back with it.

use proverbs::bounded::{RnrRetries, RnrRetry, Timeout};
use proverbs::completion::{Direction, Failed};
use proverbs::prelude::*;
use proverbs::state::QpState;
use proverbs::transport::Transport;

use crate::support::*;

fn states<T: Transport>(p: &Pair<T>, a: QpState, b: QpState) {
    until(&p.dev, "the sender's state", || p.a.query().unwrap().state == Some(a));
    until(&p.dev, "the receiver's state", || p.b.query().unwrap().state == Some(b));
}

/// Proves R1.5, R7.12, R8.11, R10.9, R11.7.
#[test]
fn a_receiver_that_is_never_ready() {
    fails_on!(IwarpOtherwise, "R24.16");
    let times = RnrRetry::Times(RnrRetries::new(1).unwrap());
    let wish = Wish { rnr_retry: times, timeout: Timeout::exponent(18).unwrap(), ..Wish::new() };
    let mut p = Pair::<Rc>::with(&wish);
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    post_send!(p.a, [send(0), send(1), wr::Send::inline(b"third")]).unwrap();
    let mut failed = poll(&p.dev, &mut p.ca, 3).into_iter();
    let first = failed.next().unwrap().failed(Direction::Send, WcStatus::RnrRetryExc);
    assert_eq!(first.error.qp_num, p.a.qp_num());
    let text = format!(
        "QP {:#08x}: IBV_WC_RNR_RETRY_EXC_ERR: RNR retries exceeded: the peer has no receive posted",
        p.a.qp_num()
    );
    assert_eq!(first.error.to_string(), text);
    holds(first.entry.unwrap(), &[0]);
    // R10.9: what follows is a consequence.
    let second = failed.next().unwrap().flushed(Direction::Send).unwrap();
    holds(second, &[1]);
    assert!(failed.next().unwrap().flushed(Direction::Send).is_none());
    states(&p, QpState::Err, QpState::Rts);
    // R8.15: the type still says RTS; a post succeeds and is flushed.
    p.a.post_send(wr::Send::new(filled(&p.pool, b"late"))).unwrap();
    let late = poll(&p.dev, &mut p.ca, 1).remove(0).flushed(Direction::Send).unwrap();
    holds(late, b"late");
    assert_eq!(p.pool.available(), 40);
}

/// Proves R8.10, R10.9.
#[test]
fn a_peer_that_does_not_answer() {
    fails_on!(IwarpOtherwise, "R24.12");
    let wish = Wish { timeout: Timeout::exponent(10).unwrap(), retry_cnt: 1, ..Wish::new() };
    let Pair { mut a, b, mut ca, pool, dev, cb, pd } = Pair::<Rc>::with(&wish);
    b.destroy().unwrap();
    a.post_send(wr::Send::new(filled(&pool, b"anybody?"))).unwrap();
    let failed = poll(&dev, &mut ca, 1).remove(0).failed(Direction::Send, WcStatus::RetryExc);
    holds(failed.entry.unwrap(), b"anybody?");
    assert!(!failed.error.status.is_flush());
    drop((cb, pd));
}

/// Proves R4.3, R6.16, R10.16, R10.17.
#[test]
fn keys_and_ranges_that_the_peer_did_not_grant() {
    fails_on!(IwarpOtherwise, "R24.16");
    let nowhere = RemoteSlice::<RemoteAll>::from_parts(4096, 64, 0xdead_0000);
    type Post = fn(&mut Pair<Rc>, RemoteSlice<RemoteAll>, Buf);
    let ops: [(&str, Post); 4] = [
        ("WRITE", |p, at, buf| p.a.post_send(wr::RdmaWrite::new(buf, at.write())).unwrap()),
        ("WRITE_WITH_IMM", |p, at, buf| {
            p.a.post_send(wr::RdmaWriteWithImm::new(buf, at.write(), 1)).unwrap()
        }),
        ("READ", |p, at, buf| p.a.post_send(wr::RdmaRead::new(buf, at.read())).unwrap()),
        ("FETCH_AND_ADD", |p, at, buf| {
            p.a.post_send(wr::FetchAndAdd::new(buf, at.atomic(0).unwrap(), 1)).unwrap()
        }),
    ];
    for (name, post) in ops {
        println!("{name}");
        let mut p = Pair::<Rc>::new();
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        let buf = filled(&p.pool, &numbered(1, 64));
        post(&mut p, nowhere, buf);
        let failed = poll(&p.dev, &mut p.ca, 1).remove(0);
        assert!(failed.failed(Direction::Send, WcStatus::RemAccess).entry.is_some());
        // R10.17: the responder stops too, and its receive is flushed.
        states(&p, QpState::Err, QpState::Err);
        // Soft-RoCE takes a receive for a WRITE_WITH_IMM before it checks the key.
        let status = match name {
            "WRITE_WITH_IMM" => {
                by_rule!(p.dev, "R10.16", loopback: WcStatus::WrFlush, rxe: WcStatus::RemAccess)
            }
            _ => WcStatus::WrFlush,
        };
        let done = poll(&p.dev, &mut p.cb, 1).remove(0);
        untouched(done.failed(Direction::Receive, status).entry.unwrap());
    }
}

/// Proves R6.7.
#[test]
fn the_device_checks_the_rights_of_the_region() {
    fails_on!(IwarpOtherwise, "R24.12");
    // Keys whose region grants fewer rights than the type that the peer assumed.
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteRead>(64).unwrap();
    let taken = RemoteSlice::<RemoteWrite>::from_bytes(&{
        let mut bytes = region.remote().to_bytes();
        let write = p.pd.register::<RemoteWrite>(8).unwrap().remote().to_bytes();
        bytes[20..].copy_from_slice(&write[20..]);
        bytes
    });
    p.a.post_send(wr::RdmaWrite::inline(&[1; 8], taken.unwrap().write())).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RemAccess);
    let mut bytes = [0; 8];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8]);

    // A range that exceeds it.
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let end = region.remote().slice(60, 4).unwrap();
    assert!(region.remote().slice(60, 5).is_err());
    p.a.post_send(wr::RdmaWrite::inline(&[1; 5], end.write().start())).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RemAccess);
    let mut bytes = [0; 4];
    region.read_at(60, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 4]);
}

/// Proves R4.4.
#[test]
fn a_queue_pair_that_grants_nothing() {
    fails_on!(IwarpOtherwise, "R24.5");
    let wish = Wish { access: QpAccess::empty(), ..Wish::new() };
    let mut p = Pair::<Rc>::with(&wish);
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    p.a.post_send(wr::RdmaWrite::inline(&[1; 8], region.remote().write())).unwrap();
    // R4.4, R10.16.
    poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RemInvReq);
    states(&p, QpState::Err, QpState::Err);
}

/// Proves R3.7, R10.2, R10.16, R11.7.
#[test]
fn a_receive_too_short_on_rc() {
    fails_on!(IwarpOtherwise, "R24.16");
    let mut p = Pair::<Rc>::new();
    let short = p.pd.create_pool(1, 8).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&short))).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, &numbered(1, 9)))).unwrap();
    let receiver = by_rule!(p.dev, "R3.7", loopback: WcStatus::LocLen, rxe: WcStatus::LocQpOp);
    let sender = by_rule!(p.dev, "R3.7", loopback: WcStatus::RemInvReq, rxe: WcStatus::RemOp);
    let failed = poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, sender);
    holds(failed.entry.unwrap(), &numbered(1, 9));
    let mut done = poll(&p.dev, &mut p.cb, 2).into_iter();
    let failed = done.next().unwrap().failed(Direction::Receive, receiver);
    assert_eq!(failed.entry.unwrap().capacity(), 8);
    untouched(done.next().unwrap().flushed(Direction::Receive).unwrap());
    states(&p, QpState::Err, QpState::Err);
}

/// Proves R3.7.
#[test]
fn a_receive_too_short_on_uc() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Uc>::new();
    let short = p.pd.create_pool(1, 8).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&short))).unwrap();
    p.a.post_send(wr::Send::inline(&[1; 9])).unwrap();
    p.a.post_send(wr::Send::inline(&[2; 8])).unwrap();
    poll(&p.dev, &mut p.ca, 2).into_iter().for_each(|done| drop(done.sent()));
    let done = poll(&p.dev, &mut p.cb, 1).remove(0);
    by_rule!(p.dev, "R3.7",
        loopback: assert_eq!(done.received().data(), [2; 8]),
        rxe: drop(done.failed(Direction::Receive, WcStatus::LocQpOp)));
    let state = by_rule!(p.dev, "R3.7", loopback: QpState::Rts, rxe: QpState::Err);
    states(&p, QpState::Rts, state);
}

/// Proves R8.15, R10.1.
#[test]
fn moving_to_error_flushes_everything_in_order() {
    fails_on!(IwarpOtherwise, "R24.16");
    let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc>::new();
    for i in 0..4 {
        b.post_send(wr::Send::new(filled(&pool, &[i]))).unwrap();
        b.post_recv(wr::Recv::new(filled(&pool, &[i]))).unwrap();
        a.post_send(wr::Send::new(wr::Empty)).unwrap();
    }
    // The sends of `a` arrive; those of `b` find no receive.
    poll(&dev, &mut ca, 4).into_iter().for_each(|done| drop(done.sent()));
    poll(&dev, &mut cb, 4).into_iter().for_each(|done| drop(done.received()));
    for i in 0..4 {
        b.post_recv(wr::Recv::new(filled(&pool, &[i]))).unwrap();
    }
    let b = b.to_error().unwrap();
    assert_eq!(b.query().unwrap().state, Some(QpState::Err));
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for done in poll(&dev, &mut cb, 8) {
        let Done::Failed(failed) = done else { panic!("{done:?}") };
        let Failed { entry, id: 0, direction, qp_num, error } = failed else { panic!("an id") };
        assert_eq!((qp_num, error.qp_num), (b.qp_num(), b.qp_num()));
        assert_eq!(error.status, WcStatus::WrFlush);
        let mut buf = entry.unwrap();
        buf.set_len(1);
        match direction {
            Direction::Send => sends.push(buf[0]),
            Direction::Receive => receives.push(buf[0]),
        }
    }
    assert_eq!((sends, receives), (vec![0, 1, 2, 3], vec![0, 1, 2, 3]));
    assert_eq!((b.sends_outstanding(), b.recvs_outstanding()), (0, 0));
    // A second call does no harm.
    let b = b.to_error().unwrap();
    drop(b);
    assert_eq!((pool.available(), poll_empty(&mut cb)), (40, 0));
}

/// Every outcome has the number of its work request and of its queue pair, even when it no longer
/// borrows the completion queue.
/// Proves R17.7.
#[test]
fn every_outcome_has_its_work_request_and_queue_pair() {
    fails_on!(IwarpOtherwise, "R24.7"); // it posts in the error state
    let Pair { mut a, b: _b, mut ca, pool, dev, pd, .. } = Pair::<Rc>::new();
    let region = pd.register::<RemoteWrite>(64).unwrap();
    let there = region.remote().write();
    let mut kept = |n: usize| {
        let mut all: Vec<Outcome<'static, Buf>> = Vec::new();
        until(&dev, "outcomes", || {
            all.extend(ca.poll().unwrap().map(|done| done.outcome().detach().unwrap()));
            all.len() >= n
        });
        all
    };
    for id in [1, u16::MAX, 0] {
        a.post_send(wr::RdmaWrite::inline(b"x", there).with_id(id)).unwrap();
    }
    a.post_send(wr::RdmaWrite::new(filled(&pool, &[7]), there)).unwrap();
    let sent = kept(4);
    assert!(sent.iter().all(|done| done.qp_num() == a.qp_num()));
    assert!(sent.iter().all(|done| matches!(done, Outcome::Sent(sent) if sent.id == done.id())));
    assert_eq!(sent.iter().map(Outcome::id).collect::<Vec<_>>(), [1, u16::MAX, 0, 0]);

    a.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    let mut a = a.to_error().unwrap();
    a.post_send(wr::RdmaWrite::inline(b"x", there).with_id(9)).unwrap();
    a.post_send(wr::RdmaWrite::new(filled(&pool, &[7]), there)).unwrap();
    let flushed = kept(3);
    let mut ids: Vec<_> = flushed.iter().map(|done| (done.id(), done.qp_num())).collect();
    ids.sort();
    assert_eq!(ids, [(0, a.qp_num()), (0, a.qp_num()), (9, a.qp_num())]);
    assert!(flushed.iter().all(|done| matches!(done, Outcome::Failed(it) if it.id == done.id())));
}

/// Proves R8.19.
#[test]
fn sends_posted_in_the_error_state_are_flushed() {
    fails_on!(IwarpOtherwise, "R24.7");
    let Pair { a, mut ca, pool, dev, .. } = Pair::<Rc>::new();
    let mut a = a.to_error().unwrap();
    for i in 0..3 {
        a.post_send(wr::Send::new(filled(&pool, &[i]))).unwrap();
    }
    for (i, done) in poll(&dev, &mut ca, 3).into_iter().enumerate() {
        holds(done.flushed(Direction::Send).unwrap(), &[i as u8]);
    }
    // As before, the crate enforces the limit.
    let uc = Pair::<Uc>::new();
    let mut a = uc.a.to_error().unwrap();
    let mut ca = uc.ca;
    a.post_send(wr::Send::inline(b"x")).unwrap();
    assert!(poll(&uc.dev, &mut ca, 1).remove(0).flushed(Direction::Send).is_none());
}
