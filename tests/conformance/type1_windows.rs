//! Memory windows of type 1, which belong to a protection domain and are bound repeatedly with
//! `ibv_bind_mw`.
//!
//! A bound window of type 1 keeps its region while another bind is outstanding.

use proverbs::ErrorKind;
use proverbs::completion::{WcOpcode, WcStatus};
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::windows::{
    BindsTo, BoundType1Window, Revocable, Type1, Type1Window, WindowEntry, Windowed,
};
use proverbs::memory::Relaxed;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::{Max, SignalAll};
use proverbs::state::QpState;

use crate::support::*;
use crate::windows::{Open, held, peer};

profile! { Any { entry: AnyBuf } }
profile! { Sessions { entry: AnyBuf, posting: ExtendedPosting } }

/// The result of the next completion of the first end, and its window.
fn ended<P>(p: &mut Pair<Rc, P>) -> (Result<(), WcStatus>, WindowEntry)
where
    P: Profile<Entry = AnyBuf>,
{
    let mut ended = None;
    until(&p.dev, "the window's completion", || {
        let Some(completion) = p.ca.poll_one().unwrap() else { return false };
        let status = completion.status().map_err(|error| error.status);
        assert!(status.is_err() || completion.opcode() == Some(WcOpcode::BindMw));
        ended = match completion.into_entry() {
            Some(AnyBuf::Window(window)) => Some((status, window)),
            other => panic!("{other:?} is no window"),
        };
        true
    });
    ended.unwrap()
}

/// Binds a window through the first end.
fn bind<A: BindsTo<Windowed<LocalWrite>>, P>(
    p: &mut Pair<Rc, P>,
    window: impl Type1,
    region: &Open,
    range: std::ops::Range<usize>,
) -> BoundType1Window<A>
where
    P: Profile<Entry = AnyBuf, Signaling = SignalAll>,
{
    let bind =
        ext::windows::MwBind::<A>::new(window, region, range).map_err(|refused| refused.error);
    p.a.bind_mw(bind.unwrap()).unwrap();
    let (status, window) = ended(p);
    assert_eq!(status, Ok(()));
    window.into_bound_type1().unwrap()
}

fn unbind<A: proverbs::memory::Access>(
    p: &mut Pair<Rc, Any>,
    window: BoundType1Window<A>,
) -> Type1Window {
    p.a.bind_mw(ext::windows::MwBind::unbind(window)).unwrap();
    let (status, window) = ended(p);
    assert_eq!(status, Ok(()));
    window.into_type1().unwrap()
}

/// The result of a WRITE of these bytes by the second end.
fn written<P>(
    p: &mut Pair<Rc, P>,
    bytes: &[u8; 8],
    to: RemoteSlice<RemoteWrite>,
) -> Result<(), WcStatus>
where
    P: Profile<Entry = AnyBuf, Signaling = SignalAll, MaxInline = Max<64>>,
    P::Posting: proverbs::rules::Writes,
{
    p.b.post_send(wr::RdmaWrite::inline(bytes, to.write())).unwrap();
    peer(p)
}

/// A bound window is bound again, to another region, and gets another key each time; then it is
/// bound to nothing. It keeps only the region that it is bound to (R1.8, R6.11, R19.8).
/// Proves R1.8, R19.8.
#[test]
fn a_window_is_bound_repeatedly() {
    fails_on!(Siw, "R18.17");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let (one, two): (Open, Open) = (p.pd.register(256).unwrap(), p.pd.register(256).unwrap());
    let mut window = p.pd.alloc_mw().unwrap();
    window.set_id(77);
    let first = bind::<RemoteWrite, _>(&mut p, window, &one, 64..128);
    let told = first.remote();
    assert_eq!(told.len(), 64);
    assert_eq!(written(&mut p, b"windowed", told), Ok(()));
    assert_eq!(held(&one, 64), *b"windowed");

    let one = one.destroy().unwrap_err().into_object();
    let rebind = ext::windows::MwBind::<RemoteWrite>::new(first, &two, 0..8);
    p.a.bind_mw(rebind.map_err(|refused| refused.error).unwrap()).unwrap();
    // Until its completion it may be bound to either, and keeps both.
    let [one, two] = [one, two].map(|region| region.destroy().unwrap_err().into_object());
    let (status, window) = ended(&mut p);
    assert_eq!(status, Ok(()));
    let second: BoundType1Window<RemoteWrite> = window.into_bound_type1().unwrap();
    assert_ne!(second.remote().rkey(), told.rkey());
    one.destroy().unwrap();
    assert_eq!(written(&mut p, b"and here", second.remote()), Ok(()));
    assert_eq!(held(&two, 0), *b"and here");

    let two = two.destroy().unwrap_err().into_object();
    let late = second.remote();
    let window = unbind(&mut p, second);
    assert_eq!(written(&mut p, b"too late", late), Err(WcStatus::RemAccess));
    assert_eq!(held(&two, 0), *b"and here");
    two.destroy().unwrap();
    window.destroy().unwrap();
}

