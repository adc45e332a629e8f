//! Draining: every buffer returns before the queue pair is destroyed.

use proverbs::completion::Direction;
use proverbs::prelude::*;
use proverbs::qp::{Drained, Max};
use proverbs::transport::Transport;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }

/// Drains. Returns the first bytes of the messages, and the number of foreign completions.
fn drain<T: Transport, P: Profile<Entry = Buf>>(
    qp: &mut QueuePair<T, state::Err, P>,
    cq: &mut CompletionQueue,
) -> (Vec<u8>, usize) {
    let (mut found, mut other) = (Vec::new(), 0);
    qp.drain(cq, |drained| match drained {
        Drained::Entry(mut buf) => {
            buf.set_len(1);
            found.push(buf[0]);
        }
        Drained::Other(completion) => {
            drop(completion);
            other += 1;
        }
    })
    .unwrap();
    found.sort_unstable();
    (found, other)
}

macro_rules! drains {
    ($($name:ident: $profile:ty;)*) => {$(
        mod $name {
            use super::*;

            /// Proves R10.2, R10.14.
            #[test]
            fn rc_with_waiting_sends_and_receives() {
                fails_on!(NoRings, "", stringify!($name) == "ring");
                let mut p = Pair::<Rc, $profile>::new();
                // On iWARP a message without a receive ends the connection (R24.12), and a post
                // behind that is never flushed (R24.7).
                let at_peer = if p.dev.is_iwarp() { 3 } else { 0 };
                for _ in 0..at_peer {
                    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
                }
                for i in 0..3 {
                    p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
                    p.a.post_recv(wr::Recv::new(filled(&p.pool, &[10 + i]))).unwrap();
                }
                let mut a = p.a.to_error().unwrap();
                assert_eq!(drain(&mut a, &mut p.ca), (vec![0, 1, 2, 10, 11, 12], 0));
                assert_eq!((a.sends_outstanding(), a.recvs_outstanding()), (0, 0));
                assert_eq!(drain(&mut a, &mut p.ca), (vec![], 0));
                a.destroy().unwrap();
                assert_eq!((p.pool.available(), poll_empty(&mut p.ca)), (40 - at_peer, 0));
            }

            /// Proves R10.14.
            #[test]
            fn uc_with_receives() {
                fails_on!(Iwarp, "R24.2");
                fails_on!(NoRings, "", stringify!($name) == "ring");
                let mut p = Pair::<Uc, $profile>::new();
                let region = p.pd.register::<RemoteWrite>(8).unwrap();
                let to = region.remote().write();
                for i in 0..3 {
                    p.a.post_send(wr::RdmaWrite::new(filled(&p.pool, &[i]), to)).unwrap();
                    p.a.post_recv(wr::Recv::new(filled(&p.pool, &[10 + i]))).unwrap();
                }
                // Whether flushed or successful, the buffers return.
                let mut a = p.a.to_error().unwrap();
                assert_eq!(drain(&mut a, &mut p.ca), (vec![0, 1, 2, 10, 11, 12], 0));
                assert_eq!(p.pool.available(), 40);
            }

            /// Proves R10.14.
            #[test]
            fn ud_with_receives() {
                fails_on!(Iwarp, "R24.2");
                fails_on!(NoRings, "", stringify!($name) == "ring");
                let mut p = Pair::<Ud, $profile>::new();
                let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
                for i in 0..3 {
                    p.a.post_send(wr::Send::new(filled(&p.pool, &[i])).to(to)).unwrap();
                    p.a.post_recv(wr::Recv::new(filled(&p.pool, &[10 + i]))).unwrap();
                }
                p.a.remove_address_handle(to.address_handle);
                let mut a = p.a.to_error().unwrap();
                assert_eq!(drain(&mut a, &mut p.ca), (vec![0, 1, 2, 10, 11, 12], 0));
                assert_eq!(a.reap_address_handles(), 0);
            }

            /// Proves R7.15.
            #[test]
            fn two_completion_queues_need_two_calls() {
                fails_on!(NoRings, "", stringify!($name) == "ring");
                fails_on!(Iwarp, "R24.5", stringify!($name) == "handles");
                let p = Pair::<Rc, $profile>::new();
                let (mut sends, mut receives) =
                    (p.dev.ctx.create_cq(30).unwrap(), p.dev.ctx.create_cq(30).unwrap());
                let wish = Wish::new();
                let qp = p.pd.create_qp::<Rc, $profile>(&sends, &receives, wish.depth).unwrap();
                // Its peer has no receive, and ignores the message.
                let mut qp = Rc::up(qp, &p.dev, p.b.qp_num(), &wish);
                for i in 0..2 {
                    qp.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
                    qp.post_recv(wr::Recv::new(filled(&p.pool, &[10 + i]))).unwrap();
                }
                let mut qp = qp.to_error().unwrap();
                assert_eq!(drain(&mut qp, &mut sends), (vec![0, 1], 0));
                assert_eq!((qp.sends_outstanding(), qp.recvs_outstanding()), (0, 2));
                assert_eq!(drain(&mut qp, &mut receives), (vec![10, 11], 0));
                let mut ca = p.ca;
                let error = qp.drain(&mut ca, |_| ()).unwrap_err();
                let text = "drain: EINVAL: Invalid argument (the queue pair does not \
                            complete into this completion queue)";
                assert_eq!(said(&error), text);
            }

            /// Proves R10.14.
            #[test]
            fn foreign_completions_are_passed_on() {
                fails_on!(NoRings, "", stringify!($name) == "ring");
                let p = Pair::<Rc, $profile>::new();
                let (dev, pd, pool, wish) = (p.dev, p.pd, p.pool, Wish::new());
                let mut cq = dev.ctx.create_cq(60).unwrap();
                let a = pd.create_qp::<Rc, $profile>(&cq, &cq, wish.depth).unwrap();
                let b = pd.create_qp::<Rc, $profile>(&cq, &cq, wish.depth).unwrap();
                let nb = b.qp_num();
                let (mut a, mut b) = Rc::connect((a, &pd), (b, &pd), &dev, &wish);
                // A message for `b` is there when `a` drains, and one of `b` is waiting.
                b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
                a.post_recv(wr::Recv::new(filled(&pool, &[10]))).unwrap();
                a.post_send(wr::Send::new(filled(&pool, &[0]))).unwrap();
                let mut a = match poll_one_receive(&dev, &mut cq, nb) {
                    true => a.to_error().unwrap(),
                    false => unreachable!(),
                };
                let (found, other) = drain(&mut a, &mut cq);
                // Its send was polled above if it came before the receive.
                assert!(found.ends_with(&[10]), "{found:?}");
                assert_eq!(other, 0);
                drop(a);
                let mut b = b.to_error().unwrap();
                drain(&mut b, &mut cq);
                assert_eq!(pool.available(), 40);
            }
        }
    )*};
}

