//! Objects that the device refuses to destroy: their parents stay as long as they do.

use super::*;
use proverbs::ext::windows::Windowed;
use proverbs::loopback::{Capacity, Grants, World};
use proverbs::qp::Max;

profile! { AnyEntry { entry: AnyBuf } }
profile! { Served { receive: SharedRq } }

/// Queue pairs flush late, and UD ones are never destroyed.
fn stubborn() -> Script {
    Script::seeded(0)
        .with(Fault::FlushLate { runs: u32::MAX }.always())
        .with(Fault::Busy.always().on_transport::<Ud>())
}

/// If the device keeps a queue pair, the address handles that its sends name stay with it (R5.3).
/// (The loopback device checks what is destroyed.)
#[test]
fn a_kept_datagram_queue_pair_keeps_its_address_handles() {
    let (fabric, mut p) = pair::<Ud, DefaultProfile>(Script::default(), &Wish::new());
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    fabric.inject(stubborn());
    let mut a = p.a.to_error().unwrap();
    a.post_send(wr::Send::new(filled(&p.pool, b"named")).to(to)).unwrap();
    let a = a.destroy().unwrap_err().into_object();
    assert!(fabric.injected().busy > 0);
    drop(a);
    // The device owns the buffer, and keeps it.
    assert_eq!((poll_empty(&mut p.ca), p.pool.available()), (0, 39));
    p.pd.destroy().unwrap_err();
}

/// The same for one that was dropped, and is destroyed when its completion queue was polled empty.
#[test]
fn a_kept_deferred_queue_pair_keeps_its_parents() {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let (pool, feed) = (pd.create_pool(8, 64).unwrap(), pd.create_pool(4, 64).unwrap());
    let mut cq = dev.ctx.create_cq(60).unwrap();
    let mut srq = pd.create_srq::<Ud, Buf, Max<1>, ()>(&feed).unwrap();
    while let Some(buf) = feed.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    let made = pd.create_qp::<Ud, Served>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
    let mut qp = Ud::up(made, &dev, 0xfffff0, &Wish::new());
    let to = qp.way_to(&dev, &pd, 0xfffff0);
    fabric.inject(stubborn().with(Fault::ToError.nth(0)));
    qp.post_send(wr::Send::new(filled(&pool, b"named")).to(to)).unwrap();
    drop(qp);
    assert_eq!(fabric.injected().busy, 0, "it is deferred");
    for _ in 0..3 {
        assert_eq!(poll_empty(&mut cq), 0);
    }
    assert_eq!((fabric.injected().busy, pool.available(), feed.available()), (2, 7, 0));
    drop(cq);
    assert_eq!(pool.available(), 7);
    srq.destroy().unwrap_err();
}

/// A window that the device refuses to deallocate is returned, and its key still works.
#[test]
fn a_window_that_is_not_deallocated() {
    let (fabric, mut p) = pair::<Rc, AnyEntry>(Script::default(), &Wish::new());
    let region = p.pd.register::<Windowed<LocalWrite>>(64).unwrap();
    let bind =
        ext::windows::BindMw::<RemoteWrite>::new(p.a.alloc_mw().unwrap(), &region, 0..64).unwrap();
    p.a.post_send(bind).unwrap();
    let entry = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry;
    let Some(AnyBuf::Window(window)) = entry else { panic!("{entry:?}") };
    let window = window.into_bound::<RemoteWrite>().unwrap();
    fabric.inject(Script::seeded(0).with(Fault::Busy.nth(0)));
    let refused = window.destroy().unwrap_err();
    assert_eq!((refused.error.verb(), refused.error.errno()), ("ibv_dealloc_mw", Some(16)));
    let window = refused.into_object();
    p.b.post_send(wr::RdmaWrite::inline(b"windowed", window.remote().write())).unwrap();
    assert!(poll(&p.dev, &mut p.cb, 1).remove(0).sent().entry.is_none());
    let mut there = [0; 8];
    region.read_at(0, &mut there).unwrap();
    assert_eq!(&there, b"windowed");
    window.destroy().unwrap();
    region.destroy().unwrap();
}

