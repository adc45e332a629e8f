//! Memory windows of type 2: bound, used by the peer, and invalidated by either side.

use proverbs::completion::{Direction, WcOpcode, WcStatus};
use proverbs::ext::windows::{
    BoundWindow, LentWindow, MemoryWindow, Revocable, WindowEntry, Windowed,
};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::state::QpState;

use crate::support::*;

profile! { Any { entry: AnyBuf } }

pub type Open = MemoryRegion<Windowed<LocalWrite>>;

/// The windows of the next `n` completions of a queue, in order, and their results.
fn ended(p: &mut Pair<Rc, Any>, n: usize) -> Vec<(Result<(), WcStatus>, WindowEntry)> {
    let mut windows = Vec::new();
    until(&p.dev, "the windows' completions", || {
        while let Some(completion) = p.ca.poll_one().unwrap() {
            assert_eq!(completion.direction(), Direction::Send);
            let status = completion.status().map_err(|error| error.status);
            match completion.into_entry() {
                Some(AnyBuf::Window(window)) => windows.push((status, window)),
                other => panic!("{other:?} is no window"),
            }
        }
        windows.len() >= n
    });
    assert_eq!(windows.len(), n);
    windows
}

/// The window of the next completion, which succeeded.
fn come_back(p: &mut Pair<Rc, Any>) -> WindowEntry {
    let (status, window) = ended(p, 1).remove(0);
    assert_eq!(status, Ok(()));
    window
}

/// Invalidates a window of the first end: with LOCAL_INV, or by dropping the window if that is
/// refused (R1.6).
fn ended_here<A: proverbs::ext::windows::BindsTo<Windowed<LocalWrite>>>(
    p: &mut Pair<Rc, Any>,
    window: BoundWindow<A>,
) -> MemoryWindow {
    let posted = p.a.post_send(ext::windows::LocalInv::new(window));
    assert_eq!(posted.is_err(), p.dev.is_soft_roce());
    match posted {
        Ok(()) => come_back(p).into_unbound().unwrap(),
        Err(error) => {
            refused_on_soft_roce::<A>(error).destroy().unwrap();
            p.a.alloc_mw().unwrap()
        }
    }
}

