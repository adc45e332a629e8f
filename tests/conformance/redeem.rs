//! Completions of selectively signaled queue pairs that another thread redeems, late or never.

use std::sync::mpsc;
use std::thread;

use proverbs::completion::DetachedCompletion;
use proverbs::memory::Owned;
use proverbs::prelude::*;
use proverbs::state::State;
use static_assertions::{assert_impl_all, assert_not_impl_any};

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }

assert_impl_all!(DetachedCompletion: std::marker::Send, Sync);
assert_not_impl_any!(DetachedCompletion: Clone);

/// A pair, and memory to write to.
struct Writes {
    p: Pair<Rc, Ring>,
    region: MemoryRegion<RemoteWrite>,
}

impl Writes {
    fn new() -> Writes {
        let p = Pair::<Rc, Ring>::new();
        let region = p.pd.register(8).unwrap();
        Writes { p, region }
    }

    fn write(&self, label: u8) -> wr::WorkRequest<wr::RdmaWrite, Buf> {
        wr::RdmaWrite::new(filled(&self.p.pool, &[label]), self.region.remote().write())
    }

    /// Posts signaled writes, and detaches their completions.
    fn complete<const N: usize>(&mut self, labels: [u8; N]) -> [DetachedCompletion; N] {
        labels.map(|label| {
            let write = self.write(label);
            self.p.a.post_send(write).unwrap();
            detached(&self.p.dev, &mut self.p.ca)
        })
    }
}

/// The next completion.
fn detached<E: Owned>(dev: &Device, cq: &mut CompletionQueue<E>) -> DetachedCompletion {
    let mut found = None;
    until(dev, "a completion", || {
        found = cq.poll_one().unwrap().map(|completion| completion.detach().unwrap());
        found.is_some()
    });
    found.unwrap()
}

/// The labels of the entries that a completion releases.
fn redeemed<S: State>(
    qp: &mut QueuePair<Rc, S, Ring>,
    completion: DetachedCompletion,
) -> (Result<(), WcStatus>, Vec<u8>) {
    let done = qp.redeem(completion).expect("of this queue pair");
    (done.status.map_err(|error| error.status), done.released.map(|buf| buf[0]).collect())
}

/// Proves R10.7, R17.1.
#[test]
fn one_thread_polls_and_another_redeems() {
    fails_on!(NoRings);
    let Writes { p: Pair { mut a, b, mut ca, pool, dev, .. }, region } = Writes::new();
    let rounds: u8 = if cfg!(miri) { 10 } else { 200 };
    let (to_poster, completions) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let completions = completions;
            let write = |i| wr::RdmaWrite::new(filled(&pool, &[i]), region.remote().write());
            for i in 0..rounds {
                let _ = a.post_send_unsignaled(write(i)).unwrap();
                a.post_send(write(i)).unwrap();
                assert_eq!(redeemed(&mut a, completions.recv().unwrap()), (Ok(()), vec![i, i]));
            }
        });
        for _ in 0..rounds {
            to_poster.send(detached(&dev, &mut ca)).unwrap();
        }
    });
    assert_eq!((a.sends_outstanding(), pool.available()), (0, 40));
    drop(b);
}

/// A later completion has released the entries of an earlier one, which still has its status.
#[test]
fn completions_that_are_redeemed_late() {
    fails_on!(NoRings);
    let mut w = Writes::new();
    let [first, second, third] = w.complete([0, 1, 2]);
    assert_eq!(w.p.a.sends_outstanding(), 3);
    assert_eq!(redeemed(&mut w.p.a, second), (Ok(()), vec![0, 1]));
    assert_eq!(redeemed(&mut w.p.a, first), (Ok(()), vec![]));
    // Sends that were posted since are not released.
    let write = w.write(3);
    let _ = w.p.a.post_send_unsignaled(write).unwrap();
    assert_eq!(redeemed(&mut w.p.a, third), (Ok(()), vec![2]));
    assert_eq!(w.p.a.sends_outstanding(), 1);
    let [fourth] = w.complete([4]);
    assert_eq!(redeemed(&mut w.p.a, fourth), (Ok(()), vec![3, 4]));
    assert_eq!((w.p.a.sends_outstanding(), w.p.pool.available()), (0, 40));
}

/// A completion that is dropped on another thread makes room. The next one returns its entries.
#[test]
fn completions_that_are_never_redeemed() {
    fails_on!(NoRings);
    let mut w = Writes::new();
    let depth = w.p.a.depth().send;
    let [dropped] = w.complete([0]);
    thread::spawn(move || drop(dropped)).join().unwrap();
    assert_eq!(w.p.a.sends_outstanding(), 0);
    let [one] = w.complete([1]);
    assert_eq!(redeemed(&mut w.p.a, one), (Ok(()), vec![0, 1]));
    // The same if there is no room without it.
    let all: Vec<_> = (0..depth as u8).flat_map(|i| w.complete([i])).collect();
    let full = w.p.a.post_send(w.write(9)).map_err(|error| error.kind()).unwrap_err();
    assert_eq!(full, proverbs::post::PostErrorKind::QueueFull { asked: 1, room: 0 });
    drop(all);
    let [one] = w.complete([9]);
    assert_eq!((redeemed(&mut w.p.a, one), w.p.pool.available()), ((Ok(()), vec![9]), 40));
    // One that was forgotten stays outstanding until a later one.
    w.complete([0]).into_iter().for_each(std::mem::forget);
    assert_eq!(w.p.a.sends_outstanding(), 1);
    let [one] = w.complete([1]);
    assert_eq!(redeemed(&mut w.p.a, one), (Ok(()), vec![0, 1]));
}

