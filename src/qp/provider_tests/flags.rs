//! The flags and elements that each posting function passes to the provider.

use super::*;

/// Records flags and number of elements of each work request, and rejects them all, so that their
/// entries are returned.
unsafe extern "C" fn noting(
    _: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let mut wr = first;
    while !wr.is_null() {
        // SAFETY: the caller passes a list of work requests.
        let this = unsafe { &*wr };
        POSTED.with_borrow_mut(|posted| posted.push((this.send_flags, this.num_sge)));
        wr = this.next;
    }
    // SAFETY: the caller passes a writable pointer.
    unsafe { *bad = first };
    libc::ENOMEM
}

/// A queue pair of 4 sends that claims to be in RTS, and whose provider records posts.
struct Noted<P: Profile> {
    qp: QueuePair<Rc, Rts, P>,
    pd: ProtectionDomain,
    pool: Pool,
    _cq: CompletionQueue<P::Entry>,
}

impl<P: Profile<Receive = OwnRq, Threads = AnyThread>> Noted<P> {
    fn new() -> Self {
        let context = Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(32).unwrap();
        let pool = pd.create_pool(8, 64).unwrap();
        let qp = pd.create_qp::<Rc, P>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
        let qp: QueuePair<Rc, Rts, P> = QueuePair::from_core(qp.core);
        // SAFETY: the queue pair is alive.
        let context = unsafe { (*qp.core.qp()).context };
        // SAFETY: its context is, too, and nothing else uses it.
        unsafe { (*context).ops.post_send = Some(noting) };
        Noted { qp, pd, pool, _cq: cq }
    }
}

/// Three sends: one with a fence, one solicited, and one plain.
macro_rules! three {
    ($n:ident) => {{
        let buf = || $n.pool.take().unwrap();
        (
            wr::Send::new(buf()).fence(),
            wr::Send::new(buf()).solicited(),
            wr::Send::new(buf()),
            [FENCE, SOLICITED, 0],
        )
    }};
}

/// Every posting function, in a profile that adds `$last` to the last work request of a list.
macro_rules! every_way {
    ($profile:ty, $last:expr) => {{
        let mut n = Noted::<$profile>::new();
        let (fence, solicited, plain, own) = three!(n);
        assert!(n.qp.post_send(fence).is_err());
        assert!(n.qp.post_send(solicited).is_err());
        assert!(n.qp.post_send(plain).is_err());
        assert_eq!(flags(), own.map(|flags| flags | $last));
        let listed = [own[0], own[1], own[2] | $last];
        let (fence, solicited, plain, _) = three!(n);
        assert!(post_send!(n.qp, [fence, solicited, plain]).is_err());
        assert_eq!(flags(), listed);
        let mut slots = SendSlots::<4>::new();
        for extends in [false, true] {
            let (fence, solicited, plain, _) = three!(n);
            let mut list = n.qp.send_list(&mut slots);
            if extends {
                list.extend([fence]).unwrap();
                list.extend([solicited]).unwrap();
                list.extend([plain]).unwrap();
            } else {
                list.push(fence).unwrap();
                list.push(solicited).unwrap();
                list.push(plain).unwrap();
            }
            assert!(list.post().is_err());
            assert_eq!(flags(), listed);
        }
        assert!(n.qp.post_send(wr::Send::inline(b"x").fence()).is_err());
        assert_eq!(flags(), [INLINE | FENCE | $last]);
        assert_eq!(n.pool.available(), n.pool.count());
    }};
}

#[test]
fn the_flags_that_were_asked_for() {
    every_way!(DefaultProfile, 0);
    every_way!(Chosen, SIGNALED);
}

#[test]
fn the_flags_of_what_is_not_signaled() {
    let mut n = Noted::<Chosen>::new();
    let (fence, solicited, plain, own) = three!(n);
    assert!(n.qp.post_send_unsignaled(fence).is_err());
    assert!(n.qp.post_send_unsignaled(solicited).is_err());
    assert!(n.qp.post_send_unsignaled(plain).is_err());
    assert!(n.qp.post_send_unsignaled(wr::Send::inline(b"x").fence().signaled()).is_err());
    assert_eq!(flags(), [own[0], own[1], own[2], INLINE | FENCE | SIGNALED]);
    let (fence, solicited, plain, _) = three!(n);
    let mut slots = SendSlots::<4>::new();
    let mut list = n.qp.send_list(&mut slots);
    list.push(fence).unwrap();
    list.push(solicited).unwrap();
    list.push(plain).unwrap();
    assert!(list.post_unsignaled().is_err());
    assert_eq!(flags(), own);
    let (fence, solicited, plain, _) = three!(n);
    assert!(post_send!(n.qp, [fence, solicited, plain], unsignaled).is_err());
    assert_eq!(flags(), own);
    let (fence, solicited, plain, _) = three!(n);
    assert!(
        post_send!(n.qp, [fence, solicited, wr::Send::inline(b"x"), plain.fence()], unsignaled)
            .is_err()
    );
    assert_eq!(flags(), [own[0], own[1], INLINE, FENCE | SIGNALED]);
    // A list that fills the queue ends with a completion (R9.8).
    let (fence, solicited, plain, _) = three!(n);
    let mut list = n.qp.send_list(&mut slots);
    list.push(fence).unwrap();
    list.push(solicited).unwrap();
    list.push(wr::Send::inline(b"x")).unwrap();
    list.push(plain).unwrap();
    assert!(list.post_unsignaled().is_err());
    assert_eq!(flags(), [own[0], own[1], INLINE, SIGNALED]);
}