/// The window of a refused LOCAL_INV, which is still bound.
fn refused_on_soft_roce<A: proverbs::memory::Access>(error: PostError<AnyBuf>) -> BoundWindow<A> {
    assert_eq!(error.kind(), PostErrorKind::LocalInvOnSoftRoce);
    assert!(error.to_string().contains("destroy the window and allocate another"), "{error}");
    match error.into_rejected().next() {
        Some(AnyBuf::Window(window)) => window.into_bound().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The peer invalidates the key, and the next completion of the first end proves it.
fn given_back(
    p: &mut Pair<Rc, Any>,
    window: LentWindow,
    key: Revocable<RemoteWrite>,
) -> MemoryWindow {
    p.a.post_recv(wr::Recv::empty()).unwrap();
    p.b.post_send(ext::windows::SendWithInv::new(wr::Empty, key)).unwrap();
    assert_eq!(peer(p), Ok(()));
    let (mut lent, mut back) = (Some(window), None);
    until(&p.dev, "the message", || match p.ca.poll_one().unwrap() {
        Some(completion) => {
            back = Some(lent.take().unwrap().revoked(completion).unwrap().0);
            true
        }
        None => false,
    });
    let back = back.unwrap();
    assert!(format!("{back:?}").starts_with("MemoryWindow(0 bytes"), "{back:?}");
    back
}

/// Lends a window of the first end.
fn lent(
    p: &mut Pair<Rc, Any>,
    mut window: MemoryWindow,
    region: &Open,
) -> (LentWindow, Revocable<RemoteWrite>) {
    window.set_id(78);
    let (bind, key) =
        ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap().lend();
    p.a.post_send(bind).unwrap();
    let lent = come_back(p).into_lent().unwrap();
    assert_eq!((lent.id(), key.addr()), (78, region.as_ptr().addr() as u64));
    (lent, key)
}

/// Binds a window of the first end to bytes of the region.
fn bound<A: proverbs::ext::windows::BindsTo<Windowed<LocalWrite>>>(
    p: &mut Pair<Rc, Any>,
    region: &Open,
    range: std::ops::Range<usize>,
) -> BoundWindow<A> {
    let window = p.a.alloc_mw().unwrap();
    p.a.post_send(ext::windows::BindMw::<A>::new(window, region, range).unwrap()).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    assert_eq!(sent.opcode, WcOpcode::BindMw);
    let Some(AnyBuf::Window(window)) = sent.entry else { panic!("the completion has its window") };
    window.into_bound().unwrap()
}

/// The result of a WRITE of these bytes by the second end.
fn written(p: &mut Pair<Rc, Any>, bytes: &[u8; 8], to: RemoteSpan) -> Result<(), WcStatus> {
    p.b.post_send(wr::RdmaWrite::inline(bytes, to)).unwrap();
    peer(p)
}

/// The result of the next completion of the second end.
pub fn peer<P: Profile<Entry = AnyBuf>>(p: &mut Pair<Rc, P>) -> Result<(), WcStatus> {
    let mut status = None;
    until(&p.dev, "the peer's completion", || {
        status = p.cb.poll_one().unwrap().map(|c| c.status().map_err(|error| error.status));
        status.is_some()
    });
    status.unwrap()
}

pub fn held(region: &Open, at: usize) -> [u8; 8] {
    let mut bytes = [0; 8];
    region.read_at(at, &mut bytes).unwrap();
    bytes
}

/// BIND, use, LOCAL_INV, and again: each binding has another key, and the old ones give no access
/// (R1.6, R1.8, R19.1).
/// Proves R1.8, R19.1.
#[test]
fn a_window_is_bound_repeatedly() {
    fails_on!(IwarpOtherwise, "R24.12");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(256).unwrap();
    let mut window = p.a.alloc_mw().unwrap();
    let mut keys = Vec::new();
    for life in 0..3u8 {
        let at = usize::from(life) * 64;
        window.set_id(77);
        let bind =
            ext::windows::BindMw::<RemoteReadWrite>::new(window, &region, at..at + 64).unwrap();
        let told = bind.remote();
        p.a.post_send(bind).unwrap();
        let entry = come_back(&mut p);
        assert_eq!(entry.id(), 77);
        let entry = entry.into_unbound().unwrap_err().into_object();
        let entry = entry.into_lent().unwrap_err().into_object();
        let entry = entry.into_bound::<RemoteRead>().unwrap_err().into_object();
        let bound = entry.into_bound::<RemoteReadWrite>().unwrap();
        let remote = bound.remote();
        assert_eq!((remote.rkey(), remote.len(), remote.addr()), (told.rkey(), 64, told.addr()));
        assert!(!keys.contains(&remote.rkey()), "each binding has its own key");
        keys.push(remote.rkey());
        assert_eq!(written(&mut p, &[life + 1; 8], remote.write()), Ok(()));
        assert_eq!(held(&region, at), [life + 1; 8]);
        p.b.post_send(wr::RdmaRead::new(p.pool.take().unwrap(), remote.read())).unwrap();
        assert_eq!(peer(&mut p), Ok(()));
        window = ended_here(&mut p, bound);
    }
    let late = RemoteSlice::<RemoteWrite>::from_parts(0, 64, keys[2]);
    assert_eq!(written(&mut p, b"too late", late.write()), Err(WcStatus::RemAccess));
    region.destroy().unwrap(); // the unbound window does not keep it
    drop(window);
}

/// The lower 8 bits of a window's key count up by one, as `ibv_inc_rkey` does, however the window
/// was invalidated before. Even when keys repeat, each proof holds only for its own binding.
#[test]
fn the_keys_of_a_window_count_up() {
    fails_on!(IwarpOtherwise, "R24.15");
    const LIVES: u32 = if cfg!(miri) { 3 } else { 258 };
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let mut window = p.a.alloc_mw().unwrap();
    let mut last: Option<u32> = None;
    for life in 0..LIVES {
        let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
        let key = bind.remote().rkey();
        if let Some(last) = last {
            assert_eq!(key, last & !0xff | (last + 1) & 0xff, "life {life}");
        }
        last = Some(key);
        if life % 2 == 0 && !p.dev.is_soft_roce() {
            p.a.post_send(bind).unwrap();
            let bound = come_back(&mut p).into_bound::<RemoteWrite>().unwrap();
            assert_eq!(bound.remote().rkey(), key);
            window = ended_here(&mut p, bound);
            continue;
        }
        let (bind, back) = bind.lend();
        p.a.post_send(bind).unwrap();
        let lent = come_back(&mut p).into_lent().unwrap();
        assert_eq!((lent.rkey(), back.rkey()), (key, key));
        window = given_back(&mut p, lent, back);
    }
}

/// The proof that a peer invalidated a key is a completion. The region stays registered until the
/// device has accepted the window's next bind, or deallocated the window (R6.11).
#[test]
fn a_revoked_window_keeps_its_region_until_the_device_has_checked() {
    fails_on!(IwarpOtherwise, "R24.15");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let (region, other): (Open, Open) = (p.pd.register(64).unwrap(), p.pd.register(64).unwrap());
    let window = p.a.alloc_mw().unwrap();
    let (window, key) = lent(&mut p, window, &region);
    let window = given_back(&mut p, window, key);
    let region = region.destroy().unwrap_err().into_object();

    // A rejected bind changes nothing: it names another queue pair.
    let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &other, 0..64).unwrap();
    let error = p.b.post_send(bind).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ForeignWindow);
    let Some(AnyBuf::Window(window)) = error.into_rejected().next() else { panic!("no window") };
    let window = window.into_unbound().unwrap();
    let region = region.destroy().unwrap_err().into_object();
    other.destroy().unwrap();
    let other: Open = p.pd.register(64).unwrap();

    let (window, key) = lent(&mut p, window, &other);
    region.destroy().unwrap();
    let window = given_back(&mut p, window, key);
    // A bind that does not lend releases it too.
    let third: Open = p.pd.register(64).unwrap();
    let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &third, 0..64).unwrap();
    p.a.post_send(bind).unwrap();
    let other = other.destroy().unwrap_err().into_object();
    let window = come_back(&mut p).into_bound::<RemoteWrite>().unwrap();
    other.destroy().unwrap();
    let third = third.destroy().unwrap_err().into_object();
    window.destroy().unwrap();
    third.destroy().unwrap();
}