/// It is rejected at another queue pair of the same completion queue, and works at its own.
#[test]
fn a_completion_of_another_queue_pair() {
    fails_on!(NoRings);
    let mut w = Writes::new();
    let [completion] = w.complete([7]);
    assert_eq!((completion.qp_num(), completion.status()), (w.p.a.qp_num(), Ok(())));
    let text = format!("DetachedCompletion(QP {:#x}, Ok(()))", w.p.a.qp_num());
    assert_eq!(format!("{completion:?}"), text);
    // The other one also has a send with this sequence number.
    let write = w.write(8);
    w.p.b.post_send(write).unwrap();
    let completion = w.p.b.redeem(completion).map(drop).unwrap_err();
    assert_eq!(w.p.b.sends_outstanding(), 1);
    assert_eq!(redeemed(&mut w.p.a, completion), (Ok(()), vec![7]));
}

/// After a reset the queue pair has the same number and sequence numbers, and rejects completions
/// of its former life.
#[test]
fn a_completion_from_before_a_reset() {
    fails_on!(NoRings);
    let mut w = Writes::new();
    let [kept, dropped, forgotten] = w.complete([0, 1, 2]);
    let number = w.p.a.qp_num();
    let Pair { a, dev, b, pool, ca, .. } = w.p;
    let mut a = Rc::up(a.reset().unwrap(), &dev, b.qp_num(), &Wish::new());
    assert_eq!((a.qp_num(), pool.available()), (number, 40));
    let write = |i| wr::RdmaWrite::new(filled(&pool, &[i]), w.region.remote().write());
    for i in 0..3 {
        let _ = a.post_send_unsignaled(write(i)).unwrap();
    }
    let kept = a.redeem(kept).map(drop).unwrap_err();
    assert_eq!(kept.qp_num(), number);
    drop((kept, dropped));
    std::mem::forget(forgotten);
    assert_eq!((a.sends_outstanding(), pool.available()), (3, 37), "nothing was released");
    drop((a, b, ca));
}

/// Nothing happens to queue pairs that are created after its own was destroyed.
#[test]
fn a_completion_of_a_queue_pair_that_is_gone() {
    fails_on!(NoRings);
    let mut w = Writes::new();
    let [kept, dropped] = w.complete([0, 1]);
    let Pair { a, b, mut ca, pool, pd, dev, .. } = w.p;
    let (mut b, booked) = (b, ca.unbooked());
    a.destroy().unwrap();
    poll_empty(&mut ca);
    poll_empty(&mut ca);
    assert_eq!(pool.available(), 40);
    drop(dropped);
    let depth = Wish::new().depth;
    let qp = pd.create_qp::<Rc, Ring>(&ca, &ca, depth).unwrap();
    let mut qp = <Rc as Bring<Ring>>::init(qp, &Wish::new());
    let kept = qp.redeem(kept).map(drop).unwrap_err();
    let kept = b.redeem(kept).map(drop).unwrap_err();
    assert!(ca.unbooked() > booked - depth.send && qp.sends_outstanding() == 0);
    drop((qp, b, ca, pd));
    drop(dev);
    drop(kept);
}

/// The completion queue is gone, and the queue pair still knows its completion.
#[test]
fn a_completion_of_a_completion_queue_that_is_gone() {
    fails_on!(NoRings);
    let mut w = Writes::new();
    let [one] = w.complete([3]);
    let Pair { mut a, ca, pool, .. } = w.p;
    drop(ca);
    assert_eq!(redeemed(&mut a, one), (Ok(()), vec![3]));
    assert_eq!(pool.available(), 40);
}

/// A drain has released everything.
#[test]
fn a_completion_that_is_redeemed_after_a_drain() {
    fails_on!(NoRings);
    let mut w = Writes::new();
    let [one] = w.complete([3]);
    let Pair { a, mut ca, pool, .. } = w.p;
    let mut a = a.to_error().unwrap();
    a.drain(&mut ca, |_| ()).unwrap();
    assert_eq!((redeemed(&mut a, one), pool.available()), ((Ok(()), vec![]), 40));
}

/// The status of a failure is detached, too.
/// Proves R10.8.
#[test]
fn a_failure_is_redeemed() {
    fails_on!(NoRings);
    let mut w = Writes::new();
    let nowhere = RemoteSlice::<RemoteWrite>::from_parts(8, 8, 0xdead_0000);
    let buf = filled(&w.p.pool, &[5]);
    w.p.a.post_send(wr::RdmaWrite::new(buf, nowhere.write())).unwrap();
    let failed = detached(&w.p.dev, &mut w.p.ca);
    assert_eq!(failed.status().unwrap_err().status, WcStatus::RemAccess);
    assert_eq!(redeemed(&mut w.p.a, failed), (Err(WcStatus::RemAccess), vec![5]));
}

/// Completions with a buffer are not detached: their outcome has it.
#[test]
fn other_completions_are_not_detached() {
    let mut p = Pair::<Rc>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"a"))).unwrap();
    for (dev, cq) in [(&p.dev, &mut p.ca), (&p.dev, &mut p.cb)] {
        until(dev, "the completion", || {
            let Some(completion) = cq.poll_one().unwrap() else { return false };
            let completion = completion.detach().unwrap_err();
            assert!(completion.into_entry().is_some());
            true
        });
    }
    assert_eq!(p.pool.available(), 40);
}