drains! {
    handles: DefaultProfile;
    ring: Ring;
}

/// Polls up to and including the receive of the queue pair `number`, and drops earlier ones.
fn poll_one_receive(dev: &Device, cq: &mut CompletionQueue, number: u32) -> bool {
    until(dev, "a receive", || {
        let Some(completion) = cq.poll_one().unwrap() else { return false };
        completion.qp_num() == number && completion.direction() == Direction::Receive
    });
    true
}

#[test]
fn foreign_completions_are_passed_on_whole() {
    fails_on!(Iwarp, "R24.5");
    let p = Pair::<Rc>::new();
    let (dev, pd, pool, wish) = (p.dev, p.pd, p.pool, Wish::new());
    let mut cq = dev.ctx.create_cq(60).unwrap();
    let make = || {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
        Rc::init(qp, &wish)
    };
    let (mut one, mut two) = (make(), make());
    one.post_recv(wr::Recv::new(filled(&pool, &[1]))).unwrap();
    two.post_recv(wr::Recv::new(filled(&pool, &[2]))).unwrap();
    let (mut one, two) = (one.to_error().unwrap(), two.to_error().unwrap());
    let (mut mine, mut others) = (0, Vec::new());
    until(&dev, "both receives are flushed", || {
        one.drain(&mut cq, |drained| match drained {
            Drained::Entry(buf) => mine += (buf[0] == 1) as u32,
            Drained::Other(completion) => {
                assert_eq!(completion.qp_num(), two.qp_num());
                others.push(completion.into_entry().unwrap());
            }
        })
        .unwrap();
        for completion in cq.poll().unwrap() {
            others.push(completion.into_entry().unwrap());
        }
        others.len() == 1
    });
    assert_eq!((mine, others[0][0]), (1, 2));
}