/// A peer that has a key can invalidate it, even if it was not lent. LOCAL_INV then fails; on
/// Soft-RoCE, where it would crash the kernel, it is rejected (R1.6).
#[test]
fn a_key_that_a_peer_invalidated_is_not_invalidated_again() {
    fails_on!(IwarpOtherwise, "R24.15");
    fails_on!(KeptRegions);
    for polls_first in [false, true] {
        let mut p = Pair::<Rc, Any>::new();
        let region: Open = p.pd.register(64).unwrap();
        let window = bound::<RemoteWrite>(&mut p, &region, 0..64);
        let key = window.remote();
        p.a.post_recv(wr::Recv::empty()).unwrap();
        p.b.post_send(ext::windows::SendWithInv::new(wr::Empty, Revocable::new(key))).unwrap();
        assert_eq!(peer(&mut p), Ok(()));
        let mut named = None;
        if polls_first {
            until(&p.dev, "the message", || {
                named = p.ca.poll_one().unwrap().map(|completion| completion.invalidated_rkey());
                named.is_some()
            });
            assert_eq!(named, Some(Some(key.rkey())));
        }
        match p.a.post_send(ext::windows::LocalInv::new(window)) {
            Ok(()) => {
                assert!(!p.dev.is_soft_roce());
                let mut status = None;
                until(&p.dev, "LOCAL_INV", || {
                    let Some(completion) = p.ca.poll_one().unwrap() else { return false };
                    if completion.direction() == Direction::Send {
                        status = Some(completion.status().map_err(|error| error.status));
                    }
                    status.is_some()
                });
                assert_eq!(status, Some(Err(WcStatus::LocQpOp)));
            }
            Err(error) => {
                assert!(p.dev.is_soft_roce());
                refused_on_soft_roce::<RemoteWrite>(error).destroy().unwrap();
            }
        }
        region.destroy().unwrap();
    }
}

