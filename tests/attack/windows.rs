//! Memory windows of type 2: a key for part of a region, which a message can invalidate.

use proverbs::completion::{Direction, WcStatus};
use proverbs::ext::windows::{BoundWindow, LentWindow, Revocable, WindowEntry, Windowed};
use proverbs::loopback::{Fabric, Personality};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::Max;

use crate::support::*;

const PERSONALITIES: [Personality; 4] =
    [Personality::Plain, Personality::Rxe, Personality::Mlx5, Personality::Worst { seed: 7 }];

/// A pair on a fabric with windows, and a region of its second end.
fn open(personality: Personality) -> (Fabric, Pair<Rc>, MemoryRegion<RemoteWrite>) {
    let fabric = Fabric::with(personality);
    let p = Pair::<Rc>::on(Device::loopback(&fabric), &Wish::new());
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    (fabric, p, region)
}

/// The result of the next send completion.
fn sent(p: &mut Pair<Rc>) -> Result<(), WcStatus> {
    let mut status = None;
    until(&p.dev, "the send's completion", || {
        let completion = p.ca.poll_one().unwrap();
        status = completion.map(|sent| sent.status().map_err(|error| error.status));
        status.is_some()
    });
    status.unwrap()
}

/// A peer's slice is only numbers: lengthening it gives no access beyond the window (R6.11).
/// Proves R19.7.
#[test]
fn a_window_gives_access_only_to_its_range() {
    for personality in PERSONALITIES {
        let (fabric, mut p, region) = open(personality);
        let at = region.remote();
        let window = fabric.open_window(at.slice(8, 16).unwrap()).unwrap();
        p.a.post_send(wr::RdmaWrite::inline(&[1; 16], window.write())).unwrap();
        assert_eq!(sent(&mut p), Ok(()), "{personality}");

        let whole = RemoteSlice::<RemoteWrite>::from_bytes(&{
            let mut bytes = at.to_bytes();
            bytes[16..20].copy_from_slice(&window.rkey().to_be_bytes());
            bytes
        });
        let beyond = whole.unwrap().slice(16, 16).unwrap();
        p.a.post_send(wr::RdmaWrite::inline(&[2; 16], beyond.write())).unwrap();
        assert_eq!(sent(&mut p), Err(WcStatus::RemAccess), "{personality}");
        let mut bytes = [0; 64];
        region.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[..8], [0; 8]);
        assert_eq!(bytes[8..24], [1; 16]);
        assert_eq!(bytes[24..], [0; 40]);
        assert!(fabric.close_window(window));
    }
}

/// After the message that invalidates its key the window gives no access, and the completion has
/// the key (R1.6).
/// Proves R19.1.
#[test]
fn an_invalidated_key_gives_no_access() {
    for personality in PERSONALITIES {
        let (fabric, mut p, region) = open(personality);
        let window = fabric.open_window(region.remote()).unwrap();
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(ext::windows::SendWithInv::new(wr::Empty, Revocable::new(window))).unwrap();
        assert_eq!(sent(&mut p), Ok(()), "{personality}");
        let mut ended = None;
        until(&p.dev, "the message", || {
            let completion = p.cb.poll_one().unwrap();
            ended =
                completion.map(|it| (it.direction(), it.status().is_ok(), it.invalidated_rkey()));
            ended.is_some()
        });
        let told = window.rkey();
        assert_eq!(ended, Some((Direction::Receive, true, Some(told))), "{personality}");

        p.a.post_send(wr::RdmaWrite::inline(&[1; 8], window.write())).unwrap();
        assert_eq!(sent(&mut p), Err(WcStatus::RemAccess), "{personality}");
        let mut bytes = [1; 64];
        region.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 64]);
        assert!(!fabric.close_window(window));
        assert_eq!(p.pool.available(), p.pool.count());
    }
}

profile! { Any { entry: AnyBuf } }

type Open = MemoryRegion<Windowed<LocalWrite>>;