/// Unsignaled sends are covered only by a later completion, so the drain posts one.
#[test]
fn unsignaled_sends_return() {
    fails_on!(NoRings);
    fn drained<T: Transport>(qp: QueuePair<T, Rts, Ring>, cq: &mut CompletionQueue) -> Vec<u8> {
        let mut qp = qp.to_error().unwrap();
        let found = drain(&mut qp, cq).0;
        assert_eq!(qp.sends_outstanding(), 0);
        qp.destroy().unwrap();
        found
    }
    macro_rules! on {
        ($transport:ty, |$p:ident, $i:ident| $wr:expr) => {{
            let mut $p = Pair::<$transport, Ring>::new();
            for $i in 0..3u8 {
                let wr = $wr;
                let _ = $p.a.post_send_unsignaled(wr).unwrap();
            }
            assert_eq!(drained($p.a, &mut $p.ca), [0, 1, 2]);
            assert_eq!($p.pool.available(), 40);
        }};
    }
    // Entries released by a dropped completion return too, whether more follow or not.
    for more in 0..3 {
        let mut p = Pair::<Rc, Ring>::new();
        for i in 0..2 {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            let wr = wr::Send::new(filled(&p.pool, &[i]));
            if i == 0 {
                let _ = p.a.post_send_unsignaled(wr).unwrap();
            } else {
                p.a.post_send(wr).unwrap();
            }
        }
        let mut deadline = p.dev.deadline("the signaled send");
        while p.ca.poll_one().unwrap().map(drop).is_none() {
            deadline.tick(&());
        }
        for i in 0..more {
            let _ = p.a.post_send_unsignaled(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
        }
        assert_eq!(drained(p.a, &mut p.ca).len(), 2 + more as usize);
    }
    on!(Rc, |p, i| wr::Send::new(filled(&p.pool, &[i])));
    on!(Uc, |p, i| wr::Send::new(filled(&p.pool, &[i])));
    on!(Ud, |p, i| {
        let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
        wr::Send::new(filled(&p.pool, &[i])).to(to)
    });
}

/// ERR, drain, destroy. Sends return, and receives posted to the shared receive queue stay there
/// (R7.7) for the other queue pairs. The pool gets them back when the shared queue is gone, too.
#[test]
fn a_drain_leaves_the_shared_receive_queue() {
    fails_on!(NoRings);
    profile! { OnSrq { receive: SharedRq, signaling: Selective, initiator: NoReads } }
    let p = Pair::<Rc>::new();
    let (dev, pd, pool, wish) = (p.dev, p.pd, p.pool, Wish::new());
    let mut cq = dev.ctx.create_cq(60).unwrap();
    let feed = pd.create_pool(4, 64).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&feed).unwrap();
    while let Some(buf) = feed.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    let qp = pd.create_qp::<Rc, OnSrq>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
    let mut qp = Rc::up(qp, &dev, p.b.qp_num(), &wish);
    for i in 0..2 {
        qp.post_send(wr::Send::new(filled(&pool, &[i]))).unwrap();
    }
    let mut qp = qp.to_error().unwrap();
    assert_eq!(drain(&mut qp, &mut cq), (vec![0, 1], 0));
    qp.destroy().unwrap();
    assert_eq!((pool.available(), feed.available()), (40, 0));
    srq.destroy().unwrap();
    assert_eq!(poll_empty(&mut cq), 0);
    assert_eq!((feed.reclaim(&mut cq), feed.available()), (0, 4), "home by themselves");
    assert_eq!(cq.unbooked(), cq.capacity());
}
