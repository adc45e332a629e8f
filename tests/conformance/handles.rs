//! Handles of completion queues: other threads create queues with them while one thread polls.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use proverbs::completion::CqHandle;
use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};
use proverbs::ext::xrc::XrcdFile;
use proverbs::prelude::*;
use proverbs::qp::Max;

use crate::support::*;

profile! { Served { receive: SharedRq } }

const EBUSY: i32 = 16;

const DEPTH: Depth = Depth { send: 4, recv: 4 };

fn device() -> (Device, ProtectionDomain) {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    (dev, pd)
}

fn create(
    pd: &ProtectionDomain,
    handle: &CqHandle,
) -> Result<QueuePair<Rc, Reset>, proverbs::Error> {
    pd.create_qp(handle, handle, DEPTH)
}

/// Counts a thread as done, even if it panics.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Two threads connect queue pairs and send, and a third one polls all their completions. It is not
/// told about the queue pairs.
/// Proves R17.1.
#[test]
fn connections_are_made_while_another_thread_polls() {
    let rounds = if cfg!(miri) { 2 } else { 20 };
    for is_shared in [false, true] {
        let (dev, pd) = device();
        let cq = dev.ctx.cq(64);
        let mut cq: CompletionQueue =
            if is_shared { cq.shared_budget() } else { cq }.create().unwrap();
        let (handle, done) = (cq.handle(), AtomicUsize::new(0));
        let [mut sent, mut received] = [0, 0];
        let pool = pd.create_pool(16, 64).unwrap();
        thread::scope(|scope| {
            for number in 0..2u8 {
                let (dev, pd, pool, done) = (&dev, &pd, &pool, &done);
                let handle = handle.clone();
                scope.spawn(move || {
                    let _done = Done(done);
                    for _ in 0..rounds {
                        let new = || (create(pd, &handle).unwrap(), pd);
                        let (mut a, mut b) = Rc::connect(new(), new(), dev, &Wish::new());
                        b.post_recv(wr::Recv::new(poisoned(pool))).unwrap();
                        a.post_send(wr::Send::new(filled(pool, &[number]))).unwrap();
                        until(dev, "both completions", || {
                            thread::yield_now();
                            a.sends_outstanding() + b.recvs_outstanding() == 0
                        });
                    }
                });
            }
            while done.load(SeqCst) != 2 {
                for completion in cq.poll().unwrap() {
                    match completion.outcome() {
                        Outcome::Sent(_) => sent += 1,
                        Outcome::Received(message) => {
                            assert!(matches!(message.data(), [0 | 1]));
                            received += 1;
                        }
                        other => panic!("{other:?}"),
                    }
                }
                thread::yield_now();
            }
        });
        assert_eq!([sent, received], [2 * rounds; 2]);
        poll_empty(&mut cq);
        assert_eq!((cq.unbooked(), pool.available()), (cq.capacity(), 16));
        assert_eq!((handle.unbooked(), handle.capacity()), (cq.unbooked(), cq.capacity()));
    }
}

/// The completion queue ends although handles of it exist, and they say so from then on.
#[test]
fn a_handle_of_a_queue_that_is_gone() {
    for is_shared in [false, true] {
        for is_dropped in [false, true] {
            let (dev, pd) = device();
            let cq = dev.ctx.cq(20);
            let cq: CompletionQueue =
                if is_shared { cq.shared_budget() } else { cq }.create().unwrap();
            let handles = [cq.handle(), cq.handle().clone()];
            let qp = create(&pd, &handles[0]).unwrap();
            let cq = cq.destroy().unwrap_err();
            assert_eq!(cq.error().errno(), Some(EBUSY));
            let cq = cq.into_object();
            // A handle works after a destroy that was refused.
            drop((create(&pd, &handles[1]).unwrap(), qp));
            if is_dropped {
                drop(cq)
            } else {
                cq.destroy().unwrap()
            }
            for handle in &handles {
                let error = create(&pd, handle).unwrap_err();
                assert_eq!((error.verb(), error.kind()), ("ibv_create_qp", &ErrorKind::CqGone));
                assert!(handle.capacity() >= 20);
            }
            pd.destroy().unwrap();
        }
    }
}

/// The C object of a dropped completion queue lives as long as a queue pair that uses it, but no
/// further queue attaches.
#[test]
fn a_queue_pair_outlives_its_poller() {
    let (dev, pd) = device();
    let cq: CompletionQueue = dev.ctx.create_cq(20).unwrap();
    let handle = cq.handle();
    let qp = create(&pd, &handle).unwrap();
    drop(cq);
    assert_eq!(*create(&pd, &handle).unwrap_err().kind(), ErrorKind::CqGone);
    drop(qp);
    assert_eq!(handle.unbooked(), handle.capacity());
}