/// The window of the next completion of a queue.
fn entry(dev: &Device, cq: &mut CompletionQueue<AnyBuf>) -> WindowEntry {
    let mut window = None;
    until(dev, "a window's completion", || {
        let completion = cq.poll_one().unwrap();
        window = completion.and_then(Completion::into_entry);
        window.is_some()
    });
    match window {
        Some(AnyBuf::Window(window)) => window,
        other => panic!("{other:?}"),
    }
}

/// A window of the first end that is bound to a whole region.
fn bound(p: &mut Pair<Rc, Any>, region: &Open) -> BoundWindow<RemoteWrite> {
    let window = p.a.alloc_mw().unwrap();
    p.a.post_send(ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap())
        .unwrap();
    entry(&p.dev, &mut p.ca).into_bound().unwrap()
}

fn writes(p: &mut Pair<Rc, Any>, to: RemoteSpan) -> Result<(), WcStatus> {
    p.b.post_send(wr::RdmaWrite::inline(&[7; 64], to)).unwrap();
    let mut status = None;
    until(&p.dev, "the peer's completion", || {
        status = p.cb.poll_one().unwrap().map(|c| c.status().map_err(|error| error.status));
        status.is_some()
    });
    status.unwrap()
}

/// The region's value is dropped while its window is bound. The peer's writes go to memory that
/// still belongs to the region.
/// Proves R6.11.
#[test]
fn a_region_that_is_dropped_while_its_window_is_bound() {
    fails_on!(IwarpOtherwise, "R24.12");
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let window = bound(&mut p, &region);
    let to = window.remote().write();
    drop(region);
    assert_eq!(writes(&mut p, to), Ok(()));
    drop(window); // and the memory with it
    assert_eq!(writes(&mut p, to), Err(WcStatus::RemAccess));
}

/// Two queue pairs are swapped behind references, and so are their windows: no window is bound
/// through the other queue pair.
///
/// A memory window is posted only to the queue pair that allocated it.
/// Proves R19.4.
#[test]
fn windows_of_swapped_queue_pairs() {
    fails_on!(Iwarp, "R24.5");
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let (one, two) = (p.a.alloc_mw().unwrap(), p.b.alloc_mw().unwrap());
    std::mem::swap(&mut p.a, &mut p.b);
    let bind = ext::windows::BindMw::<RemoteWrite>::new(one, &region, 0..64).unwrap();
    let error = p.a.post_send(bind).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ForeignWindow);
    drop(error);
    let bind = ext::windows::BindMw::<RemoteWrite>::new(two, &region, 0..64).unwrap();
    p.a.post_send(bind).unwrap();
    let two = entry(&p.dev, &mut p.cb).into_bound::<RemoteWrite>().unwrap();
    // Its queue pair is dropped, and another is created, perhaps at the same addresses.
    drop(p.a);
    let wish = Wish::new();
    let again = p.pd.create_qp::<Rc, Any>(&p.cb, &p.cb, wish.depth).unwrap();
    let peer = p.b.qp_num();
    let mut again = Rc::up(again, &p.dev, peer, &wish);
    let error = again.post_send(ext::windows::LocalInv::new(two)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ForeignWindow);
    drop(error);
    region.destroy().unwrap();
}

/// A completion of another message, or of another queue pair, does not revoke a window.
/// Proves R19.6.
#[test]
fn a_completion_of_others_revokes_nothing() {
    fails_on!(IwarpOtherwise, "R24.15");
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let window = p.a.alloc_mw().unwrap();
    let (bind, lent) =
        ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap().lend();
    p.a.post_send(bind).unwrap();
    let mut window = Some(entry(&p.dev, &mut p.ca).into_lent().unwrap());
    p.b.post_recv(wr::Recv::empty()).unwrap();
    // An immediate with the key's number, in either byte order.
    for imm in [lent.rkey(), lent.rkey().swap_bytes()] {
        p.a.post_recv(wr::Recv::empty()).unwrap();
        p.b.post_send(wr::SendWithImm::new(wr::Empty, imm)).unwrap();
        until(&p.dev, "the message", || match p.ca.poll_one().unwrap() {
            Some(completion) => {
                let refused = window.take().and_then(|window| window.revoked(completion).err());
                window = refused.map(|(window, _)| window);
                true
            }
            None => false,
        });
        assert!(window.is_some());
        until(&p.dev, "the SEND", || p.cb.poll_one().unwrap().is_some());
    }
    let to = lent.write();
    assert_eq!(writes(&mut p, to), Ok(()));
    drop(window);
    assert_eq!(writes(&mut p, to), Err(WcStatus::RemAccess));
    region.destroy().unwrap();
}