/// Each bind gives another key, even after the numbers of a key have wrapped, and the previous key
/// gives no access.
/// Proves R19.8.
#[test]
fn the_previous_key_gives_no_access() {
    fails_on!(IwarpOtherwise, "R24.12");
    const BINDS: usize = if cfg!(miri) { 3 } else { 258 };
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let window = p.pd.alloc_mw().unwrap();
    let mut bound = bind::<RemoteWrite, _>(&mut p, window, &region, 0..8);
    for _ in 0..BINDS {
        let before = bound.remote().rkey();
        bound = bind(&mut p, bound, &region, 0..8);
        assert_ne!(bound.remote().rkey(), before);
    }
    assert_eq!(written(&mut p, b"windowed", bound.remote()), Ok(()));
    let before = bound.remote();
    let bound = bind::<RemoteRead, _>(&mut p, bound, &region, 0..8);
    assert_eq!(written(&mut p, b"too late", before), Err(WcStatus::RemAccess));
    assert_eq!(held(&region, 0), *b"windowed");
    drop(bound);
}

/// A window belongs to its domain: another queue pair can bind it, its key works through each, and
/// it outlives them.
/// Proves R19.8.
#[test]
fn a_window_belongs_to_its_domain() {
    fails_on!(Siw, "R18.17");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let window = p.pd.alloc_mw().unwrap();
    let bound = bind::<RemoteWrite, _>(&mut p, window, &region, 0..64);
    // The second end binds it, and the first end writes.
    p.b.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(bound, &region, 8..64).unwrap()).unwrap();
    std::mem::swap(&mut p.a, &mut p.b);
    std::mem::swap(&mut p.ca, &mut p.cb);
    let (status, window) = ended(&mut p);
    assert_eq!(status, Ok(()));
    let bound = window.into_bound_type1::<RemoteWrite>().unwrap();
    assert_eq!(written(&mut p, b"windowed", bound.remote()), Ok(()));
    // Other queue pairs of the domain, after these are gone.
    let Pair { a, b, ca, cb, pool, pd, dev } = p;
    drop((a, b, ca, cb, pool));
    let (ca, cb) = (dev.ctx.create_cq(60).unwrap(), dev.ctx.create_cq(60).unwrap());
    let depth = Depth { send: 8, recv: 8 };
    let make = |cq| pd.create_qp::<Rc, Any>(cq, cq, depth).unwrap();
    let (a, b) = (make(&ca), make(&cb));
    let (a, b) = Rc::connect((a, &pd), (b, &pd), &dev, &Wish::new());
    let pool = pd.create_pool(1, 8).unwrap();
    let mut p = Pair { a, b, ca, cb, pool, pd, dev };
    assert_eq!(written(&mut p, b"still so", bound.remote()), Ok(()));
    assert_eq!(held(&region, 8), *b"still so");
    let region = region.destroy().unwrap_err().into_object();
    bound.destroy().unwrap();
    region.destroy().unwrap();
}

