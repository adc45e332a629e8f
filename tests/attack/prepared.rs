//! Prepared work requests that are dropped, changed or moved while their posts are outstanding.

use std::sync::mpsc;

use proverbs::completion::{Direction, WcStatus};
use proverbs::prelude::*;

use crate::support::*;

/// The device still waits for a receive when the work request is dropped, refilled, or gets other
/// inline bytes.
#[test]
fn a_post_does_not_depend_on_its_work_request() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let mut beat = wr::Send::inline(b"first").prepare();
    let mut send = wr::SendWithImm::new(wr::Placeholder, 1).prepare();
    p.a.post_prepared_inline(&mut beat).unwrap();
    *beat.bytes_mut() = *b"other";
    p.a.post_prepared(&mut send, filled(&p.pool, b"second")).unwrap();
    send.refill(wr::SendWithImm::new(wr::Placeholder, 9));
    let fresh = wr::SendWithImm::new(wr::Placeholder, 7).prepare();
    drop((std::mem::replace(&mut send, fresh), beat));
    p.a.post_prepared(&mut send, filled(&p.pool, b"third")).unwrap();
    drop(send);
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let got = poll(&p.dev, &mut p.cb, 3).into_iter().map(Done::received);
    let got: Vec<_> = got.map(|got| (got.imm_data, got.data().to_vec())).collect();
    let said = [(None, &b"first"[..]), (Some(1), b"second"), (Some(7), b"third")];
    assert_eq!(got, said.map(|(imm, data)| (imm, data.to_vec())));
    poll(&p.dev, &mut p.ca, 3);
}

/// The queue pair fails and is dropped, and its successor is posted to from the same work request.
#[test]
fn a_prepared_request_outlives_its_queue_pairs() {
    fails_on!(IwarpOtherwise, "R24.7");
    let mut send = wr::Send::new(wr::Placeholder).prepare();
    for _ in 0..3 {
        let Pair { a, mut ca, pool, dev, pd, .. } = Pair::<Rc>::new();
        let free = pool.available();
        let mut a = a.to_error().unwrap();
        a.post_prepared(&mut send, filled(&pool, b"flushed")).unwrap();
        let flushed = poll(&dev, &mut ca, 1).remove(0).flushed(Direction::Send);
        holds(flushed.unwrap(), b"flushed");
        a.post_prepared(&mut send, filled(&pool, b"orphaned")).unwrap();
        // At the next post, neither the queue pair nor its buffers exist any more.
        drop(a);
        drop(ca);
        assert_eq!(pool.available(), free);
        drop(pool);
        pd.destroy().unwrap();
    }
    let mut p = Pair::<Rc>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_prepared(&mut send, filled(&p.pool, b"alive")).unwrap();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"alive");
    poll(&p.dev, &mut p.ca, 1);
}

/// One work request moves from thread to thread, each with its own queue pair. The element of the
/// previous post is gone or belongs to another thread.
#[test]
fn a_prepared_request_moves_between_threads() {
    const THREADS: usize = 3;
    let (to, from): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel()).unzip();
    to[0].send((wr::Send::new(wr::Placeholder).prepare(), 0u8)).unwrap();
    std::thread::scope(|scope| {
        for (at, mine) in from.into_iter().enumerate() {
            let next = to[(at + 1) % THREADS].clone();
            scope.spawn(move || {
                // Each thread has had it when it arrives again.
                for _ in 0..if cfg!(miri) { 2 } else { 3 } {
                    let mut p = Pair::<Rc>::new();
                    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
                    let (mut send, round) = mine.recv().unwrap();
                    p.a.post_prepared(&mut send, filled(&p.pool, &[round; 9])).unwrap();
                    // The last thread has no receiver for it.
                    let _ = next.send((send, round + 1));
                    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
                    assert_eq!(got.data(), [round; 9]);
                    poll(&p.dev, &mut p.ca, 1);
                }
            });
        }
    });
}

/// An address handle is removed while its datagram may be outstanding, and the next post is
/// rejected.
#[test]
fn its_address_handle_is_removed_first() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let way = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let mut send = wr::Send::new(wr::Placeholder).to(way).prepare();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_prepared(&mut send, filled(&p.pool, b"in time")).unwrap();
    assert!(p.a.remove_address_handle(way.address_handle));
    let error = p.a.post_prepared(&mut send, filled(&p.pool, b"too late")).unwrap_err();
    holds(error.into_rejected().next().unwrap(), b"too late");
    holds(poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap(), b"in time");
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).datagram().payload(), b"in time");
    let mut a = p.a.to_error().unwrap();
    let error = a.post_prepared(&mut send, filled(&p.pool, b"no way")).unwrap_err();
    holds(error.into_rejected().next().unwrap(), b"no way");
}

/// The peer refuses the first of two, so the second is flushed: both buffers come back.
#[test]
fn a_refused_post_flushes_the_next() {
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let there = region.remote().write();
    region.destroy().unwrap();
    let mut write = wr::RdmaWrite::new(wr::Placeholder, there).prepare();
    p.a.post_prepared(&mut write, filled(&p.pool, b"refused")).unwrap();
    p.a.post_prepared(&mut write, filled(&p.pool, b"its twin")).unwrap();
    drop(write);
    let mut done = poll(&p.dev, &mut p.ca, 2).into_iter();
    let failed = done.next().unwrap().failed(Direction::Send, WcStatus::RemAccess);
    holds(failed.entry.unwrap(), b"refused");
    holds(done.next().unwrap().flushed(Direction::Send).unwrap(), b"its twin");
}
