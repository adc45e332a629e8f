//! Objects that move between threads, and objects of one kind on several threads at once.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use proverbs::completion::Completions;
use proverbs::post::{Rejected, SendList};
use proverbs::prelude::*;
use proverbs::qp::{Max, Released};

use crate::support::*;

profile! { OnSrq { receive: SharedRq } }
profile! { Ring { signaling: Selective } }

/// Objects that a program may keep using after a panic elsewhere: a panic leaves none of them half
/// changed.
mod unwinds {
    use std::panic::{RefUnwindSafe, UnwindSafe};

    use proverbs::device::Context;
    use proverbs::endpoint::RcConnector;
    use static_assertions::assert_impl_all;

    use super::*;

    assert_impl_all!(Context: UnwindSafe, RefUnwindSafe);
    assert_impl_all!(ProtectionDomain: UnwindSafe, RefUnwindSafe);
    assert_impl_all!(QueuePair<Rc, Rts>: UnwindSafe, RefUnwindSafe);
    assert_impl_all!(QueuePair<Rc, Rts, Ring>: UnwindSafe, RefUnwindSafe);
    assert_impl_all!(RcConnector: UnwindSafe, RefUnwindSafe);
    #[cfg(feature = "cm")]
    assert_impl_all!(proverbs::cm::Pending: UnwindSafe, RefUnwindSafe);
    #[cfg(feature = "cm")]
    assert_impl_all!(proverbs::cm::Accepted: UnwindSafe, RefUnwindSafe);
}

/// Objects that must stay on their thread: contexts that are not `Send`, every handle that could
/// move them, and objects that update counters with one writer.
mod stays {
    use std::cell::Cell;
    use std::rc::Rc as Counted;

    use static_assertions::{assert_impl_all, assert_not_impl_any};

    use super::*;

    type Local = Counted<()>;
    profile! { LocalHandles { entry: Buf<Counted<()>> } }
    profile! { LocalRing { entry: AnyBuf<Counted<()>>, signaling: Selective } }