/// Window, region and queue pair must be in one domain (R6.8, R1.7).
/// Proves R19.8.
#[test]
fn another_domain_is_refused() {
    fails_on!(Siw, "R18.17");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let (region, other): (Open, _) = (p.pd.register(64).unwrap(), p.dev.ctx.alloc_pd().unwrap());
    let strange: Open = other.register(64).unwrap();
    let refused =
        ext::windows::MwBind::<RemoteWrite>::new(p.pd.alloc_mw().unwrap(), &strange, 0..64);
    let refused = refused.err().unwrap();
    assert!(matches!(refused.error.kind(), ErrorKind::PdMismatch { .. }));
    let mut window = refused.into_object();
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..0, 64..64, 0..65, 8..4] {
        let refused =
            ext::windows::MwBind::<RemoteWrite>::new(window, &region, range).err().unwrap();
        assert_eq!(refused.error.errno(), Some(22), "{}", refused.error);
        window = refused.into_object();
    }
    let theirs = other.alloc_mw().unwrap();
    let bind = ext::windows::MwBind::<RemoteWrite>::new(theirs, &strange, 0..64).unwrap();
    let error = p.a.bind_mw(bind).unwrap_err();
    assert_eq!((error.verb(), error.kind()), ("ibv_bind_mw", PostErrorKind::PdMismatch));
    let Some(AnyBuf::Window(theirs)) = error.into_rejected().next() else { panic!("its window") };
    theirs.into_type1().unwrap().destroy().unwrap();
    strange.destroy().unwrap();
    drop(window);
}

/// A bind uses an entry of the send queue. A bind that is not posted has no effect: the window
/// keeps its state and its key (R9.6, R19.5).
/// Proves R19.5.
#[test]
fn an_unposted_bind_has_no_effect() {
    fails_on!(Siw, "R18.17");
    fails_on!(KeptRegions);
    let wish = Wish { depth: Depth { send: 1, recv: 1 }, ..Wish::new() };
    let mut p = Pair::<Rc, Any>::with(&wish);
    let region: Open = p.pd.register(64).unwrap();
    let (one, two) = (p.pd.alloc_mw().unwrap(), p.pd.alloc_mw().unwrap());
    let full = |error: PostError<AnyBuf>| {
        assert!(matches!(error.kind(), PostErrorKind::QueueFull { .. }), "{error}");
        assert_eq!(error.accepted(), 0);
        match error.into_rejected().next() {
            Some(AnyBuf::Window(window)) => window,
            other => panic!("{other:?}"),
        }
    };
    p.a.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(one, &region, 0..64).unwrap()).unwrap();
    assert_eq!(p.a.sends_outstanding(), 1);
    let bind = ext::windows::MwBind::<RemoteWrite>::new(two, &region, 0..64).unwrap();
    let two = full(p.a.bind_mw(bind).unwrap_err());
    let two = two.into_bound_type1::<RemoteWrite>().unwrap_err().into_object();
    let two = two.into_type1().unwrap();
    let one = ended(&mut p).1.into_type1().unwrap_err().into_object();
    let one = one.into_bound_type1::<RemoteRead>().unwrap_err().into_object();
    let one = one.into_bound_type1::<RemoteWrite>().unwrap();
    let told = one.remote();

    let other: Open = p.pd.register(64).unwrap();
    p.a.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(two, &other, 0..64).unwrap()).unwrap();
    let bind = ext::windows::MwBind::<RemoteRead>::new(one, &other, 0..64).unwrap();
    let one = full(p.a.bind_mw(bind).unwrap_err());
    let one = one.into_bound_type1::<RemoteWrite>().unwrap();
    let one = full(p.a.bind_mw(ext::windows::MwBind::unbind(one)).unwrap_err());
    let one = one.into_type1().unwrap_err().into_object();
    let one = one.into_bound_type1::<RemoteWrite>().unwrap();
    assert_eq!((one.remote().rkey(), one.remote().addr()), (told.rkey(), told.addr()));
    assert_eq!(written(&mut p, b"windowed", told), Ok(()));
    assert_eq!(held(&region, 0), *b"windowed");
    let two = ended(&mut p).1.into_bound_type1::<RemoteWrite>().unwrap();
    let other = other.destroy().unwrap_err().into_object();
    drop(two);
    other.destroy().unwrap(); // the first window, bound to the other region, does not keep it
    let region = region.destroy().unwrap_err().into_object();
    drop(one);
    region.destroy().unwrap();
}