/// BIND, BIND and a fenced SEND of both keys in one post; the peer uses them, and invalidates one
/// with its answer. The other is invalidated here.
/// Proves R19.3, R19.6.
#[test]
fn two_binds_and_a_message_in_one_post() {
    fails_on!(IwarpOtherwise, "R1.6");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(256).unwrap();
    region.write_at(0, b"question").unwrap();
    let (one, two) = (p.a.alloc_mw().unwrap(), p.a.alloc_mw().unwrap());
    let asks = ext::windows::BindMw::<RemoteRead>::new(one, &region, 0..8).unwrap();
    let question = asks.remote();
    let (answers, answer) =
        ext::windows::BindMw::<RemoteWrite>::new(two, &region, 64..128).unwrap().lend();
    let message = [question.to_bytes(), answer.to_bytes()].concat();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let tell = wr::Send::inline_slice(&message).fence();
    post_send!(p.a, [asks, answers, tell]).unwrap();

    // The peer.
    let told =
        poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.and_then(AnyBuf::into_buf).unwrap();
    let (question, answer) = told.split_at(24);
    let question = RemoteSlice::<RemoteRead>::from_bytes(question.try_into().unwrap()).unwrap();
    assert!(RemoteSlice::<RemoteWrite>::from_bytes(answer.try_into().unwrap()).is_none());
    let answer = Revocable::<RemoteWrite>::from_bytes(answer.try_into().unwrap()).unwrap();
    assert_eq!((answer.len(), answer.is_empty()), (64, false));
    assert!(Revocable::new(answer.slice(64, 0).unwrap()).is_empty());
    let (to, rkey) = (answer.write(), answer.rkey());
    p.b.post_send(wr::RdmaRead::new(p.pool.take().unwrap(), question.read())).unwrap();
    let read =
        poll(&p.dev, &mut p.cb, 1).remove(0).sent().entry.and_then(AnyBuf::into_buf).unwrap();
    assert_eq!(&read[..], b"question");
    p.b.post_send(wr::RdmaWrite::inline(b"answered", answer.write())).unwrap();
    p.b.post_send(ext::windows::SendWithInv::inline(b"done", answer)).unwrap();
    assert_eq!((peer(&mut p), peer(&mut p)), (Ok(()), Ok(())));

    // This end.
    let (mut asks, mut lent, mut back) = (None, None, None);
    let mut message = None;
    until(&p.dev, "two binds, a SEND, and a message", || {
        while let Some(completion) = p.ca.poll_one().unwrap() {
            completion.status().unwrap();
            if completion.direction() == Direction::Receive {
                let window: LentWindow = lent.take().expect("the bind's completion comes first");
                assert_eq!(window.rkey(), rkey);
                let (window, received): (MemoryWindow, _) = window.revoked(completion).unwrap();
                back = Some(window);
                message = received.entry.and_then(AnyBuf::into_buf);
                continue;
            }
            match (completion.opcode(), completion.into_entry()) {
                (Some(WcOpcode::BindMw), Some(AnyBuf::Window(window))) if asks.is_none() => {
                    asks = Some(window.into_bound::<RemoteRead>().unwrap());
                }
                (Some(WcOpcode::BindMw), Some(AnyBuf::Window(window))) => {
                    lent = Some(window.into_lent().unwrap());
                }
                (opcode, entry) => assert!(opcode == Some(WcOpcode::Send) && entry.is_none()),
            }
        }
        message.is_some()
    });
    assert_eq!(&message.unwrap()[..4], b"done");
    assert_eq!(&held(&region, 64), b"answered");
    let one = ended_here(&mut p, asks.unwrap());
    assert_eq!(written(&mut p, b"too late", to), Err(WcStatus::RemAccess));
    let region = region.destroy().unwrap_err().into_object();
    drop((one, back.unwrap()));
    region.destroy().unwrap();
}

