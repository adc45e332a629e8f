//! `mem::forget` leaks, but nothing dangles, and nothing is returned twice.

use std::future::{Future, pending};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Waker};

use proverbs::prelude::*;

use crate::support::*;

/// Sends messages 0, 1 and so on from `a` to `b`, which receives all of them.
fn arrived(p: &mut Pair<Rc>, n: u8) {
    for i in 0..n {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    // On RC the sender's completions show that the receiver's are there.
    poll(&p.dev, &mut p.ca, n as usize);
}

/// Proves R11.2, R17.7.
#[test]
fn forgetting_a_completion() {
    let mut p = Pair::<Rc>::new();
    arrived(&mut p, 3);
    forget(p.cb.poll_one().unwrap().unwrap());
    let rest = poll(&p.dev, &mut p.cb, 2).into_iter();
    let rest: Vec<u8> = rest.map(|done| done.received().data()[0]).collect();
    assert_eq!(rest, [1, 2]);
    assert_eq!((p.pool.available(), poll_empty(&mut p.cb)), (39, 0), "one buffer is lost");
    // It was never taken, so the queue counts it as outstanding until it ends.
    assert_eq!(p.b.recvs_outstanding(), 1);
    assert_eq!(p.pool.reclaim(&mut p.cb), 0);
    drop(p.b);
    assert_eq!((p.pool.available(), poll_empty(&mut p.cb)), (39, 0));
    assert_eq!((p.pool.available(), p.pool.reclaim(&mut p.cb)), (40, 0), "home by itself");
}

#[test]
fn forgetting_the_iterator_of_a_poll() {
    let mut p = Pair::<Rc>::new();
    arrived(&mut p, 4);
    let mut completions = p.cb.poll().unwrap();
    assert_eq!(completions.len(), 4);
    let first = completions.next().unwrap().into_entry().unwrap();
    forget(completions);
    assert_eq!((first[0], poll_empty(&mut p.cb)), (0, 0));
    assert_eq!(p.pool.available(), 36);
    arrived(&mut p, 2);
    let next = poll(&p.dev, &mut p.cb, 2).into_iter();
    assert_eq!(next.map(|done| done.received().data()[0]).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn completions_that_an_iterator_did_not_return_come_with_the_next_poll() {
    let mut p = Pair::<Rc>::new();
    arrived(&mut p, 4);
    let mut seen = Vec::new();
    for take in [1, 2, 1] {
        for completion in p.cb.poll().unwrap().take(take) {
            seen.push(completion.into_entry().unwrap());
        }
    }
    assert_eq!(seen.iter().map(|buf| buf[0]).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(poll_empty(&mut p.cb), 0);
}

#[test]
fn a_dropped_completion_returns_its_buffer() {
    let mut p = Pair::<Rc>::new();
    arrived(&mut p, 3);
    drop(p.cb.poll().unwrap());
    assert_eq!(poll_empty(&mut p.cb), 3);
    assert_eq!(p.pool.available(), 40);
    arrived(&mut p, 1);
    // Dropping a completion queue returns the buffers in it.
    drop(p.cb);
    assert_eq!(p.pool.available(), 40);
}

/// Proves R11.2.
#[test]
fn forgetting_a_queue_pair() {
    let mut p = Pair::<Rc>::new();
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    forget(p.b);
    // It still exists, and receives.
    p.a.post_send(wr::Send::inline(b"leaked")).unwrap();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"leaked");
    poll(&p.dev, &mut p.ca, 1);
    assert_eq!((p.pool.reclaim(&mut p.cb), p.pool.available()), (0, 38));
    assert!(p.cb.destroy().is_err());
    assert!(p.pd.destroy().is_err());
}

#[test]
fn forgetting_a_refused_post() {
    let mut p = Pair::<Rc>::new();
    let buf = filled(&p.pool, b"lost");
    let error =
        post_send!(p.a, [wr::Send::new(buf), wr::Send::inline_slice(&[0; 65])]).unwrap_err();
    forget(error);
    assert_eq!((p.pool.available(), p.a.sends_outstanding()), (39, 0));
    let error =
        post_send!(p.a, [wr::Send::new(poisoned(&p.pool)), wr::Send::inline_slice(&[0; 65])]);
    let mut rejected = error.unwrap_err().into_rejected();
    let first = rejected.next().unwrap();
    forget(rejected);
    drop(first);
    assert_eq!(p.pool.available(), 39);
    arrived(&mut p, 1);
}

/// Proves R11.9.
#[test]
fn forgetting_lists_and_released_entries() {
    fails_on!(NoRings);
    profile! { Ring { signaling: Selective, initiator: NoReads } }
    let mut p = Pair::<Rc, Ring>::new();
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(wr::Send::new(filled(&p.pool, b"never posted"))).unwrap();
    forget(list);
    // The slot of the ring is reused: its old entry is lost, and nothing else.
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    post_send!(p.a, [send(0), send(1)]).unwrap();
    poll(&p.dev, &mut p.cb, 2);
    until(&p.dev, "the completion", || {
        let Some(completion) = p.ca.poll_one().unwrap() else { return false };
        let mut released = p.a.complete(completion).unwrap().released;
        assert_eq!(released.next().unwrap()[0], 0);
        forget(released);
        true
    });
    // Entries that it did not return are lost with it.
    p.a.post_send(wr::Send::new(filled(&p.pool, &[2]))).unwrap();
    let (_, released) = complete(&p.dev, &mut p.ca, &mut p.a, 1).remove(0);
    assert_eq!(released.iter().map(|buf| buf[0]).collect::<Vec<_>>(), [2]);
    poll(&p.dev, &mut p.cb, 1);

    let mut slots = RecvSlots::<4>::new();
    let mut list = p.b.recv_list(&mut slots);
    list.push(wr::Recv::new(poisoned(&p.pool))).unwrap();
    forget(list);
    drop(released);
    assert_eq!((p.pool.available(), p.b.recvs_outstanding()), (37, 0));
}

/// A buffer is orphaned while a forgotten list has buffers that a search finds first. All of them
/// return once the queue pair is gone.
fn all_come_home(mut qp: QueuePair<Rc, Rts>, cq: &mut CompletionQueue, pool: &Pool, all: usize) {
    qp.post_recv(wr::Recv::new(poisoned(pool))).unwrap();
    drop(qp);
    poll_empty(cq);
    poll_empty(cq);
    assert_eq!(pool.available(), all);
}

/// A forgotten list of sends does not end the search for outstanding buffers early.
#[test]
fn a_forgotten_list_of_sends_beside_an_orphaned_buffer() {
    let mut p = Pair::<Rc>::new();
    let (all, mut slots) = (p.pool.available(), SendSlots::<4>::new());
    let mut list = p.b.send_list(&mut slots);
    list.extend([(); 3].map(|()| wr::Send::new(poisoned(&p.pool)))).unwrap();
    forget(list);
    // Later lists that are dropped, posted or refused do not stand in for it.
    let mut list = p.b.send_list(&mut slots);
    list.push(wr::Send::new(poisoned(&p.pool))).unwrap();
    drop(list);
    p.b.send_list(&mut slots).post().unwrap();
    all_come_home(p.b, &mut p.cb, &p.pool, all);
}

/// A forgotten list of receives does not end the search for outstanding buffers early.
#[test]
fn a_forgotten_list_of_receives_beside_an_orphaned_buffer() {
    let mut p = Pair::<Rc>::new();
    let (all, mut slots) = (p.pool.available(), RecvSlots::<4>::new());
    let mut list = p.b.recv_list(&mut slots);
    list.extend([(); 3].map(|()| wr::Recv::new(poisoned(&p.pool)))).unwrap();
    forget(list);
    all_come_home(p.b, &mut p.cb, &p.pool, all);
}

/// The requests that an iterator returned before it panicked are not checked yet: they may belong
/// to another domain.
#[test]
fn a_forgotten_list_of_another_domains_buffers() {
    let mut p = Pair::<Rc>::new();
    let elsewhere = p.dev.ctx.alloc_pd().unwrap().create_pool(3, 64).unwrap();
    let (all, mut slots) = (p.pool.available(), RecvSlots::<4>::new());
    let mut list = p.b.recv_list(&mut slots);
    let wrs = (0..4).map(|_| wr::Recv::new(poisoned(&elsewhere)));
    catch_unwind(AssertUnwindSafe(|| list.extend(wrs))).expect_err("three buffers");
    forget(list);
    all_come_home(p.b, &mut p.cb, &p.pool, all);
    assert_eq!(elsewhere.available(), 3);
}

/// A list of the macros is forgotten with the future that is suspended inside it.
#[test]
fn a_forgotten_future_suspended_inside_a_list() {
    let mut p = Pair::<Rc>::new();
    let all = p.pool.available();
    let send = || wr::Send::new(poisoned(&p.pool));
    let recv = || wr::Recv::new(poisoned(&p.pool));
    let sends = async {
        let wait = async || (pending::<()>().await, send()).1;
        post_send!(p.a, [send(), send(), wait().await])
    };
    let recvs = async {
        let wait = async || (pending::<()>().await, recv()).1;
        post_recv!(p.b, [recv(), recv(), { wait().await }])
    };
    let (mut sends, mut recvs) = (Box::pin(sends), Box::pin(recvs));
    let mut task = Context::from_waker(Waker::noop());
    assert!(sends.as_mut().poll(&mut task).is_pending());
    assert!(recvs.as_mut().poll(&mut task).is_pending());
    forget((sends, recvs));
    all_come_home(p.a, &mut p.ca, &p.pool, all - 2);
    all_come_home(p.b, &mut p.cb, &p.pool, all);
}

/// The end of a shared receive queue searches only buffers of its own domain, unless a forgotten
/// list may have others.
#[test]
fn a_forgotten_future_with_another_domains_buffers() {
    let dev = Device::open();
    let pds = [(); 2].map(|()| dev.ctx.alloc_pd().unwrap());
    let [pool, elsewhere] = pds.each_ref().map(|pd| pd.create_pool(3, 64).unwrap());
    for is_destroyed in [false, true] {
        let mut srq: SharedReceiveQueue<Rc> = pds[0].create_srq(&pool).unwrap();
        let recv = || wr::Recv::new(poisoned(&elsewhere));
        let mut recvs = Box::pin(async {
            let wait = async || (pending::<()>().await, recv()).1;
            post_srq_recv!(srq, [recv(), recv(), wait().await])
        });
        assert!(recvs.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        forget(recvs);
        srq.post_srq_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        if is_destroyed {
            srq.destroy().unwrap()
        } else {
            drop(srq)
        }
        assert_eq!((pool.available(), elsewhere.available()), (3, 3), "{is_destroyed}");
    }
}