    assert_not_impl_any!(Buf<Local>: std::marker::Send, Sync);
    assert_not_impl_any!(BufList<Local>: std::marker::Send, Sync);
    assert_not_impl_any!(AnyBuf<Local>: std::marker::Send, Sync);
    assert_not_impl_any!(Pool<Local>: std::marker::Send, Sync);
    assert_not_impl_any!(CompletionQueue<Buf<Local>>: std::marker::Send, Sync);
    assert_not_impl_any!(QueuePair<Rc, Rts, LocalHandles>: std::marker::Send, Sync);
    assert_not_impl_any!(QueuePair<Rc, Rts, LocalRing>: std::marker::Send, Sync);
    assert_not_impl_any!(SharedReceiveQueue<Rc, Buf<Local>>: std::marker::Send, Sync);
    assert_not_impl_any!(Rejected<Buf<Local>>: std::marker::Send, Sync);
    assert_not_impl_any!(PostError<Buf<Local>>: std::marker::Send, Sync);
    // A context that may move but not be shared: the pool gives each to one holder.
    assert_not_impl_any!(Buf<Cell<u8>>: Sync);
    assert_impl_all!(Pool<Cell<u8>>: std::marker::Send, Sync);
    // Completions update counters, and releases update rings, on the polling thread.
    assert_not_impl_any!(Completion<'static, Buf>: std::marker::Send, Sync);
    assert_not_impl_any!(Completions<'static, Buf>: std::marker::Send, Sync);
    assert_not_impl_any!(Released<'static, Buf>: std::marker::Send, Sync);
    assert_not_impl_any!(SendList<'static, Rc, DefaultProfile, 1>: std::marker::Send, Sync);
    assert_not_impl_any!(CompletionQueue: Sync);
    assert_not_impl_any!(QueuePair<Rc, Rts>: Sync);
    assert_impl_all!(QueuePair<Rc, Rts>: std::marker::Send);
    assert_impl_all!(CompletionQueue: std::marker::Send);
    // A handle moves entries to the poller.
    use proverbs::completion::CqHandle;
    assert_impl_all!(CqHandle: std::marker::Send, Sync, Clone);
    assert_impl_all!(CqHandle<Buf<Cell<u8>>>: std::marker::Send, Sync);
    assert_not_impl_any!(CqHandle<Buf<Local>>: std::marker::Send, Sync);
    assert_not_impl_any!(CqHandle<Buf, InLane>: std::marker::Send, Sync);
    // The members of a lane, in each shape.
    use proverbs::device::Lane;
    profile! { Fast { threads: InLane } }
    profile! { FastRing { threads: InLane, signaling: Selective } }
    profile! { FastServed { threads: InLane, receive: SharedRq } }
    assert_not_impl_any!(Lane: std::marker::Send, Sync);
    assert_not_impl_any!(CompletionQueue<Buf, InLane>: std::marker::Send, Sync);
    assert_not_impl_any!(QueuePair<Rc, Reset, Fast>: std::marker::Send, Sync);
    assert_not_impl_any!(QueuePair<Rc, Rts, FastRing>: std::marker::Send, Sync);
    assert_not_impl_any!(QueuePair<Rc, Rts, FastServed>: std::marker::Send, Sync);
    assert_not_impl_any!(SharedReceiveQueue<Rc, Buf, Max<1>, InLane>: std::marker::Send, Sync);
    type NotMoved = proverbs::Refused<QueuePair<Rc, Rts, Fast>>;
    assert_not_impl_any!(NotMoved: std::marker::Send, Sync);
    assert_not_impl_any!(proverbs::Refused<CompletionQueue<Buf, InLane>>: std::marker::Send, Sync);
    assert_not_impl_any!(proverbs::Refused<Lane>: std::marker::Send, Sync);
    assert_impl_all!(ProtectionDomain: std::marker::Send, Sync);
}

profile! { Fast { threads: InLane } }

/// A thread keeps a lane in its local storage, with work outstanding. The lane ends with the
/// thread, and its buffers return to a pool that other threads use.
/// Proves R17.8.
#[test]
fn a_lane_ends_with_its_thread() {
    fails_on!(Iwarp, "R24.5");
    use std::cell::RefCell;

    type Member = (QueuePair<Rc, Init, Fast>, CompletionQueue<Buf, InLane>);
    thread_local!(static LEFT: RefCell<Vec<Member>> = const { RefCell::new(Vec::new()) });

    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    for _ in 0..3 {
        let (pd, buffers) = (pd.clone(), pool.clone());
        let work = move || {
            let lane = pd.alloc_lane().unwrap();
            let cq = lane.create_cq(16).unwrap();
            let qp = lane.create_qp::<Rc, Fast>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
            let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
            let mut qp = qp.modify(init).unwrap();
            while let Some(buf) = buffers.take() {
                qp.post_recv(wr::Recv::new(buf)).unwrap();
            }
            LEFT.with_borrow_mut(|left| left.push((qp, cq)));
        };
        thread::spawn(work).join().unwrap();
        assert_eq!(pool.available(), 4);
    }
    drop(pool);
    pd.destroy().unwrap();
}

/// `ATTACK_ROUNDS` requests more rounds, to search for a certain order of the threads. They take
/// seconds.
fn rounds() -> usize {
    let asked = std::env::var("ATTACK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    asked.unwrap_or(if cfg!(miri) { 4 } else { 200 })
}

/// Sets the flag when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// One thread resets a queue pair repeatedly while another polls its completion queue empty: the
/// booking must stay with the queue pair (R9.9).
///
/// A poll on another thread during a reset does not release the room of the queue pair.
/// Proves R8.18.
#[test]
fn a_reset_while_the_completion_queue_is_polled_elsewhere() {
    fails_on!(Iwarp, "R24.6");
    let Pair { a, b, ca, cb, pool, dev, .. } = Pair::<Rc>::new();
    let (booked, stop) = (ca.unbooked(), AtomicBool::new(false));
    let mut survivor = None;
    let mut ca = thread::scope(|scope| {
        let (stop, reclaimer) = (&stop, &pool);
        let poller = scope.spawn(move || {
            let mut ca = ca;
            while !stop.load(SeqCst) {
                poll_empty(&mut ca);
                reclaimer.reclaim(&mut ca);
                thread::yield_now();
            }
            ca
        });
        // Also if this panics.
        let _ends = Ends(stop);
        let mut held = Some(a);
        for _ in 0..rounds() {
            let mut a = held.take().unwrap();
            while let Ok(()) = a.post_send(wr::Send::inline(b"nobody receives it")) {}
            if let Some(buf) = pool.take() {
                a.post_recv(wr::Recv::new(buf)).unwrap();
            }
            let qp = a.reset().unwrap();
            let mut a = Rc::up(qp, &dev, b.qp_num(), &Wish::new());
            while a.recv_room() == 0 {
                thread::yield_now();
            }
            held = Some(a);
        }
        stop.store(true, SeqCst);
        // It is not dropped here, so that its booking can be checked.
        std::mem::swap(&mut held, &mut survivor);
        poller.join().unwrap()
    });
    poll_empty(&mut ca);
    assert_eq!(ca.unbooked(), booked);
    pool.reclaim(&mut ca);
    drop(survivor);
    poll_empty(&mut ca);
    pool.reclaim(&mut ca);
    assert_eq!((ca.unbooked(), pool.available()), (ca.capacity(), 40));
    drop((b, cb));
}

/// One shared receive queue whose receives complete on two threads' queues, and a third thread that
/// posts to it.
/// Proves R17.1.
#[test]
fn a_shared_receive_queue_and_two_completion_queues() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let (pool, feed) = (pd.create_pool(20, 64).unwrap(), pd.create_pool(6, 64).unwrap());
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&feed).unwrap();
    let wish = Wish { depth: Depth { send: 4, recv: 4 }, ..Wish::new() };
    let mut receivers = Vec::new();
    for number in 0..2u8 {
        let (mine, theirs) = (dev.ctx.create_cq(30).unwrap(), dev.ctx.create_cq(30).unwrap());
        let sender = pd.create_qp::<Rc, DefaultProfile>(&mine, &mine, wish.depth).unwrap();
        let receiver = pd.create_qp::<Rc, OnSrq>(&theirs, &theirs, Depth::on_srq(4, &srq)).unwrap();
        let (ns, nr) = (sender.qp_num(), receiver.qp_num());
        let sender = Rc::up(sender, &dev, nr, &wish);
        let receiver = Rc::up(receiver, &dev, ns, &wish);
        receivers.push((number, sender, receiver, mine, theirs));
    }
    thread::scope(|scope| {
        let (dev, pool) = (&dev, &pool);
        let workers: Vec<_> = receivers
            .into_iter()
            .map(|(number, mut sender, receiver, mut mine, mut theirs)| {
                scope.spawn(move || {
                    for _ in 0..rounds() {
                        sender.post_send(wr::Send::new(filled(pool, &[number]))).unwrap();
                        let mut got = 0;
                        until(dev, "the message", || {
                            for completion in theirs.poll().unwrap() {
                                let Outcome::Received(message) = completion.outcome() else {
                                    panic!("an arrival")
                                };
                                assert_eq!(message.data(), [number]);
                                got += 1;
                            }
                            thread::yield_now();
                            got == 1
                        });
                        poll(dev, &mut mine, 1);
                    }
                    drop(receiver);
                })
            })
            .collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            while let Some(buf) = feed.take() {
                srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
            }
            thread::yield_now();
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    assert_eq!(pool.available(), 20);
    srq.destroy().unwrap();
    assert_eq!(feed.available(), 6, "all unused receives have returned");
}

/// Buffers are taken, dropped, frozen and reclaimed on several threads.
#[test]
fn pools_and_shared_buffers() {
    let mut p = Pair::<Rc>::new();
    let shared = filled(&p.pool, b"one log entry").freeze();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            let (pool, shared, stop) = (p.pool.clone(), shared.clone(), &stop);
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    let copy = filled(&pool, &shared).freeze();
                    assert_eq!(copy.clone()[..], shared[..]);
                    drop(BufList::from([poisoned(&pool), poisoned(&pool)]));
                    thread::yield_now();
                }
            });
        }
        for _ in 0..rounds() {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(wr::Send::new(filled(&p.pool, &shared))).unwrap();
            assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), &shared[..]);
            poll(&p.dev, &mut p.ca, 1);
            assert_eq!((p.pool.reclaim(&mut p.ca), p.ca.reclaim_handles()), (0, 0));
        }
        stop.store(true, SeqCst);
    });
    drop(shared);
    assert_eq!(p.pool.available(), 40);
}

