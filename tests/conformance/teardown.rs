//! Objects may be dropped in any order: parents live as long as their children.

use proverbs::prelude::*;

use crate::support::*;

/// Proves R11.8, R12.1.
#[test]
fn parents_may_be_dropped_first() {
    let Pair { mut a, mut b, mut ca, mut cb, pool, pd, dev } = Pair::<Rc>::new();
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    let buf = filled(&pool, b"still works");
    let keep = dev.clone();
    drop((pd, pool, dev));
    a.post_send(wr::Send::new(buf)).unwrap();
    let sent = poll(&keep, &mut ca, 1).remove(0).sent().entry.unwrap();
    let got = poll(&keep, &mut cb, 1).remove(0).received();
    drop(keep);
    drop((ca, cb));
    assert_eq!(got.data(), b"still works");
    drop((a, b));
    assert_eq!(&sent[..], b"still works");
}

/// Proves R10.15, R11.9.
#[test]
fn teardown_with_work_outstanding() {
    fails_on!(NoRings);
    profile! { Ring { signaling: Selective, initiator: NoReads } }
    for order in 0..4 {
        let Pair { mut a, mut b, ca, cb, pool, pd, dev } = Pair::<Rc, Ring>::new();
        for i in 0..3 {
            a.post_send(wr::Send::new(filled(&pool, &[i]))).unwrap();
            a.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        }
        b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        match order {
            0 => drop((a, b, ca, cb, pool, pd, dev)),
            1 => drop((dev, pd, pool, cb, ca, b, a)),
            2 => drop((ca, a, pool, b, cb, dev, pd)),
            _ => drop((pool, cb, b, pd, a, dev, ca)),
        }
    }
}

/// Proves R17.1, R17.3.
#[test]
fn a_queue_pair_moves_to_another_thread() {
    let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc>::new();
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    let sender = {
        let (dev, pool) = (dev.clone(), pool.clone());
        std::thread::spawn(move || {
            a.post_send(wr::Send::new(filled(&pool, b"from there"))).unwrap();
            poll(&dev, &mut ca, 1).remove(0).sent().entry.unwrap()
        })
    };
    // The buffer also comes from the other thread. It is joined first: polls of this thread would
    // not measure that one.
    assert_eq!(&sender.join().unwrap()[..], b"from there");
    let got = poll(&dev, &mut cb, 1).remove(0).received();
    assert_eq!(got.data(), b"from there");
}

/// The error of `destroy` for an object that others need.
fn busy<T, M>(refused: Result<M, Refused<T>>, verb: &str, why: &str) -> T {
    let Err(refused) = refused else { panic!("others need it") };
    let text = format!("{verb}: EBUSY: Device or resource busy ({why})");
    assert_eq!(said(&refused), text);
    refused.into_object()
}

/// Proves R12.1, R12.2, R12.3, R12.4.
#[test]
fn destroy_refuses_objects_in_use_and_returns_them() {
    fails_on!(KeptRegions);
    let Pair { a, b, ca, cb, pool, pd, dev } = Pair::<Rc>::new();
    drop((b, cb));
    let ca = busy(
        ca.destroy(),
        "ibv_destroy_cq",
        "queue pairs, or shared receive queues of XRC, complete into it: destroy them first",
    );
    let pd = busy(pd.destroy(), "ibv_dealloc_pd", "objects of it exist: drop them first");
    let ctx = dev.ctx.clone();
    drop(dev);
    let ctx = busy(ctx.destroy(), "ibv_close_device", "objects of it exist: drop them first");
    let channel = ctx.create_comp_channel().unwrap();
    let on = ctx.cq(1).channel(&channel).create::<Buf>().unwrap();
    let what = "completion queues on it exist: drop them first";
    let channel = busy(channel.destroy(), "ibv_destroy_comp_channel", what);
    on.destroy().unwrap();
    channel.destroy().unwrap();
    // In the documented order, everything can be destroyed.
    a.destroy().unwrap();
    ca.destroy().unwrap();
    let region = pd.register::<RemoteRead>(8).unwrap();
    region.destroy().unwrap();
    drop(pool);
    pd.destroy().unwrap();
    let_ids_go();
    ctx.destroy().unwrap();
}

/// Proves R6.9, R6.10, R7.10.
#[test]
fn a_buffer_keeps_its_region_registered() {
    let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc>::new();
    let (sink, source) = (poisoned(&pool), filled(&pool, b"late"));
    drop(pool);
    b.post_recv(wr::Recv::new(sink)).unwrap();
    a.post_send(wr::Send::new(source)).unwrap();
    poll(&dev, &mut ca, 1);
    holds(poll(&dev, &mut cb, 1).remove(0).received().entry.unwrap(), b"late");
}

#[test]
fn a_context_that_panics_while_its_queue_pair_is_destroyed_does_no_harm() {
    fails_on!(NoRings);
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }
    }
    profile! { WithLoud { signaling: Selective, initiator: NoReads, entry: Buf<Option<Box<Loud>>> } }
    let Pair { mut a, b, mut ca, pd, .. } = Pair::<Rc, WithLoud>::new();
    drop(b);
    let pools = [(); 2].map(|()| pd.pool(8).contexts(|_| None::<Box<Loud>>).create(1).unwrap());
    let [loud, quiet] = pools;
    let mut buf = loud.take().unwrap();
    *buf.context_mut() = Some(Box::new(Loud));
    post_send!(a, [wr::Send::new(buf), wr::Send::new(quiet.take().unwrap())]).unwrap();
    // The contexts are then dropped with the last buffer.
    drop(loud);
    let destroyed = std::panic::AssertUnwindSafe(|| a.destroy().map_err(drop));
    assert!(std::panic::catch_unwind(destroyed).is_err());
    assert_eq!(quiet.available(), 1);
    poll_empty(&mut ca);
    assert_eq!(ca.unbooked(), ca.capacity());
}

#[test]
fn a_pool_is_destroyed_when_its_buffers_are_back() {
    let dev = Device::open();
    let pool = dev.ctx.alloc_pd().unwrap().create_pool(2, 64).unwrap();
    let buf = pool.take().unwrap();
    let why = "buffers of the pool are in use";
    let pool = busy(pool.destroy(), "ibv_dereg_mr", why);
    drop(buf);
    pool.destroy().unwrap();
}
