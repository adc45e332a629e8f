//! What reaches the provider: each field of a work request that a program asked for, and no other.

#![allow(unsafe_code)] // puts a provider's function in place

use std::cell::{Cell, RefCell};
use std::ffi::c_int;

use super::*;
use crate::loopback::Fabric;
use crate::sys::types::{ibv_cq, ibv_send_flags as Flag, ibv_send_wr, ibv_wc};
use crate::*;

crate::profile! { Chosen { signaling: Selective } }
crate::profile! { Loose { signaling: Selective, max_send_sge: 2, entry: Raw } }

const FENCE: u32 = Flag::IBV_SEND_FENCE.0;
const SIGNALED: u32 = Flag::IBV_SEND_SIGNALED.0;
const SOLICITED: u32 = Flag::IBV_SEND_SOLICITED.0;
const INLINE: u32 = Flag::IBV_SEND_INLINE.0;

thread_local! {
    static POSTED: RefCell<Vec<(u32, i32)>> = const { RefCell::new(Vec::new()) };
}

/// Notes flags and number of elements of each work request, and refuses them all, so that their entries come back.
unsafe extern "C" fn noting(
    _: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let mut wr = first;
    while !wr.is_null() {
        // SAFETY: the caller gives a list of work requests.
        let (flags, num_sge) = unsafe { ((*wr).send_flags, (*wr).num_sge) };
        POSTED.with_borrow_mut(|posted| posted.push((flags, num_sge)));
        // SAFETY: as above.
        wr = unsafe { (*wr).next };
    }
    // SAFETY: the caller gives a writable pointer.
    unsafe { *bad = first };
    libc::ENOMEM
}

/// The flags of what was posted since the last call.
fn flags() -> Vec<u32> {
    POSTED.take().into_iter().map(|(flags, _)| flags).collect()
}

/// A queue pair of 4 sends that is said to be in RTS, and whose provider notes.
struct Noted<P: Profile> {
    qp: QueuePair<Rc, Rts, P>,
    pd: ProtectionDomain,
    pool: Pool,
    _cq: CompletionQueue<P::Entry>,
}

impl<P: Profile<Receive = OwnRq>> Noted<P> {
    fn new() -> Self {
        let context = Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(32).unwrap();
        let pool = pd.create_pool(8, 64).unwrap();
        let qp = pd.create_qp::<Rc, P>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
        let qp: QueuePair<Rc, Rts, P> = QueuePair::from_core(qp.core);
        // SAFETY: the queue pair is alive.
        let context = unsafe { (*qp.core.qp).context };
        // SAFETY: its context is, too, and nobody else uses it.
        unsafe { (*context).ops.post_send = Some(noting) };
        Noted { qp, pd, pool, _cq: cq }
    }
}

/// Three sends, of which one waits, one wakes the peer and one does neither.
macro_rules! three {
    ($n:ident) => {{
        let buf = || $n.pool.take().unwrap();
        (
            Send::new(buf()).fence(),
            Send::new(buf()).solicited(),
            Send::new(buf()),
            [FENCE, SOLICITED, 0],
        )
    }};
}

/// Every way to post, in a profile where the last work request of a list has `$last` besides.
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
        assert!(n.qp.post_send(Send::inline(b"x").fence()).is_err());
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
    assert!(n.qp.post_send_unsignaled(Send::inline(b"x").fence().signaled()).is_err());
    assert_eq!(flags(), [own[0], own[1], own[2], INLINE | FENCE | SIGNALED]);
    let (fence, solicited, plain, _) = three!(n);
    let mut slots = SendSlots::<4>::new();
    let mut list = n.qp.send_list(&mut slots);
    list.push(fence).unwrap();
    list.push(solicited).unwrap();
    list.push(plain).unwrap();
    assert!(list.post_unsignaled().is_err());
    assert_eq!(flags(), own);
    // A list that fills the queue ends with a completion (R9.8).
    let (fence, solicited, plain, _) = three!(n);
    let mut list = n.qp.send_list(&mut slots);
    list.push(fence).unwrap();
    list.push(solicited).unwrap();
    list.push(Send::inline(b"x")).unwrap();
    list.push(plain).unwrap();
    assert!(list.post_unsignaled().is_err());
    assert_eq!(flags(), [own[0], own[1], INLINE, SIGNALED]);
}

