//! What reaches the provider: each field of a work request that a program asked for, and no other.

#![allow(unsafe_code)] // puts a provider's function in place

use std::cell::{Cell, RefCell};
use std::ffi::c_int;

use super::*;
use crate::loopback::Fabric;
use crate::memory::Raw;
use crate::post::{PostErrorKind, RawPostError};
use crate::prelude::*;
use crate::qp::Drained;
use crate::sys::types::{ibv_cq, ibv_recv_wr, ibv_send_flags as Flag, ibv_send_wr, ibv_wc};

crate::profile! { Chosen { signaling: Selective } }
crate::profile! { Loose { signaling: Selective, max_send_sge: 2, entry: Raw } }

const FENCE: u32 = Flag::IBV_SEND_FENCE.0;
const SIGNALED: u32 = Flag::IBV_SEND_SIGNALED.0;
const SOLICITED: u32 = Flag::IBV_SEND_SOLICITED.0;
const INLINE: u32 = Flag::IBV_SEND_INLINE.0;

thread_local! {
    static POSTED: RefCell<Vec<(u32, i32)>> = const { RefCell::new(Vec::new()) };
}

/// Notes flags and number of elements of each work request, and refuses them all, so that their
/// entries come back.
unsafe extern "C" fn noting(
    _: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let mut wr = first;
    while !wr.is_null() {
        // SAFETY: the caller gives a list of work requests.
        let this = unsafe { &*wr };
        POSTED.with_borrow_mut(|posted| posted.push((this.send_flags, this.num_sge)));
        wr = this.next;
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
        let context = unsafe { (*qp.core.qp()).context };
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
            wr::Send::new(buf()).fence(),
            wr::Send::new(buf()).solicited(),
            wr::Send::new(buf()),
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
fn the_flags_and_elements_of_the_callers_books() {
    let mut n = Noted::<Loose>::new();
    let region = n.pd.register::<LocalWrite>(64).unwrap();
    let piece = |range| wr::Piece::new(&region, range).unwrap();
    let two = || wr::Sge::new(1, [piece(0..4), piece(4..8)]);
    let one = || wr::Sge::new(2, [piece(0..4)]);
    // SAFETY: nothing is posted, as the provider refuses.
    let _ = unsafe { n.qp.post_send_unchecked(wr::Send::new(two())) }.unwrap_err();
    // SAFETY: nothing is posted, as the provider refuses.
    let _ =
        unsafe { n.qp.post_send_unchecked(wr::Send::new(one().inline()).signaled()) }.unwrap_err();
    // SAFETY: nothing is posted, as the provider refuses.
    let _ = unsafe { n.qp.post_send_unchecked(wr::Send::new(one().inline()).fence()) }.unwrap_err();
    assert_eq!(POSTED.take(), [(0, 2), (INLINE | SIGNALED, 1), (INLINE | FENCE, 1)]);
    // As many as there are slots, and not one more.
    let mut slots = SendSlots::<3, 2>::new();
    // SAFETY: nothing is posted, as the provider refuses.
    let list = |qp: &mut QueuePair<_, _, _>, slots: &mut _, n| unsafe {
        qp.post_send_list_unchecked(slots, n, |i| {
            wr::Send::new(wr::Sge::new(i as u64, [piece(0..4)]))
        })
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

/// How a provider refuses, for the next posts.
#[derive(Clone, Copy)]
enum Answer {
    /// It does not: the device is asked.
    Device,
    /// From the work request of this index on.
    From(usize),
    /// It does not say from where.
    Silent,
}

type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
type PostRecv = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

thread_local! {
    static ANSWER: Cell<Answer> = const { Cell::new(Answer::Device) };
    static OWN: Cell<(Option<PostSend>, Option<PostRecv>)> = const { Cell::new((None, None)) };
}

unsafe extern "C" fn answering_sends(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller gives a list of work requests.
    let wr = unsafe { &*first };
    POSTED.with_borrow_mut(|posted| posted.push((wr.send_flags, wr.num_sge)));
    match ANSWER.get() {
        // SAFETY: the arguments are the caller's, who keeps the contract of the device's own
        // function.
        Answer::Device => OWN.get().0.map_or(0, |post| unsafe { post(qp, first, bad) }),
        Answer::Silent => libc::EINVAL,
        Answer::From(index) => {
            // SAFETY: the list has so many.
            let refused = (0..index).fold(first, |wr, _| unsafe { (*wr).next });
            // SAFETY: the caller gives a place to write to.
            unsafe { *bad = refused };
            libc::ENOMEM
        }
    }
}

unsafe extern "C" fn answering_receives(
    qp: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    match ANSWER.get() {
        // SAFETY: the arguments are the caller's, who keeps the contract of the device's own
        // function.
        Answer::Device => OWN.get().1.map_or(0, |post| unsafe { post(qp, first, bad) }),
        Answer::Silent => libc::EINVAL,
        Answer::From(index) => {
            // SAFETY: the list has so many.
            let refused = (0..index).fold(first, |wr, _| unsafe { (*wr).next });
            // SAFETY: the caller gives a place to write to.
            unsafe { *bad = refused };
            libc::ENOMEM
        }
    }
}

/// A queue pair that is its own peer, on a device whose answers are chosen.
struct Alone<P: Profile> {
    qp: QueuePair<Rc, Rts, P>,
    cq: CompletionQueue<P::Entry>,
    pd: ProtectionDomain,
    pool: Pool,
}

impl<P: Profile<Receive = OwnRq, Initiator = Reads>> Alone<P> {
    fn new() -> Self {
        let context = Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(64).unwrap();
        let pool = pd.create_pool(16, 64).unwrap();
        let qp = pd.create_qp::<Rc, P>(&cq, &cq, Depth { send: 8, recv: 8 }).unwrap();
        let (number, psn) = (Qpn::try_from(qp.qp_num()).unwrap(), Psn::try_from(1).unwrap());
        let address = AddressVector::roce(1, context.query_gid(1, 1).unwrap(), 1);
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        let qp = qp.modify(init).unwrap().modify(RcRtr::new(address, number, psn)).unwrap();
        let qp = qp.modify(RcRts::new(psn, ReadDepth::ONE)).unwrap();
        // SAFETY: the queue pair is alive.
        let context = unsafe { (*qp.core.qp()).context };
        // SAFETY: its context is, too, and nobody else uses it.
        let ops = unsafe { &mut (*context).ops };
        OWN.set((
            ops.post_send.replace(answering_sends),
            ops.post_recv.replace(answering_receives),
        ));
        ANSWER.set(Answer::Device);
        POSTED.take();
        Alone { qp, cq, pd, pool }
    }

    fn bufs(&self, n: u8) -> Vec<Buf> {
        let bufs = (0..n).map(|i| {
            let mut buf = self.pool.take().unwrap();
            buf.copy_from(&[i]).unwrap();
            buf
        });
        bufs.collect()
    }
}

/// Everything that was posted is back, and says what it is.
fn labels(bufs: impl Iterator<Item = Buf>) -> Vec<u8> {
    bufs.map(|buf| buf[0]).collect()
}

#[test]
fn a_buffer_that_was_sent_and_became_empty_is_no_element() {
    let mut it = Alone::<DefaultProfile>::new();
    let region = it.pd.register::<RemoteWrite>(64).unwrap();
    let to = region.remote().write();
    let mut buf = it.bufs(1).remove(0);
    for (len, elements) in [(1, 1), (0, 0), (5, 1), (0, 0), (0, 0), (1, 1)] {
        buf.set_len(len);
        it.qp.post_send(wr::RdmaWrite::new(buf, to)).unwrap();
        assert_eq!(POSTED.take()[0].1, elements, "{len} bytes");
        buf = loop {
            if let Some(completion) = it.cq.poll_one().unwrap() {
                break completion.into_entry().unwrap();
            }
        };
        assert_eq!(buf.len(), len);
    }
}

/// A refusal at each index of lists of sends, where the books have been around once.
fn sends_refused<P: Profile<Entry = Buf, Receive = OwnRq, Initiator = Reads>>(
    mut finish: impl FnMut(&mut Alone<P>),
) where
    crate::work::flags::Plain: crate::rules::SignaledOn<P::Signaling>,
    P::MaxSendSge: crate::work::limits::Sges<1>,
{
    for accepted in 0..4 {
        let mut it = Alone::<P>::new();
        let region = it.pd.register::<RemoteWrite>(64).unwrap();
        let to = region.remote().write();
        for _ in 0..40 {
            let bufs = it.bufs(8);
            let mut slots = SendSlots::<8>::new();
            let mut list = it.qp.send_list(&mut slots);
            list.extend(bufs.into_iter().map(|buf| wr::RdmaWrite::new(buf, to))).unwrap();
            list.post().unwrap();
            finish(&mut it);
        }
        let bufs = it.bufs(4);
        let mut slots = SendSlots::<8>::new();
        let mut list = it.qp.send_list(&mut slots);
        list.extend(bufs.into_iter().map(|buf| wr::RdmaWrite::new(buf, to))).unwrap();
        ANSWER.set(Answer::From(accepted));
        let error = list.post().unwrap_err();
        assert_eq!(
            (error.kind(), error.accepted()),
            (PostErrorKind::Refused { errno: libc::ENOMEM }, accepted)
        );
        assert!(error.is_full());
        assert_eq!(labels(error.into_rejected()), (accepted as u8..4).collect::<Vec<_>>());
        assert_eq!((it.qp.sends_outstanding(), it.qp.send_room()), (accepted, 8 - accepted));
        assert_eq!(it.pool.available(), 16 - accepted);
    }
}

#[test]
fn sends_refused_from_each_index_on() {
    sends_refused::<DefaultProfile>(|it| {
        let mut left = 8;
        while left != 0 {
            left -= it.cq.poll().unwrap().count();
        }
    });
    sends_refused::<Chosen>(|it| {
        loop {
            if let Some(completion) = it.cq.poll_one().unwrap() {
                let released = it.qp.complete(completion).unwrap().released;
                assert_eq!(labels(released), [0, 1, 2, 3, 4, 5, 6, 7]);
                break;
            }
        }
    });
}

#[test]
fn receives_refused_from_each_index_on() {
    for (accepted, n) in (1..=4).flat_map(|n| (0..n).map(move |accepted| (accepted, n))) {
        let mut it = Alone::<DefaultProfile>::new();
        let mut bufs = it.bufs(n as u8);
        if n == 1 {
            // Received into once, so that nothing need be looked at.
            it.qp.post_recv(wr::Recv::new(bufs.remove(0))).unwrap();
            it.qp.post_send(wr::Send::inline(&[0])).unwrap();
            while bufs.is_empty() {
                bufs.extend(it.cq.poll().unwrap().filter_map(Completion::into_entry));
            }
            while it.qp.sends_outstanding() != 0 {
                it.cq.poll().unwrap().for_each(drop);
            }
        }
        ANSWER.set(Answer::From(accepted));
        let error = if n == 1 {
            it.qp.post_recv(wr::Recv::new(bufs.into_iter().next().unwrap())).unwrap_err()
        } else {
            let mut slots = RecvSlots::<8>::new();
            let mut list = it.qp.recv_list(&mut slots);
            list.extend(bufs.into_iter().map(wr::Recv::new)).unwrap();
            list.post().unwrap_err()
        };
        assert_eq!(
            (error.kind(), error.accepted()),
            (PostErrorKind::Refused { errno: libc::ENOMEM }, accepted)
        );
        assert!(error.is_full());
        assert_eq!(labels(error.into_rejected()), (accepted as u8..n as u8).collect::<Vec<_>>());
        assert_eq!((it.qp.recvs_outstanding(), it.qp.recv_room()), (accepted, 8 - accepted));
        // As good as any queue, but for what was taken.
        ANSWER.set(Answer::Device);
        for buf in it.bufs(8 - accepted as u8) {
            it.qp.post_recv(wr::Recv::new(buf)).unwrap();
        }
        assert!(it.qp.post_recv(wr::Recv::empty()).unwrap_err().is_full());
    }
}

#[test]
fn receives_after_one_of_unknown_outcome() {
    let mut it = Alone::<DefaultProfile>::new();
    let bufs = it.bufs(3);
    it.qp.post_recv(wr::Recv::new(it.pool.take().unwrap())).unwrap();
    ANSWER.set(Answer::Silent);
    let mut slots = RecvSlots::<8>::new();
    let mut list = it.qp.recv_list(&mut slots);
    list.extend(bufs.into_iter().map(wr::Recv::new)).unwrap();
    let error = list.post().unwrap_err();
    assert_eq!(
        (error.kind(), error.accepted()),
        (PostErrorKind::OutcomeUnknown { errno: libc::EINVAL }, 0)
    );
    assert!(!error.is_full());
    assert_eq!(error.into_rejected().count(), 0);
    ANSWER.set(Answer::Device);
    for way in 0..3 {
        let mut bufs = it.bufs(2).into_iter().map(wr::Recv::new);
        let mut next = || bufs.next().unwrap();
        let mut slots = RecvSlots::<8>::new();
        let error = match way {
            0 => it.qp.post_recv(next()).unwrap_err(),
            1 => post_recv!(it.qp, [next(), next()]).unwrap_err(),
            _ => {
                let mut list = it.qp.recv_list(&mut slots);
                list.push(next()).and_then(|()| list.post()).unwrap_err()
            }
        };
        assert!(matches!(
            error.kind(),
            PostErrorKind::Poisoned | PostErrorKind::QueueFull { room: 0, .. }
        ));
        drop((error, bufs));
        assert_eq!((it.pool.available(), it.qp.recv_room()), (16 - 4, 0));
    }
}

#[test]
fn a_shared_receive_queue_after_one_of_unknown_outcome() {
    let it = Alone::<DefaultProfile>::new();
    let mut srq: SharedReceiveQueue<Rc> = it.pd.create_srq(&it.pool).unwrap();
    // SAFETY: the queue pair is alive.
    let context = unsafe { (*it.qp.core.qp()).context };
    // SAFETY: its context is, too, and nobody else uses it.
    let own = unsafe { (*context).ops.post_srq_recv.replace(silent_srq) };
    let error = srq.post_srq_recv(wr::Recv::new(it.pool.take().unwrap())).unwrap_err();
    assert_eq!(
        (error.kind(), error.accepted()),
        (PostErrorKind::OutcomeUnknown { errno: libc::EINVAL }, 0)
    );
    assert_eq!((error.into_rejected().count(), it.pool.available()), (0, 15));
    // SAFETY: the context is still live, and nothing else uses it.
    unsafe { (*context).ops.post_srq_recv = own };
    for _ in 0..2 {
        let error = srq.post_srq_recv(wr::Recv::new(it.pool.take().unwrap())).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (PostErrorKind::Poisoned, 0));
        assert_eq!((error.into_rejected().count(), it.pool.available()), (1, 15));
        let (one, two) = (it.pool.take().unwrap(), it.pool.take().unwrap());
        let error = post_srq_recv!(srq, [wr::Recv::new(one), wr::Recv::new(two)]).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (PostErrorKind::Poisoned, 0));
        assert_eq!((error.into_rejected().count(), it.pool.available()), (2, 15));
    }
}

unsafe extern "C" fn silent_srq(
    _: *mut crate::sys::types::ibv_srq,
    _: *mut ibv_recv_wr,
    _: *mut *mut ibv_recv_wr,
) -> c_int {
    libc::EINVAL
}

/// The device has no room for the send that a drain posts: it waits until there is.
#[test]
fn a_drain_whose_last_send_finds_no_room_at_first() {
    let mut it = Alone::<Chosen>::new();
    let region = it.pd.register::<RemoteWrite>(64).unwrap();
    let to = region.remote().write();
    for buf in it.bufs(3) {
        let _ = it.qp.post_send_unsignaled(wr::RdmaWrite::new(buf, to)).unwrap();
    }
    let Alone { qp, mut cq, pool, .. } = it;
    let mut qp = qp.to_error().unwrap();
    ANSWER.set(Answer::From(0));
    // SAFETY: the queue pair is alive.
    let context = unsafe { (*qp.core.qp()).context };
    // SAFETY: its context is, too, and nobody else uses it.
    let own = unsafe { (*context).ops.poll_cq.replace(poll_then_room) };
    // Longer than the ring.
    LATE.set((own, 400));
    let mut found = Vec::new();
    qp.drain(&mut cq, |drained| match drained {
        Drained::Entry(buf) => found.push(buf[0]),
        _ => panic!("a completion of another queue"),
    })
    .unwrap();
    assert_eq!((found, qp.sends_outstanding(), pool.available()), (vec![0, 1, 2], 0, 16));
    // As good as any: what is posted now is flushed, in order.
    for i in 3..6 {
        let mut buf = pool.take().unwrap();
        buf.copy_from(&[i]).unwrap();
        let _ = qp.post_send_unsignaled(wr::RdmaWrite::new(buf, to)).unwrap();
    }
    let mut found = Vec::new();
    qp.drain(&mut cq, |drained| match drained {
        Drained::Entry(buf) => found.push(buf[0]),
        _ => panic!("a completion of another queue"),
    })
    .unwrap();
    assert_eq!((found, qp.sends_outstanding(), pool.available()), (vec![3, 4, 5], 0, 16));
}

/// Nobody knows what the device has after a post without an outcome, of sends or of receives: no
/// drain waits for it.
#[test]
fn a_queue_of_unknown_outcome_is_not_drained() {
    for sends in [true, false] {
        let mut it = Alone::<DefaultProfile>::new();
        ANSWER.set(Answer::Silent);
        let buf = it.pool.take().unwrap();
        match sends {
            true => drop(it.qp.post_send(wr::Send::new(buf)).unwrap_err()),
            false => drop(it.qp.post_recv(wr::Recv::new(buf)).unwrap_err()),
        }
        let mut qp = it.qp.to_error().unwrap();
        let error = qp.drain(&mut it.cq, |_| ()).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EIO));
    }
}