/// A queue pair whose window the device keeps stays too (Soft-RoCE would free it under the window),
/// and a second attempt destroys both.
///
/// A queue pair outlives a memory window that the device keeps.
#[test]
fn a_queue_pair_stays_with_its_window() {
    for way in 0..4 {
        let (fabric, mut p) = pair::<Rc, AnyEntry>(Script::default(), &Wish::new());
        let region = p.pd.register::<Windowed<LocalWrite>>(64).unwrap();
        let bind =
            ext::windows::BindMw::<RemoteWrite>::new(p.a.alloc_mw().unwrap(), &region, 0..64);
        p.a.post_send(bind.unwrap()).unwrap();
        let mut entry = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry;
        fabric.inject(Script::seeded(0).with(Fault::Busy.nth(0)));
        match way {
            0 => drop(p.a),
            1 => p.a.destroy().unwrap_err().into_object().destroy().unwrap(),
            2 => p.a.reset().unwrap().destroy().unwrap(),
            _ => {
                entry = None;
                p.a.destroy().unwrap();
            }
        }
        assert_eq!(fabric.injected().busy, 1);
        drop(entry);
        region.destroy().unwrap();
        drop((p.ca, p.cb, p.b, p.pool));
        p.pd.destroy().unwrap();
        p.dev.ctx.destroy().unwrap();
    }
}

/// An XRC target that the device refuses to destroy is returned, and its completions continue.
#[test]
fn a_busy_target_is_returned() {
    let p = proverbs::loopback::xrc_pair().unwrap();
    let (fabric, target) = (p.fabric, p.target);
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    let refused = target.destroy().unwrap_err();
    assert_eq!((refused.error.verb(), refused.error.errno()), ("ibv_destroy_qp", Some(16)));
    let target = refused.into_object();
    assert_eq!(target.query().unwrap().state, Some(QpState::Rtr));
    target.destroy().unwrap();
}

/// The device destroys a dropped queue pair on the second attempt. Its orphaned buffers and its
/// room return.
///
/// A queue pair that the device destroys on the second try returns its buffers and its
/// room.
#[test]
fn a_queue_pair_that_is_destroyed_on_the_second_attempt() {
    let (fabric, p) = pair::<Rc, DefaultProfile>(Script::default(), &Wish::new());
    let Pair { a, mut b, ca, mut cb, pool, pd, dev } = p;
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    fabric.inject(Script::default().with(Fault::Busy.nth(0).on_qp(b.qp_num())));
    drop((a, b));
    assert_eq!(fabric.injected().busy, 1);
    assert_eq!(poll_empty(&mut cb), 0);
    assert_eq!((pool.available(), cb.unbooked()), (40, cb.capacity()));
    ca.destroy().unwrap();
    cb.destroy().unwrap();
    pool.destroy().unwrap();
    pd.destroy().unwrap();
    dev.ctx.destroy().unwrap();
}

/// The same for a shared receive queue.
#[test]
fn a_shared_receive_queue_that_is_destroyed_on_the_second_attempt() {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let feed = pd.create_pool(4, 64).unwrap();
    let mut cq = dev.ctx.create_cq(60).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&feed).unwrap();
    while let Some(buf) = feed.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    pd.create_qp::<Rc, Served>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap().destroy().unwrap();
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    drop(srq);
    assert_eq!(fabric.injected().busy, 1);
    assert_eq!(poll_empty(&mut cq), 0);
    assert_eq!((feed.available(), cq.unbooked()), (4, cq.capacity()));
    cq.destroy().unwrap();
    feed.destroy().unwrap();
    pd.destroy().unwrap();
    dev.ctx.destroy().unwrap();
}

/// The same for a queue pair that was dropped, and is destroyed when its completion queue was
/// polled empty.
#[test]
fn a_deferred_queue_pair_that_is_destroyed_on_the_second_attempt() {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let feed = pd.create_pool(4, 64).unwrap();
    let mut cq = dev.ctx.create_cq(60).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&feed).unwrap();
    srq.post_srq_recv(wr::Recv::new(feed.take().unwrap())).unwrap();
    let made = pd.create_qp::<Rc, Served>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
    let qp = Rc::up(made, &dev, 0xfffff0, &Wish::new());
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    drop(qp);
    assert_eq!(fabric.injected().busy, 0, "it is deferred");
    for _ in 0..3 {
        assert_eq!(poll_empty(&mut cq), 0);
    }
    assert_eq!((fabric.injected().busy, cq.capacity() - cq.unbooked()), (1, 4));
    srq.destroy().unwrap();
    cq.destroy().unwrap();
    feed.destroy().unwrap();
    pd.destroy().unwrap();
    dev.ctx.destroy().unwrap();
}