/// A dropped or destroyed window gives no access any more, and no longer keeps its region (R6.11,
/// R19.1).
/// Proves R6.11, R19.1.
#[test]
fn dropping_a_bound_window_invalidates_its_key() {
    fails_on!(IwarpOtherwise, "R24.12");
    fails_on!(KeptRegions);
    for destroys in [false, true] {
        let mut p = Pair::<Rc, Any>::new();
        let region: Open = p.pd.register(64).unwrap();
        let bound = bound::<RemoteWrite>(&mut p, &region, 0..64);
        let to = bound.remote().write();
        assert_eq!(written(&mut p, b"windowed", to), Ok(()));
        let region = region.destroy().unwrap_err().into_object();
        match destroys {
            true => bound.destroy().unwrap(),
            false => drop(bound),
        }
        assert_eq!(written(&mut p, b"too late", to), Err(WcStatus::RemAccess));
        assert_eq!(&held(&region, 0), b"windowed");
        region.destroy().unwrap();
    }
}

/// A region that is dropped while a window is bound to it ends with the window, and its domain can
/// be dropped (R6.11, R11.8).
#[test]
fn a_dropped_region_ends_with_its_window() {
    fails_on!(IwarpOtherwise, "R24.12");
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let bound = bound::<RemoteWrite>(&mut p, &region, 0..64);
    let to = bound.remote().write();
    drop(region);
    assert_eq!(written(&mut p, b"windowed", to), Ok(()));
    bound.destroy().unwrap();
    assert_eq!(written(&mut p, b"too late", to), Err(WcStatus::RemAccess));
    let Pair { a, b, ca, cb, pool, pd, .. } = p;
    drop((a, b, ca, cb, pool));
    pd.destroy().unwrap();
}

/// A window gives access to its range with its own rights, and permits no write if it is for
/// reading.
/// Proves R19.7.
#[test]
fn a_window_has_its_own_rights() {
    fails_on!(IwarpOtherwise, "R24.12");
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let bound = bound::<RemoteRead>(&mut p, &region, 0..64);
    let remote = bound.remote();
    let forged = RemoteSlice::<RemoteWrite>::from_parts(remote.addr(), 64, remote.rkey());
    assert_eq!(written(&mut p, b"no right", forged.write()), Err(WcStatus::RemAccess));
    assert_eq!(held(&region, 0), [0; 8]);
}

/// A window to relaxed memory has a peer's rights, which its key then no longer has.
/// Proves R18.41.
#[test]
fn a_window_to_relaxed_memory() {
    fails_on!(Siw, "R18.17");
    use proverbs::memory::Relaxed;
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<Windowed<Relaxed<LocalWrite>>>(64).unwrap();
    let window = p.a.alloc_mw().unwrap();
    let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
    p.a.post_send(bind).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    let Some(AnyBuf::Window(window)) = sent.entry else { panic!("it brings its window") };
    let window: BoundWindow<RemoteWrite> = window.into_bound().unwrap();
    assert_eq!(written(&mut p, b"windowed", window.remote().write()), Ok(()));
    let mut bytes = [0; 8];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"windowed");
}

/// A key gives access only to the bytes that its window was bound to; on Soft-RoCE, to the whole
/// region.
/// Proves R19.7.
#[test]
fn a_window_has_its_own_bounds() {
    fails_on!(IwarpOtherwise, "R24.12");
    for at in [0, 16, 20] {
        let mut p = Pair::<Rc, Any>::new();
        let region: Open = p.pd.register(64).unwrap();
        let bound = bound::<RemoteWrite>(&mut p, &region, 8..24);
        let remote = bound.remote();
        let to = remote.addr().wrapping_add(at).wrapping_sub(8);
        let longer = RemoteSlice::<RemoteWrite>::from_parts(to, 64, remote.rkey());
        let inside = at == 16;
        let is = by_rule!(p.dev, "R19.7",
            loopback: if inside { Ok(()) } else { Err(WcStatus::RemAccess) }, rxe: Ok(()));
        assert_eq!(written(&mut p, b"windowed", longer.write()), is, "at {at}");
        let there = if is.is_ok() { *b"windowed" } else { [0; 8] };
        assert_eq!(held(&region, at as usize), there);
    }
}