/// A pair whose receives complete on a separate queue, so that a receive completion can be held
/// while binds complete.
struct Apart {
    dev: Device,
    pd: ProtectionDomain,
    a: QueuePair<Rc, Rts, Any>,
    b: QueuePair<Rc, Rts, Any>,
    sends: CompletionQueue<AnyBuf>,
    peers: CompletionQueue<AnyBuf>,
}

impl Apart {
    /// The pair, and the completion queue of the first end's receives.
    fn new(personality: Personality) -> (Apart, CompletionQueue<AnyBuf>) {
        let dev = Device::loopback(&Fabric::with(personality));
        let pd = dev.ctx.alloc_pd().unwrap();
        let [sends, receives, peers] = [(); 3].map(|()| dev.ctx.create_cq::<AnyBuf>(60).unwrap());
        let wish = Wish::new();
        let a = pd.create_qp::<Rc, Any>(&sends, &receives, wish.depth).unwrap();
        let b = pd.create_qp::<Rc, Any>(&peers, &peers, wish.depth).unwrap();
        let (na, nb) = (a.qp_num(), b.qp_num());
        let (a, b) = (Rc::up(a, &dev, nb, &wish), Rc::up(b, &dev, na, &wish));
        (Apart { dev, pd, a, b, sends, peers }, receives)
    }

    /// A new window, lent.
    fn lent(&mut self, region: &Open) -> (LentWindow, Revocable<RemoteWrite>) {
        let window = self.a.alloc_mw().unwrap();
        let (bind, key) =
            ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap().lend();
        self.a.post_send(bind).unwrap();
        (entry(&self.dev, &mut self.sends).into_lent().unwrap(), key)
    }

    /// The peer invalidates the key. The completion for that is not polled here.
    fn end(&mut self, key: Revocable<RemoteWrite>) {
        self.a.post_recv(wr::Recv::empty()).unwrap();
        self.b.post_send(ext::windows::SendWithInv::new(wr::Empty, key)).unwrap();
        until(&self.dev, "the SEND", || self.peers.poll_one().unwrap().is_some());
    }

    /// The result of a WRITE by the peer.
    fn writes(&mut self, to: RemoteSpan) -> Result<(), WcStatus> {
        self.b.post_send(wr::RdmaWrite::inline(&[7; 64], to)).unwrap();
        let mut status = None;
        until(&self.dev, "the WRITE", || {
            let completion = self.peers.poll_one().unwrap();
            status = completion.map(|c| c.status().map_err(|error| error.status));
            status.is_some()
        });
        status.unwrap()
    }
}

/// The completion at the head of the queue.
fn there(cq: &mut CompletionQueue<AnyBuf>) -> Completion<'_, AnyBuf> {
    cq.poll_one().unwrap().expect("the message has arrived")
}