/// A shared receive queue that the device keeps may still fill its buffers, which later queues must
/// not touch.
///
/// A dropped shared receive queue that the device keeps holds its bookkeeping and
/// buffers.
#[test]
fn a_kept_shared_receive_queue_keeps_its_buffers() {
    let p = proverbs::loopback::xrc_pair().unwrap();
    let feed = p.pd.create_pool(4, 64).unwrap();
    let cq = p.context.create_cq(4).unwrap();
    let mut srq: SharedReceiveQueue<Xrc> = p.domain.create_srq(&p.pd, &feed, &cq).unwrap();
    while let Some(buf) = feed.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    p.fabric.inject(Script::default().with(Fault::Busy.always()));
    drop((srq, cq));
    assert!(p.fabric.injected().busy > 0);
    p.fabric.inject(Script::default());
    let mut cq = p.context.create_cq(60).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    let made = || p.pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let qps = [(); 8].map(|()| made());
    for qp in qps {
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        let mut qp = qp.modify(init).unwrap();
        qp.post_recv(wr::Recv::new(p.pool.take().unwrap())).unwrap();
        qp.post_recv(wr::Recv::empty()).unwrap();
        drop(qp);
    }
    assert_eq!(poll_empty(&mut cq), 0);
    assert_eq!((p.pool.available(), feed.available()), (16, 0));
}

/// A returned queue pair has lost the windows that it freed, and rejects them.
///
/// A queue pair whose destruction failed cannot post windows that it has freed.
/// Proves R19.4.
#[test]
fn a_freed_window_of_a_returned_queue_pair() {
    // The device keeps the queue pair, or another of its windows.
    for is_window in [false, true] {
        let (fabric, mut p) = pair::<Rc, AnyEntry>(Script::default(), &Wish::new());
        let region = p.pd.register::<Windowed<LocalWrite>>(64).unwrap();
        let (bound, fresh) = (p.a.alloc_mw().unwrap(), p.a.alloc_mw().unwrap());
        let bind =
            |window| ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
        p.a.post_send(bind(bound)).unwrap();
        let entry = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry;
        let Some(AnyBuf::Window(window)) = entry else { panic!("{entry:?}") };
        let bound = window.into_bound::<RemoteWrite>().unwrap();
        let _kept = p.a.alloc_mw().unwrap();
        let busy = match is_window {
            true => Fault::Busy.nth(2),
            false => Fault::Busy.nth(0).on_qp(p.a.qp_num()),
        };
        fabric.inject(Script::seeded(0).with(busy));
        let mut a = p.a.destroy().unwrap_err().into_object();
        assert_eq!(fabric.injected().busy, 1);
        fabric.inject(Script::default());
        let refused = a.post_send(bind(fresh)).unwrap_err();
        assert_eq!(refused.kind(), PostErrorKind::ForeignWindow);
        let refused = a.post_send(ext::windows::LocalInv::new(bound)).unwrap_err();
        assert_eq!(refused.kind(), PostErrorKind::ForeignWindow);
        let another = a.alloc_mw().unwrap();
        a.post_send(bind(another)).unwrap();
        a.destroy().unwrap();
    }
}

/// A queue pair that was granted less than it requested is destroyed on a second attempt, so that
/// its shared receive queue can be destroyed.
///
/// A queue pair with too small a grant is destroyed on a later try, so its shared
/// receive queue is free.
#[test]
fn a_queue_pair_with_a_wrong_grant_is_destroyed() {
    let world = World::ipv4().personality(Device::personality());
    let fabric = Fabric::with(world.grants(Grants::LessOf(Capacity::Inline)));
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let feed = pd.create_pool(4, 64).unwrap();
    let cq = dev.ctx.create_cq::<Buf>(60).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&feed).unwrap();
    while let Some(buf) = feed.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    pd.create_qp::<Rc, Served>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap_err();
    assert_eq!(fabric.injected().busy, 1);
    drop((srq, cq));
    assert_eq!(feed.available(), 4);
    drop(feed);
    pd.destroy().unwrap();
    dev.ctx.destroy().unwrap();
}