/// A flushed bind may have happened: the window keeps both regions, and can only be dropped.
/// Proves R19.5.
#[test]
fn a_flushed_bind_may_have_happened() {
    fails_on!(Siw, "R18.17");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let (one, two): (Open, Open) = (p.pd.register(64).unwrap(), p.pd.register(64).unwrap());
    let window = p.pd.alloc_mw().unwrap();
    let (bound, unused) =
        (bind::<RemoteWrite, _>(&mut p, window, &one, 0..64), p.pd.alloc_mw().unwrap());
    let Pair { a, mut ca, dev, .. } = p;
    let mut a = a.to_error().unwrap();
    a.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(bound, &two, 0..64).unwrap().fence())
        .unwrap();
    a.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(unused, &one, 0..64).unwrap()).unwrap();
    let mut flushed = Vec::new();
    until(&dev, "two flushed binds", || {
        while let Some(completion) = ca.poll_one().unwrap() {
            assert_eq!(completion.status().unwrap_err().status, WcStatus::WrFlush);
            let Some(AnyBuf::Window(window)) = completion.into_entry() else { panic!("a window") };
            let window = window.into_bound_type1::<RemoteWrite>().unwrap_err().into_object();
            let window = window.into_bound::<RemoteWrite>().unwrap_err().into_object();
            flushed.push(window.into_type1().unwrap_err().into_object());
        }
        flushed.len() == 2
    });
    let one = one.destroy().unwrap_err().into_object();
    let two = two.destroy().unwrap_err().into_object();
    flushed.into_iter().for_each(|window| window.destroy().unwrap());
    one.destroy().unwrap();
    two.destroy().unwrap();
    assert_eq!(a.sends_outstanding(), 0);
}

/// A queue pair that ends with a bind outstanding releases its window and the region (R12.2).
#[test]
fn a_bind_that_is_never_polled() {
    fails_on!(Siw, "R18.17");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let window = p.pd.alloc_mw().unwrap();
    p.a.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(window, &region, 0..64).unwrap()).unwrap();
    let region = region.destroy().unwrap_err().into_object();
    let Pair { a, ca, .. } = p;
    drop((a, ca));
    region.destroy().unwrap();
}

/// Entries of one window type are not accepted as the other, and a message cannot invalidate the
/// key of a type 1 window (R1.6, R19.8).
/// Proves R19.8.
#[test]
fn only_a_bind_invalidates_a_key() {
    fails_on!(IwarpOtherwise, "R24.15");
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let window = p.pd.alloc_mw().unwrap();
    let entry = {
        p.a.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(window, &region, 0..64).unwrap())
            .unwrap();
        ended(&mut p).1
    };
    let entry = entry.into_bound::<RemoteWrite>().unwrap_err().into_object();
    let entry = entry.into_lent().unwrap_err().into_object();
    let entry = entry.into_unbound().unwrap_err().into_object();
    let bound = entry.into_bound_type1::<RemoteWrite>().unwrap();
    let second = p.a.alloc_mw().unwrap();
    p.a.post_send(ext::windows::BindMw::<RemoteWrite>::new(second, &region, 0..64).unwrap())
        .unwrap();
    let entry = ended(&mut p).1.into_type1().unwrap_err().into_object();
    let entry = entry.into_bound_type1::<RemoteWrite>().unwrap_err().into_object();
    drop(entry.into_bound::<RemoteWrite>().unwrap());

    p.a.post_recv(wr::Recv::empty()).unwrap();
    p.b.post_send(ext::windows::SendWithInv::new(wr::Empty, Revocable::new(bound.remote())))
        .unwrap();
    until(&p.dev, "the refusal", || match p.ca.poll_one().unwrap() {
        Some(completion) => {
            assert_eq!(completion.status().unwrap_err().status, WcStatus::RemInvReq);
            true
        }
        None => false,
    });
    assert_eq!(p.a.query().unwrap().state, Some(QpState::Err));
    let region = region.destroy().unwrap_err().into_object();
    drop(bound);
    region.destroy().unwrap();
}