/// The queue pair posts on one thread while its completion queue is dropped on another, and then
/// ends.
#[test]
fn a_completion_queue_that_is_dropped_on_another_thread() {
    fails_on!(NoRings);
    for _ in 0..rounds().min(20) {
        let Pair { mut a, mut b, ca, cb, pool, .. } = Pair::<Rc, Ring>::new();
        let watch = pool.clone();
        let poster = thread::spawn(move || {
            for i in 0..4 {
                a.post_send(wr::Send::new(filled(&pool, &[i]))).unwrap();
                b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
            }
            drop((a, b));
        });
        let dropper = thread::spawn(move || drop((ca, cb)));
        poster.join().unwrap();
        dropper.join().unwrap();
        assert_eq!(watch.available(), 40);
    }
}

/// Handles to one buffer and to one region are created and dropped on several threads, and the last
/// one thaws.
/// Proves R18.43.
#[test]
fn shared_handles_on_several_threads() {
    let p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteRead>(64).unwrap();
    let rounds = if cfg!(miri) { 8 } else { 2000 };
    let before = p.pool.available();
    for _ in 0..if cfg!(miri) { 2 } else { 20 } {
        let mut shared = p.pool.take().unwrap();
        shared.copy_from(b"shared").unwrap();
        let mut shared = shared.freeze();
        // While another thread reads it, it cannot be thawed; if it can, that thread is done.
        let other = shared.clone();
        let sum = |bytes: &[u8]| bytes.iter().map(|&byte| byte as u32).sum::<u32>();
        let reader = thread::spawn(move || sum(&other));
        shared = match shared.thaw::<()>() {
            Ok(mut buf) => {
                buf.fill(0);
                buf.copy_from(b"shared").unwrap();
                buf.freeze()
            }
            Err(again) => again,
        };
        assert_eq!(reader.join().unwrap(), sum(b"shared"));
        let (send, receive) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            for id in 0..2u64 {
                let (mut mine, region, send) = (shared.clone(), &region, send.clone());
                scope.spawn(move || {
                    for round in 0..rounds {
                        mine.set_id(id);
                        let (clone, piece) = (mine.clone(), region.piece(round % 64, 1).unwrap());
                        assert_eq!((&clone[..], clone.id(), piece.len()), (&b"shared"[..], id, 1));
                        // Created here, dropped there.
                        send.send((clone, piece)).unwrap();
                    }
                });
            }
            drop(send);
            scope.spawn(move || receive.into_iter().for_each(drop));
        });
        // The other handles are gone, and their reads happen before this write.
        let mut buf: Buf = shared.thaw().unwrap();
        buf.fill(b'-');
        drop(buf);
        assert_eq!(p.pool.available(), before);
    }
}