#[test]
fn the_flags_and_elements_of_lists() {
    crate::profile! { Lists { entry: BufList, max_send_sge: 2 } }
    let mut n = Noted::<Lists>::new();
    let list = |count| (0..count).map(|_| n.pool.take().unwrap()).collect::<Vec<_>>();
    for count in [1, 2] {
        let bufs: BufList = list(count).into_iter().collect();
        assert!(n.qp.post_send(wr::Send::new(bufs)).is_err());
        assert_eq!(POSTED.take(), [(0, count)]);
    }
    let [one, two] = <[Buf; 2]>::try_from(list(2)).unwrap();
    assert!(n.qp.post_send(wr::Send::new([one, two]).solicited()).is_err());
    assert_eq!(POSTED.take(), [(SOLICITED, 2)]);
}

#[test]
fn the_flags_and_elements_of_the_callers_books() {
    let mut n = Noted::<Loose>::new();
    let region = n.pd.register::<LocalWrite>(64).unwrap();
    let piece = |range| wr::Piece::new(&region, range).unwrap();
    let two = || wr::Sge::new(1, [piece(0..4), piece(4..8)]);
    let one = || wr::Sge::new(2, [piece(0..4)]);
    // SAFETY: nothing is posted, because the provider rejects it.
    let _ = unsafe { n.qp.post_send_unchecked(wr::Send::new(two())) }.unwrap_err();
    // SAFETY: nothing is posted, because the provider rejects it.
    let _ =
        unsafe { n.qp.post_send_unchecked(wr::Send::new(one().inline()).signaled()) }.unwrap_err();
    // SAFETY: nothing is posted, because the provider rejects it.
    let _ = unsafe { n.qp.post_send_unchecked(wr::Send::new(one().inline()).fence()) }.unwrap_err();
    assert_eq!(POSTED.take(), [(0, 2), (INLINE | SIGNALED, 1), (INLINE | FENCE, 1)]);
    // Exactly as many as there are slots.
    let mut slots = SendSlots::<3, 2>::new();
    let (verb, errno) = ("ibv_post_send", libc::ENOMEM);
    let refused = RawPostError { verb, errno, bad_wr: Some(0) };
    // SAFETY: nothing is posted, because the provider rejects it.
    let list = |qp: &mut QueuePair<_, _, _>, slots: &mut _, n| unsafe {
        qp.post_send_list_unchecked(slots, n, |i| {
            wr::Send::new(wr::Sge::new(i as u64, [piece(0..4)]))
        })
    };
    for posted in [1, 2, 3] {
        let error = list(&mut n.qp, &mut slots, posted).unwrap_err();
        assert_eq!(error, refused);
        assert_eq!(POSTED.take(), vec![(0, 1); posted]);
    }
    let error = list(&mut n.qp, &mut slots, 4).unwrap_err();
    assert_eq!(error, refused);
    list(&mut n.qp, &mut slots, 0).unwrap();
    assert_eq!(POSTED.take(), []);
}

/// A prepared work request has the flags that it was last filled with, and the flags of the post.
#[test]
fn the_flags_of_what_is_prepared() {
    let mut n = Noted::<Chosen>::new();
    let mut send = wr::Send::new(wr::Placeholder).prepare();
    for (is_solicited, own) in [(false, 0), (true, SOLICITED), (false, 0)] {
        let refilled = wr::Send::new(wr::Placeholder);
        send.refill(if is_solicited { refilled.solicited() } else { refilled });
        assert!(n.qp.post_prepared(&mut send, n.pool.take().unwrap()).is_err());
        assert!(n.qp.post_prepared_unsignaled(&mut send, n.pool.take().unwrap()).is_err());
        assert!(n.qp.post_prepared(&mut send, n.pool.take().unwrap()).is_err());
        assert_eq!(flags(), [own | SIGNALED, own, own | SIGNALED]);
    }
    let mut inline = wr::Send::inline(b"x").solicited().fence().prepare();
    assert!(n.qp.post_prepared_inline(&mut inline).is_err());
    assert_eq!(flags(), [INLINE | SOLICITED | FENCE | SIGNALED]);
}

/// A bind and LOCAL_INV have no elements, and only requested flags. (If READs may write to open
/// memory, each work request sets IBV_SEND_SIGNALED; R18.18.)
/// Proves R18.18.
#[test]
fn the_flags_and_elements_of_windows() {
    crate::profile! { Windows { entry: AnyBuf } }
    let mut n = Noted::<Windows>::new();
    let region = n.pd.register::<crate::ext::windows::Windowed<LocalWrite>>(64).unwrap();
    let bind = |qp: &mut QueuePair<_, _, Windows>| {
        ext::windows::BindMw::<RemoteRead>::new(qp.alloc_mw().unwrap(), &region, 0..8).unwrap()
    };
    let (plain, fenced) = (bind(&mut n.qp), bind(&mut n.qp).fence());
    assert!(n.qp.post_send(plain).is_err());
    assert!(n.qp.post_send(fenced).is_err());
    assert_eq!(POSTED.take(), [(SIGNALED, 0), (FENCE | SIGNALED, 0)]);
}