/// Finds nothing some times, and then there is room.
unsafe extern "C" fn poll_then_room(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    if LATE.get().1 == 1 {
        ANSWER.set(Answer::Device);
    }
    // SAFETY: the arguments are those of a poll, whose contract the caller keeps.
    unsafe { poll_late(cq, entries, wc) }
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
    // SAFETY: the arguments are the caller's, who keeps the contract of the device's own poll.
    poll.map_or(0, |poll| unsafe { poll(cq, entries, wc) })
}

/// A queue pair died, a poll finds nothing, and then there are completions of another after all:
/// each comes, once and in order, whichever way one polls.
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
            buf.copy_from(&[i]).unwrap();
            qp.post_recv(wr::Recv::new(buf)).unwrap();
        }
        let qp = qp.to_error().unwrap();
        drop(dead);
        // SAFETY: the queue pair is alive.
        let context = unsafe { (*qp.core.qp()).context };
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
        // SAFETY: the context is still live, and nothing else uses it.
        unsafe { (*context).ops.poll_cq = own };
    }
}

/// What a work request is, as far as a drain's own send has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    opcode: u32,
    flags: u32,
    elements: i32,
    has_ah: bool,
    /// Whether it goes to QP 0 or a privileged Q_Key, where programs may not send.
    is_privileged: bool,
}

