//! `mem::forget` of each type: the forgotten value leaks, and everything else continues to work.
//!
//! (Completions, iterators, lists, queue pairs and refused posts are in
//! `tests/conformance/forget.rs`.)

use std::mem::forget;

use proverbs::loopback::Fabric;
use proverbs::prelude::*;
use proverbs::qp::Max;

use crate::support::*;

profile! { OnSrq { receive: SharedRq } }
profile! { Ring { signaling: Selective } }
profile! { Any { entry: AnyBuf, max_send_sge: 3 } }

/// One message from `a` to `b`, which works whatever was forgotten.
#[track_caller]
fn goes_on(p: &mut Pair<Rc>) {
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"on"))).unwrap();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"on");
    poll(&p.dev, &mut p.ca, 1);
}

/// Proves R11.8.
#[test]
fn forgotten_parents() {
    let mut p = Pair::<Rc>::new();
    forget(p.dev.ctx.clone());
    forget(p.pd.clone());
    forget(p.pool.clone());
    goes_on(&mut p);
    assert!(p.dev.ctx.destroy().is_err());
    assert!(p.pd.destroy().is_err());
    assert!(p.pool.destroy().is_err());
}

#[test]
fn forgotten_memory() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    forget(p.pool.take());
    let shared = filled(&p.pool, b"shared").freeze();
    forget(shared.clone());
    drop(shared);
    forget(filled(&p.pool, b"shared").share(2));
    let mut shares = filled(&p.pool, b"shared").share(3);
    drop(shares.next());
    forget(shares);
    forget(BufList::from([poisoned(&p.pool), poisoned(&p.pool)]));
    let region = p.pd.register::<RemoteAll>(64).unwrap();
    forget(region.piece(0, 8).unwrap());
    let remote = region.remote();
    let region = region.destroy().unwrap_err();
    p.a.post_send(wr::RdmaWrite::inline(b"open", remote.write())).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    forget(region);
    goes_on(&mut p);
    assert_eq!(p.pool.available(), 34);
}

#[test]
fn forgotten_queues_and_channels() {
    let mut p = Pair::<Rc>::new();
    let channel = p.dev.ctx.create_comp_channel().unwrap();
    let on = p.dev.ctx.cq(20).channel(&channel).create::<Buf>().unwrap();
    forget(on);
    let channel = channel.destroy().unwrap_err().into_object();
    forget(channel);
    let pool = p.pd.create_pool(4, 64).unwrap();
    let mut srq = p.pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool).unwrap();
    srq.post_srq_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    let qp = p.pd.create_qp::<Rc, OnSrq>(&p.ca, &p.ca, Depth::on_srq(2, &srq)).unwrap();
    forget(srq);
    drop(qp);
    goes_on(&mut p);
    assert_eq!((poll_empty(&mut p.ca), pool.reclaim(&mut p.ca), pool.available()), (0, 0, 3));
    forget(p.cb);
    drop((p.a, p.b));
}

/// A forgotten completion queue can never be polled again. Buffers in flight there are lost with
/// it, instead of being returned while the device may use them.
#[test]
fn a_forgotten_completion_queue_with_receives_posted() {
    let mut p = Pair::<Rc>::new();
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    forget(p.cb);
    p.a.post_send(wr::Send::inline(b"into the void")).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    drop(p.b);
    drop((p.a, p.ca));
    assert_eq!(p.pool.available(), 37);
}

#[test]
fn forgotten_address_handles() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    forget(p.pd.create_ah(p.dev.vector()).unwrap());
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::inline(b"there").to(to)).unwrap();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).datagram().payload(), b"there");
    poll(&p.dev, &mut p.ca, 1);
    let stranger = p.pd.create_ah(p.dev.vector()).unwrap();
    let other = p.dev.ctx.alloc_pd().unwrap();
    let qp = other.create_qp::<Ud, DefaultProfile>(&p.ca, &p.ca, Depth { send: 1, recv: 1 });
    forget(qp.unwrap().add_address_handle(stranger).unwrap_err());
    assert!(p.pd.destroy().is_err());
}

#[test]
fn forgotten_refusals_and_results() {
    fails_on!(Iwarp, "R24.6");
    let p = Pair::<Rc>::new();
    let busy = p.pd.destroy().unwrap_err();
    forget(busy);
    let nowhere = AddressVector { port: 99, ..p.dev.vector() };
    let qp = p.a.reset().unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 99, access: QpAccess::all() };
    let refused = qp.modify(init).unwrap_err();
    forget(refused);
    let _ = nowhere;
    // The queue pair that was forgotten in its error still holds its completion queue.
    assert!(p.ca.destroy().is_err());
}

#[test]
fn forgotten_parts_of_a_post() {
    fails_on!(Iwarp, "R24.4");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(8, 64).unwrap();
    let mut cq = dev.ctx.create_cq(30).unwrap();
    let qp = pd.create_qp::<Rc, Any>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let mut qp = Rc::up(qp, &dev, 0xfffff0, &Wish::new());
    forget(qp.begin_send());
    forget(qp.begin_recv());
    forget(wr::Send::new(poisoned(&pool)));
    forget(wr::Recv::new(poisoned(&pool)));
    forget(wr::RdmaWrite::new(
        [poisoned(&pool)],
        RemoteSlice::<RemoteAll>::from_parts(8, 8, 1).write(),
    ));
    let mut slots = RecvSlots::<3>::new();
    let mut list = qp.recv_list(&mut slots);
    list.push(wr::Recv::new(poisoned(&pool))).unwrap();
    forget(list);
    forget(slots);
    assert_eq!((qp.sends_outstanding(), qp.recvs_outstanding(), pool.available()), (0, 0, 4));
    qp.post_send(wr::Send::new(poisoned(&pool))).unwrap();
    qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    let mut qp = qp.to_error().unwrap();
    let mut found = 0;
    qp.drain(&mut cq, |drained| {
        found += 1;
        forget(drained);
    })
    .unwrap();
    assert_eq!((found, pool.available()), (2, 2));
}