/// The peer's addresses of a zero-based window begin at 0.
/// Proves R1.7.
#[test]
fn a_zero_based_window() {
    fails_on!(Siw, "R18.17");
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(256).unwrap();
    let window = p.a.alloc_mw().unwrap();
    let bind =
        ext::windows::BindMw::<RemoteWrite>::new(window, &region, 128..192).unwrap().zero_based();
    assert_eq!(bind.remote().addr(), 0);
    p.a.post_send(bind).unwrap();
    let bound = come_back(&mut p).into_bound::<RemoteWrite>().unwrap();
    assert_eq!((bound.remote().addr(), bound.remote().len()), (0, 64));
    let to = bound.remote().slice(8, 8).unwrap().write();
    assert_eq!(written(&mut p, b"windowed", to), Ok(()));
    assert_eq!(&held(&region, 136), b"windowed");
}

/// An invalid bind is rejected before the post, and returns the window.
/// Proves R1.7.
#[test]
fn a_bind_is_checked() {
    fails_on!(Siw, "R18.17");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let mut window = p.a.alloc_mw().unwrap();
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..0, 64..64, 0..65, 64..65, 8..4, usize::MAX - 1..usize::MAX] {
        let refused =
            ext::windows::BindMw::<RemoteWrite>::new(window, &region, range).err().unwrap();
        assert_eq!(refused.error.errno(), Some(22), "{}", refused.error);
        window = refused.into_object();
    }
    let other = p.dev.ctx.alloc_pd().unwrap();
    let strange: Open = other.register(64).unwrap();
    let refused = ext::windows::BindMw::<RemoteWrite>::new(window, &strange, 0..64).err().unwrap();
    assert!(matches!(refused.error.kind(), proverbs::ErrorKind::PdMismatch { .. }));
    drop(refused);
    region.destroy().unwrap();
}

/// After an unposted BIND the window is unbound; after an unposted LOCAL_INV it is bound.
///
/// A rejected post returns a memory window as a window, not as memory at address 0.
/// Proves R19.5.
#[test]
fn an_unposted_request_has_no_effect() {
    fails_on!(Siw, "R18.17");
    fails_on!(KeptRegions);
    let wish = Wish { depth: Depth { send: 1, recv: 1 }, ..Wish::new() };
    let mut p = Pair::<Rc, Any>::with(&wish);
    let region: Open = p.pd.register(64).unwrap();
    let full = |error: PostError<AnyBuf>| {
        assert!(matches!(error.kind(), PostErrorKind::QueueFull { .. }), "{error}");
        match error.into_rejected().next() {
            Some(AnyBuf::Window(window)) => window,
            other => panic!("{other:?}"),
        }
    };
    let (one, two) = (p.a.alloc_mw().unwrap(), p.a.alloc_mw().unwrap());
    p.a.post_send(ext::windows::BindMw::<RemoteWrite>::new(one, &region, 0..64).unwrap()).unwrap();
    let bind = ext::windows::BindMw::<RemoteWrite>::new(two, &region, 0..64).unwrap();
    let two = full(p.a.post_send(bind).unwrap_err()).into_unbound().unwrap();
    let one = come_back(&mut p).into_bound::<RemoteWrite>().unwrap();
    let to = one.remote().write();
    p.a.post_send(ext::windows::BindMw::<RemoteWrite>::new(two, &region, 0..64).unwrap()).unwrap();
    let refused = p.a.post_send(ext::windows::LocalInv::new(one)).unwrap_err();
    let one = match p.dev.is_soft_roce() {
        true => refused_on_soft_roce(refused),
        false => full(refused).into_bound::<RemoteWrite>().unwrap(),
    };
    assert_eq!(written(&mut p, b"windowed", to), Ok(()));
    let two = come_back(&mut p).into_bound::<RemoteWrite>().unwrap();
    drop(one);
    let filler = match p.a.post_send(ext::windows::LocalInv::new(two)) {
        Ok(()) => None,
        Err(error) => {
            refused_on_soft_roce::<RemoteWrite>(error).destroy().unwrap();
            Some(p.a.alloc_mw().unwrap())
        }
    };
    let fills = filler.is_some();
    if let Some(window) = filler {
        p.a.post_send(ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap())
            .unwrap();
    }
    let three = p.a.alloc_mw().unwrap();
    let (bind, _) = ext::windows::BindMw::<RemoteWrite>::new(three, &region, 0..64).unwrap().lend();
    let three = full(p.a.post_send(bind).unwrap_err()).into_lent().unwrap_err().into_object();
    let three = three.into_bound::<RemoteWrite>().unwrap_err().into_object();
    let three = three.into_unbound().unwrap();
    let two = come_back(&mut p);
    match fills {
        true => two.into_bound::<RemoteWrite>().unwrap().destroy().unwrap(),
        false => drop(two.into_unbound().unwrap()),
    }
    region.destroy().unwrap();
    drop(three);
}