/// The window has its own rights, also for relaxed memory (R18.41).
#[test]
fn a_window_has_its_own_rights() {
    fails_on!(IwarpOtherwise, "R24.12");
    let mut p = Pair::<Rc, Any>::new();
    let relaxed = p.pd.register::<Windowed<Relaxed<LocalWrite>>>(64).unwrap();
    let window = p.pd.alloc_mw().unwrap();
    p.a.bind_mw(ext::windows::MwBind::<RemoteRead>::new(window, &relaxed, 0..64).unwrap()).unwrap();
    let entry = ended(&mut p).1.into_bound_type1::<RemoteWrite>().unwrap_err().into_object();
    let bound = entry.into_bound_type1::<RemoteRead>().unwrap();
    let remote = bound.remote();
    let forged = RemoteSlice::<RemoteWrite>::from_parts(remote.addr(), 64, remote.rkey());
    assert_eq!(written(&mut p, b"no right", forged), Err(WcStatus::RemAccess));
}

/// Queue pairs with extended posting bind with the same verb.
#[test]
fn a_queue_pair_of_sessions_binds() {
    fails_on!(Iwarp, "R15.1");
    let mut p = Pair::<Rc, Sessions>::new();
    let region: Open = p.pd.register(64).unwrap();
    let window = p.pd.alloc_mw().unwrap();
    let bound = bind::<RemoteWrite, _>(&mut p, window, &region, 0..64);
    assert_eq!(written(&mut p, b"windowed", bound.remote()), Ok(()));
    assert_eq!(held(&region, 0), *b"windowed");
}

/// The window has its context value at each bind, and another one after it is set again.
#[test]
fn a_window_has_a_context_value() {
    fails_on!(Siw, "R18.17");
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    let mut window = p.pd.alloc_mw().unwrap();
    for word in [0, 7, u64::MAX] {
        if word != 0 {
            window.set_id(word);
        }
        p.a.bind_mw(ext::windows::MwBind::<RemoteRead>::new(window, &region, 0..8).unwrap())
            .unwrap();
        let (status, entry) = ended(&mut p);
        assert_eq!((status, entry.id()), (Ok(()), word));
        p.a.bind_mw(ext::windows::MwBind::unbind(entry.into_bound_type1::<RemoteRead>().unwrap()))
            .unwrap();
        let (_, entry) = ended(&mut p);
        assert_eq!(entry.id(), word);
        let refused = entry.into_bound_type1::<RemoteRead>().unwrap_err();
        assert!(refused.to_string().contains("the window is not bound"), "{refused}");
        window = refused.into_object().into_type1().unwrap();
    }
}

/// Binds are posts among others: each entry returns with its own completion, in order.
#[test]
fn binds_among_other_work_requests() {
    fails_on!(Siw, "R18.17");
    let mut p = Pair::<Rc, Any>::new();
    let region: Open = p.pd.register(64).unwrap();
    for round in 0..3 {
        let mut windows = [11, 12].map(|id| {
            let mut window = p.pd.alloc_mw().unwrap();
            window.set_id(id);
            Some(window)
        });
        let mut bind = |p: &mut Pair<Rc, Any>, i: usize| {
            let window = windows[i].take().unwrap();
            p.a.bind_mw(
                ext::windows::MwBind::<RemoteRead>::new(window, &region, 8 * i..64).unwrap(),
            )
            .unwrap();
        };
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        bind(&mut p, 0);
        p.a.post_send(wr::Send::new(filled(&p.pool, &[round, 1]))).unwrap();
        bind(&mut p, 1);
        p.a.post_send(wr::Send::new(filled(&p.pool, &[round, 2]))).unwrap();
        assert_eq!(p.a.sends_outstanding(), 4);
        let mut came = Vec::new();
        until(&p.dev, "four completions", || {
            came.extend(p.ca.poll().unwrap().map(|completion| {
                completion.status().unwrap();
                match completion.into_entry().unwrap() {
                    AnyBuf::Window(window) => window.id(),
                    AnyBuf::Buf(buf) => u64::from(buf[1]),
                    other => panic!("{other:?}"),
                }
            }));
            came.len() >= 4
        });
        assert_eq!(came, [11, 1, 12, 2]);
        for last in [1, 2] {
            let received = poll(&p.dev, &mut p.cb, 1).remove(0);
            assert_eq!(*received.received().data(), [round, last]);
        }
    }
}