/// A message invalidates the key of a window, and its completion is not used: the window is
/// dropped. The device gives the window's number to the next one, as mlx5 does. Whenever the old
/// completion is polled, it does not prove that the peer returned the second window.
#[test]
fn an_old_completion_revokes_no_window_with_the_same_key() {
    for (personality, is_polled_before) in
        PERSONALITIES.iter().flat_map(|p| [(*p, false), (*p, true)])
    {
        let (mut p, mut receives) = Apart::new(personality);
        let region: Open = p.pd.register(64).unwrap();
        let (window, key) = p.lent(&region);
        let first = window.rkey();
        p.end(key);
        let mut old = None;
        let mut receives = Some(&mut receives);
        if is_polled_before {
            old = receives.take().map(there);
        }
        window.destroy().unwrap();
        let (window, key) = p.lent(&region);
        let old = old.or_else(|| receives.take().map(there)).unwrap();
        assert_eq!(old.invalidated_rkey(), Some(first), "{personality}");
        let (window, old) = window.revoked(old).unwrap_err();
        assert_eq!(p.writes(key.write()), Ok(()), "{personality}");
        drop((window, old));
    }
}

/// The same for a window that was not lent: the peer invalidated its key anyway.
#[test]
fn an_old_completion_of_a_window_that_was_not_lent() {
    for personality in PERSONALITIES {
        let (mut p, mut receives) = Apart::new(personality);
        let region: Open = p.pd.register(64).unwrap();
        let window = p.a.alloc_mw().unwrap();
        let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
        p.a.post_send(bind).unwrap();
        let bound = entry(&p.dev, &mut p.sends).into_bound::<RemoteWrite>().unwrap();
        p.end(Revocable::new(bound.remote()));
        drop(bound);
        let (window, key) = p.lent(&region);
        let (window, old) = window.revoked(there(&mut receives)).unwrap_err();
        assert_eq!(p.writes(key.write()), Ok(()), "{personality}");
        drop((window, old));
    }
}

/// 255 windows with the same number are dropped while they are lent. Each key may be in a
/// completion that was not polled, so the next window with that number cannot be revoked, only
/// dropped.
#[test]
#[cfg_attr(miri, ignore = "hundreds of windows")]
fn a_window_without_a_fresh_key_can_only_be_dropped() {
    let (mut p, mut receives) = Apart::new(Personality::Mlx5);
    let region: Open = p.pd.register(64).unwrap();
    let numbers = |window: &LentWindow| (window.rkey() >> 8, window.rkey() & 0xff);
    let (first, _) = p.lent(&region);
    let (number, _) = numbers(&first);
    drop(first);
    for life in 2..256 {
        let (window, _) = p.lent(&region);
        assert_eq!(numbers(&window), (number, life));
    }
    let (window, key) = p.lent(&region);
    assert_eq!(numbers(&window).0, number);
    let to = key.write();
    p.end(key);
    let (window, message) = window.revoked(there(&mut receives)).unwrap_err();
    assert_eq!(message.invalidated_rkey(), Some(window.rkey()));
    drop(message);
    assert_eq!(p.writes(to), Err(WcStatus::RemAccess));
    let region = region.destroy().unwrap_err().into_object();
    window.destroy().unwrap();
    region.destroy().unwrap();
}

/// Queue pairs of two devices may have the same number, and their windows the same key.
///
/// A completion of another device's queue pair with the same number returns no window.
#[test]
fn a_completion_of_another_device_revokes_nothing() {
    let lent = |p: &mut Pair<Rc, Any>, region: &Open| {
        let window = p.a.alloc_mw().unwrap();
        let (bind, lent) =
            ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap().lend();
        p.a.post_send(bind).unwrap();
        (entry(&p.dev, &mut p.ca).into_lent().unwrap(), lent)
    };
    let pair = || Pair::<Rc, Any>::on(Device::loopback(&Fabric::new()), &Wish::new());
    let (mut one, mut two) = (pair(), pair());
    let [here, there]: [Open; 2] = [&one, &two].map(|p| p.pd.register(64).unwrap());
    let (window, still) = lent(&mut one, &here);
    let (ended, back) = lent(&mut two, &there);
    assert_eq!((one.a.qp_num(), still.rkey()), (two.a.qp_num(), back.rkey()));
    two.a.post_recv(wr::Recv::empty()).unwrap();
    two.b.post_send(ext::windows::SendWithInv::new(wr::Empty, back)).unwrap();
    let mut windows = Some((window, ended));
    until(&two.dev, "the message", || {
        let Some(completion) = two.ca.poll_one().unwrap() else { return false };
        let (window, ended) = windows.take().unwrap();
        let (window, completion) = window.revoked(completion).unwrap_err();
        windows = Some((window, ended));
        assert!(completion.invalidated_rkey().is_some());
        true
    });
    assert_eq!(writes(&mut one, still.write()), Ok(()));
    drop(windows);
}