/// Flushed requests may have been executed: the windows can only be dropped. A message behind a
/// bind is flushed with it.
/// Proves R19.3, R19.5.
#[test]
fn a_flushed_request_may_have_happened() {
    fails_on!(IwarpOtherwise, "R24.7");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let kept = bound::<RemoteWrite>(&mut p, &region, 0..64);
    let window = p.a.alloc_mw().unwrap();
    let Pair { a, .. } = p;
    let mut a = a.to_error().unwrap();
    let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
    let tell = bind.remote().to_bytes();
    let tell = wr::Send::inline(&tell);
    let all = match p.dev.is_soft_roce() {
        true => {
            kept.destroy().unwrap();
            post_send!(a, [bind, tell]).unwrap();
            2
        }
        false => {
            post_send!(a, [bind, ext::windows::LocalInv::new(kept), tell]).unwrap();
            3
        }
    };
    let mut flushed = 0;
    until(&p.dev, "the flushed work requests", || {
        while let Some(completion) = p.ca.poll_one().unwrap() {
            assert_eq!(completion.status().unwrap_err().status, WcStatus::WrFlush);
            flushed += 1;
            if let Some(AnyBuf::Window(window)) = completion.into_entry() {
                let window = window.into_bound::<RemoteWrite>().unwrap_err().into_object();
                let window = window.into_lent().unwrap_err().into_object();
                window.into_unbound().unwrap_err().into_object().destroy().unwrap();
            }
        }
        flushed == all
    });
    region.destroy().unwrap();
}