#[test]
fn a_forgotten_result_of_a_ring() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    for _ in 0..2 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    forget(p.a.post_send_unsignaled(wr::Send::new(filled(&p.pool, &[0]))).unwrap());
    p.a.post_send(wr::Send::new(filled(&p.pool, &[1]))).unwrap();
    until(&p.dev, "the completion", || {
        let Some(completion) = p.ca.poll_one().unwrap() else { return false };
        // Two entries are lost with it, and nothing else.
        forget(p.a.complete(completion));
        true
    });
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, &[2]))).unwrap();
    let (_, released) = complete(&p.dev, &mut p.ca, &mut p.a, 1).remove(0);
    assert_eq!(released.iter().map(|buf| buf[0]).collect::<Vec<_>>(), [2]);
    poll(&p.dev, &mut p.cb, 3);
    drop(released);
    assert_eq!(p.pool.available(), 38);
}

/// A region with an open window cannot be deregistered. Its memory stays, so a peer that writes
/// there overwrites nothing else.
/// Proves R6.11.
#[test]
fn a_region_that_is_dropped_while_its_window_is_open() {
    let fabric = Fabric::new();
    let mut p = Pair::<Rc>::on(Device::loopback(&fabric), &Wish::new());
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let window = fabric.open_window(region.remote()).unwrap();
    drop(region);
    p.a.post_send(wr::RdmaWrite::inline(&[1; 64], window.write())).unwrap();
    let mut status = None;
    until(&p.dev, "the write", || {
        status = p.ca.poll_one().unwrap().map(|sent| sent.status().is_ok());
        status.is_some()
    });
    assert_eq!(status, Some(true));
}

/// A future is suspended inside a post whose buffers the queue is about to get, and is never polled
/// again.
#[test]
fn a_post_that_is_suspended_forever() {
    use std::future::{Future, pending};
    use std::task::{Context, Waker};
    let mut p = Pair::<Rc>::new();
    let mut post = Box::pin(async {
        let first = wr::Send::new(poisoned(&p.pool));
        post_send!(p.a, [first, wr::Send::new(pending::<Buf>().await)]).map_err(drop)
    });
    assert!(post.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    forget(post);
    assert_eq!((p.a.sends_outstanding(), p.pool.available()), (0, 39));
    goes_on(&mut p);
    drop(p.a);
    for _ in 0..3 {
        poll_empty(&mut p.ca);
    }
    assert_eq!(p.pool.available(), 40, "returned with its queue");
}

/// An iterator panics while it fills a list. The list survives, and is dropped or posted; that ends
/// it once, and does not affect a forgotten list.
///
/// A list whose iterator panics ends once and loses no buffer of a forgotten list.
#[test]
fn a_list_beside_one_whose_iterator_panicked() {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    for is_posted in [false, true] {
        let mut p = Pair::<Rc>::new();
        let (mut sends, mut receives) = (SendSlots::<4>::new(), RecvSlots::<4>::new());
        let bad = || -> Option<Buf> { resume_unwind(Box::new("on purpose")) };
        let mut list = p.a.send_list(&mut sends);
        let panics = || drop(list.extend(std::iter::from_fn(bad).map(wr::Send::new)));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        if is_posted {
            list.post().unwrap()
        } else {
            drop(list)
        }
        let mut list = p.b.recv_list(&mut receives);
        let panics = || drop(list.extend(std::iter::from_fn(bad).map(wr::Recv::new)));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        if is_posted {
            list.post().unwrap()
        } else {
            drop(list)
        }

        let mut list = p.a.send_list(&mut sends);
        list.push(wr::Send::new(poisoned(&p.pool))).unwrap();
        forget(list);
        let mut list = p.b.recv_list(&mut receives);
        list.push(wr::Recv::new(poisoned(&p.pool))).unwrap();
        forget(list);
        drop((p.a, p.b));
        assert_eq!((poll_empty(&mut p.ca), poll_empty(&mut p.cb)), (0, 0));
        assert_eq!(p.pool.available(), 40, "returned with their queues");
    }
}

/// Requests that an iterator returned before it panicked were not checked, and may belong to
/// another domain. Their buffers return even with a reset.
#[test]
fn a_list_of_another_domains_buffers_before_a_reset() {
    fails_on!(Iwarp, "R24.6");
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let mut p = Pair::<Rc>::new();
    let elsewhere = p.dev.ctx.alloc_pd().unwrap().create_pool(3, 64).unwrap();
    let mut slots = RecvSlots::<4>::new();
    let mut list = p.b.recv_list(&mut slots);
    let wrs = (0..4).map(|_| wr::Recv::new(elsewhere.take().expect("three buffers")));
    assert!(catch_unwind(AssertUnwindSafe(|| list.extend(wrs))).is_err());
    forget(list);
    p.b.post_recv(wr::Recv::new(p.pool.take().unwrap())).unwrap();
    let all = p.b.reset().unwrap();
    for _ in 0..3 {
        poll_empty(&mut p.cb);
    }
    assert_eq!((p.pool.available(), elsewhere.available()), (40, 3));
    drop(all);
}