#[test]
fn the_flags_and_elements_of_the_callers_books() {
    let mut n = Noted::<Loose>::new();
    let region = n.pd.register::<LocalWrite>(64).unwrap();
    let piece = |range| Piece::new(&region, range).unwrap();
    let two = || Sge::new(1, [piece(0..4), piece(4..8)]);
    let one = || Sge::new(2, [piece(0..4)]);
    // SAFETY: nothing is posted, as the provider refuses.
    let _ = unsafe { n.qp.post_send_unchecked(Send::new(two())) }.unwrap_err();
    // SAFETY: as above.
    let _ = unsafe { n.qp.post_send_unchecked(Send::new(one().inline()).signaled()) }.unwrap_err();
    // SAFETY: as above.
    let _ = unsafe { n.qp.post_send_unchecked(Send::new(one().inline()).fence()) }.unwrap_err();
    assert_eq!(POSTED.take(), [(0, 2), (INLINE | SIGNALED, 1), (INLINE | FENCE, 1)]);
    // As many as there are slots, and not one more.
    let mut slots = SendSlots::<3, 2>::new();
    // SAFETY: as above.
    let list = |qp: &mut QueuePair<_, _, _>, slots: &mut _, n| unsafe {
        qp.post_send_list_unchecked(slots, n, |i| Send::new(Sge::new(i as u64, [piece(0..4)])))
    };
    for posted in [1, 2, 3] {
        let error = list(&mut n.qp, &mut slots, posted).unwrap_err();
        assert_eq!(error, RawPostError { errno: libc::ENOMEM, bad_wr: Some(0) });
        assert_eq!(POSTED.take(), vec![(0, 1); posted]);
    }
    list(&mut n.qp, &mut slots, 4).unwrap_err();
    list(&mut n.qp, &mut slots, 0).unwrap();
    assert_eq!(POSTED.take(), []);
}

type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;

thread_local! {
    /// The device's own poll, and how many polls find nothing before it is asked.
    static LATE: Cell<(Option<PollCq>, u32)> = const { Cell::new((None, 0)) };
}

unsafe extern "C" fn poll_late(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    let (poll, left) = LATE.get();
    if left != 0 {
        LATE.set((poll, left - 1));
        return 0;
    }
    // SAFETY: the caller's contract is that of the device's own poll.
    poll.map_or(0, |poll| unsafe { poll(cq, entries, wc) })
}

/// A queue pair died, a poll finds nothing, and then there are completions of another after all: each comes, once
/// and in order, whichever way one polls.
#[test]
fn what_a_second_look_finds_comes_once() {
    for way in 0..3 {
        let context = Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let mut cq = context.create_cq::<Buf>(64).unwrap();
        let pool = pd.create_pool(4, 64).unwrap();
        let depth = Depth { send: 4, recv: 4 };
        let dead = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        let mut qp = qp.modify(init).unwrap();
        for i in 0..3 {
            let mut buf = pool.take().unwrap();
            buf.fill(&[i]);
            qp.post_recv(Recv::new(buf)).unwrap();
        }
        let qp = qp.to_error().unwrap();
        drop(dead);
        // SAFETY: the queue pair is alive.
        let context = unsafe { (*qp.core.qp).context };
        // SAFETY: its context is, too, and nobody else uses it.
        let own = unsafe { (*context).ops.poll_cq.replace(poll_late) };
        LATE.set((own, 1));
        let (mut seen, mut empty) = (Vec::new(), 0);
        let mut see = |completion: Completion<'_, Buf>| {
            seen.push(completion.into_entry().unwrap().as_ptr().addr());
        };
        while empty < 4 {
            let found = match way {
                0 => cq.poll_one().unwrap().map(&mut see).is_some(),
                1 => cq.poll().unwrap().map(&mut see).count() != 0,
                _ => cq.poll().unwrap().take(1).map(&mut see).count() != 0,
            };
            empty += !found as u32;
        }
        assert_eq!((seen.len(), pool.available()), (3, 4));
        assert!(seen.windows(2).all(|two| two[0] < two[1]), "in order: {seen:x?}");
        assert_eq!(qp.recvs_outstanding(), 0);
        // SAFETY: as above.
        unsafe { (*context).ops.poll_cq = own };
    }
}