/// A message to a queue pair with a shared receive queue invalidates a key of this queue pair, and
/// of no other that shares its receives.
#[test]
fn a_message_to_a_shared_receive_queue_invalidates_a_key() {
    profile! { AnyOnSrq { entry: AnyBuf, receive: SharedRq } }
    let p = Pair::<Rc, Any>::on(Device::loopback(&Fabric::new()), &Wish::new());
    let (dev, pd, mut cq) = (&p.dev, &p.pd, p.dev.ctx.create_cq::<AnyBuf>(100).unwrap());
    let mut srq = pd.create_srq::<Rc, AnyBuf, Max<1>, ()>(&p.pool).unwrap();
    let wish = Wish::new();
    let pair = || {
        let own = pd.create_qp::<Rc, AnyOnSrq>(&cq, &cq, Depth::on_srq(8, &srq)).unwrap();
        let peer = pd.create_qp::<Rc, Any>(&cq, &cq, wish.depth).unwrap();
        let numbers = (own.qp_num(), peer.qp_num());
        (Rc::up(own, dev, numbers.1, &wish), Rc::up(peer, dev, numbers.0, &wish))
    };
    let [(mut own, mut peer), (mut other, _others_peer)] = [pair(), pair()];
    let region: Open = pd.register(64).unwrap();
    let mut lent = Vec::new();
    for qp in [&mut own, &mut other] {
        let window = qp.alloc_mw().unwrap();
        let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
        let (bind, back) = bind.lend();
        qp.post_send(bind).unwrap();
        lent.push((entry(dev, &mut cq).into_lent().unwrap(), back));
    }
    let [(window, back), (others, _)] = lent.try_into().unwrap();
    srq.post_srq_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    peer.post_send(ext::windows::SendWithInv::new(wr::Empty, back)).unwrap();
    let (mut window, mut others) = (Some(window), Some(others));
    until(dev, "the message", || {
        let Some(completion) = cq.poll_one().unwrap() else { return false };
        if completion.direction() == Direction::Send {
            return false;
        }
        let (refused, completion) = others.take().unwrap().revoked(completion).unwrap_err();
        others = Some(refused);
        window = window.take().unwrap().revoked(completion).err().map(|(window, _)| window);
        true
    });
    assert!(others.is_some() && window.is_none());
}

/// A bind is outstanding while its queue pair, and then everything else, is dropped, in any order.
#[test]
fn a_bind_that_is_not_waited_for() {
    fails_on!(Siw, "R18.17");
    for order in 0..6 {
        let mut p = Pair::<Rc, Any>::new();
        let region: Open = p.pd.register(64).unwrap();
        let (one, two) = (p.a.alloc_mw().unwrap(), p.a.alloc_mw().unwrap());
        p.a.post_send(ext::windows::BindMw::<RemoteWrite>::new(one, &region, 0..64).unwrap())
            .unwrap();
        let described = ext::windows::BindMw::<RemoteRead>::new(two, &region, 0..64).unwrap();
        let Pair { a, ca, .. } = p;
        let (mut a, mut ca) = (Some(a), Some(ca));
        let (mut region, mut described) = (Some(region), Some(described));
        for step in 0..4 {
            match (step + order) % 4 {
                0 => drop(a.take()),
                1 => drop(region.take()),
                2 => drop(described.take()),
                _ if order % 2 == 0 => drop(ca.take()),
                _ => {
                    let _ = ca.as_mut().map(|cq| cq.poll().map(|all| all.for_each(drop)));
                }
            }
        }
    }
}