thread_local! {
    static FORMS: RefCell<Vec<Form>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn noting_forms(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller gives a work request, and on UD it has that part of the union.
    let (wr, ud) = unsafe { (&*first, (*first).wr.ud) };
    let form = Form {
        opcode: wr.opcode,
        flags: wr.send_flags,
        elements: wr.num_sge,
        has_ah: !ud.ah.is_null(),
        is_privileged: ud.remote_qpn == 0 || ud.remote_qkey >> 31 != 0,
    };
    FORMS.with_borrow_mut(|forms| forms.push(form));
    // SAFETY: the arguments are the caller's, who keeps the contract of the device's own function.
    OWN.get().0.map_or(0, |post| unsafe { post(qp, first, bad) })
}

/// A device may look at what it will only flush, so a drain's own send is one that it could send.
#[test]
fn what_a_drain_sends() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let mut sends = context.create_cq::<Buf>(64).unwrap();
    let mut receives = context.create_cq::<Buf>(64).unwrap();
    let depth = Depth { send: 4, recv: 4 };
    let qp = pd.create_qp::<Ud, Chosen>(&sends, &receives, depth).unwrap();
    let qkey = Qkey::new(0x1111).unwrap();
    let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() }).unwrap();
    let qp = qp.modify(UdRtr::default()).unwrap();
    let mut qp = qp.modify(UdRts { sq_psn: Psn::new(1).unwrap(), qkey: None }).unwrap();
    let gid = context.query_gid(1, 1).unwrap();
    let ah = pd.create_ah(AddressVector::roce(1, gid, 1)).unwrap();
    let address_handle = qp.add_address_handle(ah).unwrap();
    let qpn = Qpn::new(qp.qp_num()).unwrap();
    let to = crate::wr::Destination { address_handle, qpn, qkey };
    let _ = qp.post_send_unsignaled(wr::Send::inline(b"never told of").to(to)).unwrap();
    // SAFETY: the queue pair is alive.
    let context = unsafe { (*qp.core.qp()).context };
    // SAFETY: its context is, too, and nobody else uses it.
    let own = unsafe { (*context).ops.post_send.replace(noting_forms) };
    OWN.set((own, None));
    qp.post_recv(crate::wr::Recv::empty()).unwrap();
    let mut qp = qp.to_error().unwrap();
    // Receives need none.
    qp.drain(&mut receives, |_| panic!("there is no entry")).unwrap();
    assert_eq!((FORMS.take(), qp.sends_outstanding()), (vec![], 1));
    qp.drain(&mut sends, |_| panic!("inline data has no entry")).unwrap();
    assert_eq!(qp.sends_outstanding(), 0);
    let send = crate::sys::types::ibv_wr_opcode::IBV_WR_SEND;
    let form =
        Form { opcode: send, flags: SIGNALED, elements: 0, has_ah: true, is_privileged: false };
    assert_eq!(FORMS.take(), [form]);
}

unsafe extern "C" fn poll_with_reason(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the arguments are the caller's, who keeps the contract of the device's own poll.
    let count = LATE.get().0.map_or(0, |poll| unsafe { poll(cq, entries, wc) });
    for i in 0..count.max(0) as usize {
        // SAFETY: the device wrote so many.
        unsafe { (*wc.add(i)).vendor_err = 0x77 + i as u32 };
    }
    count
}

/// The vendor's own reason of a failure is passed on.
#[test]
fn a_failure_has_the_vendors_reason() {
    let mut it = Alone::<DefaultProfile>::new();
    for buf in it.bufs(2) {
        it.qp.post_recv(wr::Recv::new(buf)).unwrap();
    }
    let qp = it.qp.to_error().unwrap();
    // SAFETY: the queue pair is alive.
    let context = unsafe { (*qp.core.qp()).context };
    // SAFETY: its context is, too, and nobody else uses it.
    let own = unsafe { (*context).ops.poll_cq.replace(poll_with_reason) };
    LATE.set((own, 0));
    let reasons = it.cq.poll().unwrap().map(|done| done.status().unwrap_err().vendor_err);
    assert_eq!(reasons.collect::<Vec<_>>(), [0x77, 0x78]);
}