/// One thread creates queue pairs while another destroys the completion queue: either works, never
/// both.
#[test]
fn a_queue_pair_or_a_destroy() {
    let rounds = if cfg!(miri) { 8 } else { 200 };
    let (dev, pd) = device();
    for round in 0..rounds {
        let cq: CompletionQueue = dev.ctx.create_cq(20).unwrap();
        let (handle, begin) = (cq.handle(), Barrier::new(2));
        let (created, destroyed) = thread::scope(|scope| {
            let creates = scope.spawn(|| {
                begin.wait();
                create(&pd, &handle)
            });
            begin.wait();
            let destroyed = match round % 2 {
                0 => cq.destroy(),
                _ => {
                    drop(cq);
                    Ok(())
                }
            };
            (creates.join().unwrap(), destroyed)
        });
        match (created, destroyed) {
            (Ok(qp), Ok(())) => {
                assert_eq!(round % 2, 1, "it was dropped, not destroyed");
                drop(qp);
            }
            (Ok(qp), Err(refused)) => {
                assert_eq!(refused.error().errno(), Some(EBUSY));
                drop(qp);
                refused.into_object().destroy().unwrap();
            }
            (Err(error), Ok(())) => assert_eq!(*error.kind(), ErrorKind::CqGone),
            (Err(error), Err(refused)) => panic!("{error}, and {}", refused.error()),
        }
        assert_eq!(*create(&pd, &handle).unwrap_err().kind(), ErrorKind::CqGone);
    }
}

/// A completion queue is resized while other threads create queue pairs on it. No entry is reserved
/// twice.
#[test]
fn a_resize_while_queue_pairs_are_created() {
    fails_on!(Siw, "R18.17");
    let (dev, pd) = device();
    let mut cq: CompletionQueue = dev.ctx.create_cq(9).unwrap();
    let handle = cq.handle();
    let created = thread::scope(|scope| {
        let creates = [(); 2].map(|()| scope.spawn(|| create(&pd, &handle)));
        let resized = [40, 9].map(|cqe| cq.resize(cqe).is_ok());
        assert!(resized[0]);
        creates.map(|creates| creates.join().unwrap())
    });
    let count = created.iter().filter(|created| created.is_ok()).count() as u32;
    assert!(count >= 1, "one of them fits in any case");
    assert_eq!(cq.capacity() - cq.unbooked(), 9 * count);
    drop(created);
    poll_empty(&mut cq);
    assert_eq!(cq.unbooked(), cq.capacity());
}

/// Shared receive queues, XRC and completion queues with extra fields have handles too.
#[test]
fn every_kind_of_queue_is_created_with_a_handle() {
    let (dev, pd) = device();
    let cq: CompletionQueue = dev.ctx.create_cq(80).unwrap();
    let (handle, pool) = (cq.handle(), pd.create_pool(8, 64).unwrap());
    let elsewhere = thread::spawn({
        let (pd, pool, ctx) = (pd.clone(), pool.clone(), dev.ctx.clone());
        move || {
            let srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool).unwrap();
            let depth = Depth::on_srq(4, &srq);
            let served: QueuePair<Rc, Reset, Served> =
                pd.create_qp(&handle, &handle, depth).unwrap();
            let of_xrc = ctx.abilities().unwrap().can::<Xrc>().map(|can| {
                let domain = ctx.open_xrcd(&can, XrcdFile::Private).unwrap();
                domain.create_srq::<Buf, Max<1>, (), _>(&pd, &pool, &handle).unwrap()
            });
            (srq, served, of_xrc)
        }
    });
    let (srq, served, of_xrc) = elsewhere.join().unwrap();
    let booked = 4 + 1 + 8 + if of_xrc.is_some() { 8 } else { 0 };
    assert_eq!(cq.capacity() - cq.unbooked(), booked);
    drop((of_xrc, served, srq));

    let timed = dev.ctx.cq(20).fields::<CompletionTs>().create::<Buf>();
    let Ok(timed): Result<CompletionQueueEx<CompletionTs>, _> = timed else { return };
    let qp = create(&pd, &timed.handle()).unwrap();
    assert_eq!(timed.capacity() - timed.unbooked(), 9);
    drop(qp);
}