/// Windows move to another thread, are invalidated there while their queue pair posts here, and
/// outlive it.
#[test]
fn windows_on_another_thread() {
    fails_on!(IwarpOtherwise, "R24.12");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let windows: Vec<_> = (0..4).map(|_| bound(&mut p, &region)).collect();
    let to: Vec<_> = windows.iter().map(|window| window.remote().write()).collect();
    let ended = std::thread::spawn(move || windows.into_iter().for_each(drop));
    for _ in 0..4 {
        let window = bound(&mut p, &region);
        if p.a.post_send(ext::windows::LocalInv::new(window)).is_ok() {
            entry(&p.dev, &mut p.ca).into_unbound().unwrap();
        }
    }
    ended.join().unwrap();
    assert_eq!(writes(&mut p, to[0]), Err(WcStatus::RemAccess));
    region.destroy().unwrap();
}

/// Another thread polls the completion of a bind, and drops its window, before `ibv_bind_mw` has
/// returned, which writes the new key into the window. Or it reads the key.
/// Proves R19.9.
#[test]
fn a_type_1_window_that_is_dropped_during_its_bind() {
    fails_on!(KeptRegions);
    const BINDS: usize = if cfg!(miri) { 8 } else { 200 };
    let p = Pair::<Rc, Any>::new();
    let Pair { mut a, b: _b, mut ca, pd, dev, .. } = p;
    let region: Open = pd.register(64).unwrap();
    std::thread::scope(|scope| {
        let dev = &dev;
        scope.spawn(move || {
            for i in 0..BINDS {
                let entry = entry(dev, &mut ca);
                if i % 2 == 0 {
                    entry.destroy().unwrap();
                    continue;
                }
                let window = entry.into_bound_type1::<RemoteWrite>().unwrap();
                assert_ne!(window.remote().rkey(), 0);
            }
        });
        for _ in 0..BINDS {
            let mut window = pd.alloc_mw().unwrap();
            loop {
                let bind =
                    ext::windows::MwBind::<RemoteWrite>::new(window, &region, 0..64).unwrap();
                let Err(error) = a.bind_mw(bind) else { break };
                assert!(error.is_full(), "{error}");
                let Some(AnyBuf::Window(entry)) = error.into_rejected().next() else {
                    panic!("the completion has its window");
                };
                window = entry.into_type1().unwrap();
                std::thread::yield_now();
            }
        }
    });
    region.destroy().unwrap();
}

/// Windows of type 1 outlive all queue pairs that bound them, and are dropped in any order.
#[test]
fn a_type_1_window_and_its_parents() {
    fails_on!(Siw, "R18.17");
    for order in 0..6 {
        let mut p = Pair::<Rc, Any>::new();
        let (region, other): (Open, Open) =
            (p.pd.register(64).unwrap(), p.pd.register(64).unwrap());
        let window = p.pd.alloc_mw().unwrap();
        p.a.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(window, &region, 0..64).unwrap())
            .unwrap();
        let one = entry(&p.dev, &mut p.ca).into_bound_type1::<RemoteWrite>().unwrap();
        let to = one.remote().write();
        p.a.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(one, &other, 0..64).unwrap()).unwrap();
        let Pair { a, b, ca, cb, pd, dev, pool } = p;
        let (mut a, mut ca, mut pd) = (Some(a), Some(ca), Some(pd));
        let (mut region, mut other) = (Some(region), Some(other));
        for step in 0..5 {
            match (step + order) % 5 {
                0 => drop(a.take()),
                1 => drop(region.take()),
                2 => drop(other.take()),
                3 => drop(pd.take()),
                _ if order % 2 == 0 => drop(ca.take()),
                _ => {
                    let _ = ca.as_mut().map(|cq| cq.poll().map(|all| all.for_each(drop)));
                }
            }
        }
        drop((b, cb, pool, dev, to));
    }
}
