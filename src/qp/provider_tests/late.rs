//! Late completions, and how a drain handles them.

use std::time::Duration;

use super::*;

/// The device has no room for the send that a drain posts, so the drain waits until there is room.
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
    // SAFETY: its context is, too, and nothing else uses it.
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
    // The queue works like any other: new work requests are flushed, in order.
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

/// A drain that was interrupted has posted the last send. The next drain does not post another one,
/// even when completions make room for it.
#[test]
fn a_drain_that_was_interrupted_posts_one_last_send() {
    let mut it = Alone::<Chosen>::new();
    let region = it.pd.register::<RemoteWrite>(64).unwrap();
    for buf in it.bufs(8) {
        it.qp.post_send(wr::RdmaWrite::new(buf, region.remote().write())).unwrap();
    }
    let Alone { qp, mut cq, pool, .. } = it;
    let mut qp = qp.to_error().unwrap();
    // SAFETY: the queue pair is alive.
    let context = unsafe { (*qp.core.qp()).context };
    // SAFETY: its context is, too, and nothing else uses it.
    let own = unsafe { (*context).ops.poll_cq.replace(poll_single) };
    LATE.set((own, 400));
    let late = qp.drain_within(&mut cq, Duration::ZERO, |_| ()).unwrap_err();
    assert_eq!((late.errno(), qp.sends_outstanding()), (Some(libc::ETIMEDOUT), 9));
    LATE.set((own, 0));
    let mut found = Vec::new();
    qp.drain(&mut cq, |drained| match drained {
        Drained::Entry(buf) => found.push(buf[0]),
        _ => panic!("a completion of another queue"),
    })
    .unwrap();
    assert_eq!((found, flags().len()), ((0..8).collect(), 9));
    assert_eq!((qp.sends_outstanding(), pool.available()), (0, 16));
}

/// After a post with unknown outcome, of sends or of receives, it is unknown what the device has.
/// No drain waits for it.
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

/// Returns 0 a few times, and then there is room.
unsafe extern "C" fn poll_then_room(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    if LATE.get().1 == 1 {
        ANSWER.set(Answer::Device);
    }
    // SAFETY: the arguments come from the caller, which keeps the contract of a poll.
    unsafe { poll_late(cq, entries, wc) }
}

type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;

thread_local! {
    /// The device's own poll, and how many polls return 0 before it is called.
    static LATE: Cell<(Option<PollCq>, u32)> = const { Cell::new((None, 0)) };
}

unsafe extern "C" fn poll_late(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    let (poll, left) = LATE.get();
    if left != 0 {
        LATE.set((poll, left - 1));
        return 0;
    }
    // SAFETY: the arguments come from the caller, which keeps the contract of the device's
    // poll.
    poll.map_or(0, |poll| unsafe { poll(cq, entries, wc) })
}

/// Like `poll_late`, one completion at a time.
unsafe extern "C" fn poll_single(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the arguments come from the caller, which keeps the contract of a poll.
    unsafe { poll_late(cq, entries.min(1), wc) }
}

/// After a queue pair ended, a poll finds nothing, and then there are completions of another after
/// all. Each is returned once and in order, by each way to poll.
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
        // SAFETY: its context is, too, and nothing else uses it.
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

/// The fields of a drain's marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    opcode: u32,
    flags: u32,
    elements: i32,
    has_ah: bool,
    /// Whether it is addressed to QP 0 or has a privileged Q_Key, which programs may not use.
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
    // SAFETY: the caller passes a work request, and on UD it has that part of the union.
    let (wr, ud) = unsafe { (&*first, (*first).wr.ud) };
    let form = Form {
        opcode: wr.opcode,
        flags: wr.send_flags,
        elements: wr.num_sge,
        has_ah: !ud.ah.is_null(),
        is_privileged: ud.remote_qpn == 0 || ud.remote_qkey >> 31 != 0,
    };
    FORMS.with_borrow_mut(|forms| forms.push(form));
    // SAFETY: the arguments come from the caller, which keeps the contract of the device's
    // function.
    OWN.get().0.map_or(0, |post| unsafe { post(qp, first, bad) })
}

/// A device may check work requests that it only flushes, so the marker of a drain is one that it
/// could send.
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
    // SAFETY: its context is, too, and nothing else uses it.
    let own = unsafe { (*context).ops.post_send.replace(noting_forms) };
    OWN.set((own, None));
    qp.post_recv(crate::wr::Recv::empty()).unwrap();
    let mut qp = qp.to_error().unwrap();
    // Receives need no marker.
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
    // SAFETY: the arguments come from the caller, which keeps the contract of the device's
    // poll.
    let count = LATE.get().0.map_or(0, |poll| unsafe { poll(cq, entries, wc) });
    for i in 0..count.max(0) as usize {
        // SAFETY: the device wrote this number of completions.
        unsafe { (*wc.add(i)).vendor_err = 0x77 + i as u32 };
    }
    count
}

/// The vendor's error code of a failure is passed on.
#[test]
fn a_failure_has_the_vendors_reason() {
    let mut it = Alone::<DefaultProfile>::new();
    for buf in it.bufs(2) {
        it.qp.post_recv(wr::Recv::new(buf)).unwrap();
    }
    let qp = it.qp.to_error().unwrap();
    // SAFETY: the queue pair is alive.
    let context = unsafe { (*qp.core.qp()).context };
    // SAFETY: its context is, too, and nothing else uses it.
    let own = unsafe { (*context).ops.poll_cq.replace(poll_with_reason) };
    LATE.set((own, 0));
    let reasons = it.cq.poll().unwrap().map(|done| done.status().unwrap_err().vendor_err);
    assert_eq!(reasons.collect::<Vec<_>>(), [0x77, 0x78]);
}