/// Handles that a thread drops at its very end, after its spare headers are gone, return as usual.
#[test]
fn handles_in_thread_locals_that_are_dropped_last() {
    use std::cell::RefCell;

    const EACH: usize = if cfg!(miri) { 10 } else { 128 };
    type Kept = (Vec<proverbs::memory::OpenBuf>, Vec<SharedBuf>);
    thread_local! {
        static KEPT: RefCell<Kept> = const { RefCell::new((Vec::new(), Vec::new())) };
    }
    let p = Pair::<Rc>::new();
    let region = p.pd.register::<LocalWrite>(4096).unwrap();
    for turn in 0..if cfg!(miri) { 3 } else { 100 } {
        thread::scope(|scope| {
            scope.spawn(|| {
                // The thread-local that is used first is dropped last.
                KEPT.with_borrow_mut(|(pieces, _)| pieces.reserve(EACH));
                let record = filled(&p.pool, b"kept").freeze();
                let pieces = (0..EACH).map(|i| region.piece(8 * i % 4096, 8).unwrap());
                let shared = (0..EACH).map(|_| record.clone());
                KEPT.with_borrow_mut(|kept| {
                    kept.0.extend(pieces);
                    kept.1.extend(shared);
                });
            });
        });
        // A scope ends before its threads' destructors run; a join waits for them.
        while p.pool.available() != 40 {
            thread::yield_now();
        }
        let made = thread::spawn({
            let piece = region.piece(0, 8).unwrap();
            move || piece.clone().len()
        });
        assert_eq!(made.join().unwrap(), 8, "turn {turn}");
    }
    // The pieces are gone, too, so nothing keeps the region.
    let mut region = Some(region);
    while let Some(there) = region.take() {
        region = there.destroy().err().map(|refused| refused.into_object());
        thread::yield_now();
    }
}