/// A window belongs to one queue pair, until its next reset.
/// Proves R19.4.
#[test]
fn a_window_belongs_to_one_queue_pair() {
    fails_on!(IwarpOtherwise, "R24.12");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let window = p.b.alloc_mw().unwrap();
    let foreign = |p: &mut Pair<Rc, Any>, window| {
        let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
        let error = post_send!(p.a, [wr::Send::inline(b"hi"), bind]).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (PostErrorKind::ForeignWindow, 0));
        match error.into_rejected().next() {
            Some(AnyBuf::Window(window)) => window.into_unbound().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let window = foreign(&mut p, window);
    // The key works only through that queue pair.
    let kept = bound::<RemoteWrite>(&mut p, &region, 0..64);
    assert_eq!(written(&mut p, b"windowed", kept.remote().write()), Ok(()));
    p.a.post_send(wr::RdmaWrite::inline(b"not here", kept.remote().write())).unwrap();
    until(&p.dev, "the refusal", || match p.ca.poll_one().unwrap() {
        Some(completion) => {
            assert_eq!(completion.status().unwrap_err().status, WcStatus::RemAccess);
            true
        }
        None => false,
    });
    assert_eq!(&held(&region, 0), b"windowed");
    // Its queue pair is gone, and the window with it.
    drop(p.b);
    window.destroy().unwrap();
    let Pair { a, .. } = p;
    let a = a.reset().unwrap();
    kept.destroy().unwrap();
    drop(a);
    region.destroy().unwrap();
}

/// Ending or resetting a queue pair first ends its windows, and so releases their regions (R19.4,
/// R6.11).
///
/// Memory windows are deallocated before the queue pair that they are bound through.
/// Proves R19.4.
#[test]
fn windows_end_with_their_queue_pair() {
    fails_on!(KeptRegions);
    for resets in [false, true] {
        let mut p = Pair::<Rc, Any>::new();
        let region: Open = p.pd.register(64).unwrap();
        let kept = bound::<RemoteWrite>(&mut p, &region, 0..64);
        let unused = p.a.alloc_mw().unwrap();
        let region = region.destroy().unwrap_err().into_object();
        let Pair { a, .. } = p;
        let alive = match resets {
            true => Some(a.reset().unwrap()),
            false => {
                drop(a);
                None
            }
        };
        region.destroy().unwrap();
        drop((kept, unused, alive));
    }
}

/// However many there are, and however many there were before.
#[test]
fn many_windows_end_with_their_queue_pair() {
    fails_on!(Iwarp, "R24.6");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let mut kept = Vec::new();
    for _ in 0..9 {
        kept.push(bound::<RemoteWrite>(&mut p, &region, 0..64));
        drop(bound::<RemoteWrite>(&mut p, &region, 0..64));
    }
    let region = region.destroy().unwrap_err().into_object();
    let Pair { a, .. } = p;
    let a = a.reset().unwrap();
    region.destroy().unwrap();
    drop((kept, a));
}

/// A key that does not belong to a window, or was invalidated before, cannot be invalidated: the
/// receiver gets an error.
/// Proves R1.6.
#[test]
fn a_key_is_invalidated_once() {
    fails_on!(IwarpOtherwise, "R24.15");
    let mut p = Pair::<Rc, Any>::new();
    // Invalidating a key twice crashes the kernel (Linux 6.1 to 7.3).
    by_rule!(p.dev, "R1.6", loopback: (), rxe: return);
    let region: Open = p.pd.register(64).unwrap();
    let window = p.a.alloc_mw().unwrap();
    let (bind, lent) =
        ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap().lend();
    let again = Revocable::<RemoteWrite>::from_bytes(&lent.to_bytes()).unwrap();
    for bit in 0..32 {
        let mut other = lent.to_bytes();
        other[20 + bit / 8] ^= 1 << (bit % 8);
        assert!(Revocable::<RemoteWrite>::from_bytes(&other).is_none(), "bit {bit}");
    }
    p.a.post_send(bind).unwrap();
    let window = come_back(&mut p).into_lent().unwrap();
    for _ in 0..2 {
        p.a.post_recv(wr::Recv::empty()).unwrap();
    }
    p.b.post_send(ext::windows::SendWithInv::new(wr::Empty, lent)).unwrap();
    assert_eq!(peer(&mut p), Ok(()));
    let (mut window, mut kept) = (Some(window), None);
    until(&p.dev, "the message", || match p.ca.poll_one().unwrap() {
        Some(completion) => {
            kept = Some(window.take().unwrap().revoked(completion).unwrap());
            true
        }
        None => false,
    });
    p.b.post_send(ext::windows::SendWithInv::new(wr::Empty, again)).unwrap();
    until(&p.dev, "the refusal", || match p.ca.poll_one().unwrap() {
        Some(completion) => {
            assert_eq!(completion.status().unwrap_err().status, WcStatus::RemInvReq);
            true
        }
        None => false,
    });
    assert_eq!(p.a.query().unwrap().state, Some(QpState::Err));
}
