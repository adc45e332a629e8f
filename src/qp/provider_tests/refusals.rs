//! The returned buffers when the provider rejects a list, with or without `bad_wr`.

use super::*;
use crate::memory::header::Handle;

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

/// C's manual pages specify an errno. Some providers return -1 and set errno, or use the kernel's
/// sign.
#[test]
fn a_refusal_is_an_errno_however_the_provider_returns_it() {
    let refused = PostErrorKind::Refused { errno: libc::EINVAL };
    for (code, errno) in [(libc::EINVAL, libc::EPERM), (-libc::EINVAL, 0), (-1, libc::EINVAL)] {
        let mut it = Alone::<DefaultProfile>::new();
        ANSWER.set(Answer::Code(code, errno));
        let error = it.qp.post_send(wr::Send::inline(&[1])).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (refused, 0), "{code}");
        let error = it.qp.post_recv(wr::Recv::new(it.pool.take().unwrap())).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (refused, 0), "{code}");
        let mut it = Alone::<Loose>::new();
        ANSWER.set(Answer::Code(code, errno));
        let region = it.pd.register::<LocalWrite>(8).unwrap();
        let sge = wr::Sge::new(1, [wr::Piece::new(&region, 0..4).unwrap()]);
        // SAFETY: nothing is posted, because the provider rejects it.
        let error = unsafe { it.qp.post_send_unchecked(wr::Send::new(sge)) }.unwrap_err();
        assert_eq!((error.errno, error.bad_wr), (libc::EINVAL, Some(0)), "{code}");
    }
}

/// Rejects lists of sends at each index, after the counters have wrapped once.
fn sends_refused<P: Profile<Entry = Buf, Receive = OwnRq, Threads = AnyThread, Initiator = Reads>>(
    mut finish: impl FnMut(&mut Alone<P>),
) where
    P::MaxSendSge: crate::work::limits::Sges<1>,
    P::Posting: crate::rules::Writes,
{
    for accepted in 0..4 {
        let mut it = Alone::<P>::new();
        let region = it.pd.register::<RemoteWrite>(64).unwrap();
        let to = region.remote().write();
        for _ in 0..if cfg!(miri) { 2 } else { 40 } {
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

/// Proves R9.1.
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

/// Proves R9.1.
#[test]
fn receives_refused_from_each_index_on() {
    for (accepted, n) in (1..=4).flat_map(|n| (0..n).map(move |accepted| (accepted, n))) {
        let mut it = Alone::<DefaultProfile>::new();
        let mut bufs = it.bufs(n as u8);
        if n == 1 {
            // Received into once, so that the post needs no checks.
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
        let back: Vec<Buf> = error.into_rejected().collect();
        assert!(back.iter().all(|buf| buf.header().counter().is_null()), "with no queue");
        assert_eq!(labels(back.into_iter()), (accepted as u8..n as u8).collect::<Vec<_>>());
        assert_eq!((it.qp.recvs_outstanding(), it.qp.recv_room()), (accepted, 8 - accepted));
        // Like any queue, except for the room that is taken.
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
    // SAFETY: its context is, too, and nothing else uses it.
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
