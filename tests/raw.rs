//! The `unsafe` path: the caller chooses wr_ids, does the bookkeeping, and borrows regions.

use proverbs::completion::WcOpcode;
use proverbs::device::Gid;
use proverbs::loopback::{Fabric, Pair, Personality};
use proverbs::memory::Raw;
use proverbs::post::RawPostError;
use proverbs::prelude::*;
use proverbs::qp::UdReturn;
use proverbs::raw::AsRaw;
use proverbs::state::QpState;

profile! { Unbooked { signaling: Selective, max_send_sge: 2, max_inline: 32, entry: Raw } }

fn connect<P: Profile<Initiator = Reads>>(
    qp: QueuePair<Rc, Reset, P>,
    gid: Gid,
    peer: u32,
) -> QueuePair<Rc, Rts, P> {
    let psn = Psn::try_from(1).unwrap();
    let address = AddressVector::roce(1, gid, 1);
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let rtr = RcRtr::new(address, Qpn::try_from(peer).unwrap(), psn);
    let rts = RcRts::new(psn, ReadDepth::ONE);
    qp.modify(init).unwrap().modify(rtr).unwrap().modify(rts).unwrap()
}

/// The software device in each of its personalities.
fn personalities() -> [Personality; 5] {
    let worst = [1, 2].map(Personality::worst);
    [Personality::Plain, Personality::Rxe, Personality::Mlx5, worst[0], worst[1]]
}

/// Polls until `n` completions came. Returns each wr_id and status.
fn poll(cq: &mut CompletionQueue<Raw>, n: usize) -> Vec<(u64, Option<u32>)> {
    let mut all = Vec::new();
    for _ in 0..1000 {
        all.extend(cq.poll().unwrap().map(|wc| (wc.raw_wr_id(), wc.byte_len())));
        if all.len() >= n {
            return all;
        }
    }
    panic!("{n} completions did not come: {all:?}");
}

#[test]
fn the_callers_wr_ids_come_back() {
    let context = Fabric::new().open_device();
    let gid = context.query_gid(1, 1).unwrap();
    let pd = context.alloc_pd().unwrap();
    let (mut ca, mut cb) = (context.create_cq(32).unwrap(), context.create_cq(32).unwrap());
    let depth = Depth { send: 8, recv: 8 };
    let a = pd.create_qp::<Rc, Unbooked>(&ca, &ca, depth).unwrap();
    let b = pd.create_qp::<Rc, Unbooked>(&cb, &cb, depth).unwrap();
    let (a_num, b_num) = (a.qp_num(), b.qp_num());
    let (mut a, mut b) = (connect(a, gid, b_num), connect(b, gid, a_num));

    let region = pd.register::<RemoteAll>(64).unwrap();
    region.write_at(0, b"one two").unwrap();
    let piece = |range| wr::Piece::new(&region, range).unwrap();
    assert!(wr::Piece::new(&region, 60..65).is_err());

    let into = [(7, 32..48), (8, 48..64)].map(|(wr_id, range)| wr::Sge::new(wr_id, [piece(range)]));
    let two = wr::Sge::new(u64::MAX, [piece(0..4), piece(4..7)]);
    let inline = wr::Sge::new(3, [piece(0..3)]).inline();
    // SAFETY: the region lives to the end of the test, and its bytes are accessed only by atomics.
    // 3 bytes are within the inline capacity.
    unsafe {
        for into in into {
            b.post_recv_unchecked(wr::Recv::new(into)).unwrap();
        }
        a.post_send_unchecked(wr::Send::new(two).signaled()).unwrap();
        a.post_send_unchecked(wr::SendWithImm::new(inline, 5).signaled()).unwrap();
    }

    let sent: Vec<u64> = poll(&mut ca, 2).into_iter().map(|(wr_id, _)| wr_id).collect();
    assert_eq!(sent, [u64::MAX, 3]);
    assert_eq!(poll(&mut cb, 2), [(7, Some(7)), (8, Some(3))]);
    let mut got = [0; 7];
    region.read_at(32, &mut got).unwrap();
    assert_eq!(&got, b"one two");
}

/// The crate does not know what is outstanding, so a queue pair's booking stays until its
/// completion queue was found empty.
#[test]
fn room_stays_booked_until_the_completion_queue_is_empty() {
    let context = Fabric::new().open_device();
    let gid = context.query_gid(1, 1).unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(32).unwrap();
    let qp = pd.create_qp::<Rc, Unbooked>(&cq, &cq, Depth { send: 8, recv: 8 }).unwrap();
    let own = qp.qp_num();
    let mut qp = connect(qp, gid, own);
    let region = pd.register::<RemoteAll>(64).unwrap();
    let piece = |range| wr::Piece::new(&region, range).unwrap();
    // SAFETY: the region lives to the end of the test, and no other code accesses it.
    unsafe {
        qp.post_recv_unchecked(wr::Recv::new(wr::Sge::new(1, [piece(0..8)]))).unwrap();
        let send = wr::Send::new(wr::Sge::new(2, [piece(8..16)])).signaled();
        qp.post_send_unchecked(send).unwrap();
    }
    assert_eq!(qp.query().unwrap().state, Some(QpState::Rts));
    let booked = cq.unbooked();
    assert!(booked < cq.capacity());
    drop(qp);
    assert_eq!(cq.unbooked(), booked);
    let mut came: Vec<u64> = poll(&mut cq, 2).into_iter().map(|(wr_id, _)| wr_id).collect();
    came.sort();
    assert_eq!(came, [1, 2]);
    assert_eq!(cq.poll().unwrap().count() + cq.poll().unwrap().count(), 0);
    assert_eq!(cq.unbooked(), cq.capacity());
}

#[test]
fn a_refusal_names_its_work_request() {
    let context = Fabric::new().open_device();
    let gid = context.query_gid(1, 1).unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(32).unwrap();
    let a = pd.create_qp::<Rc, Unbooked>(&cq, &cq, Depth { send: 1, recv: 1 }).unwrap();
    let number = a.qp_num();
    let mut a = connect(a, gid, number);
    let region = pd.register::<LocalWrite>(64).unwrap();
    let send = || wr::Send::new(wr::Sge::new(1, [wr::Piece::new(&region, 0..64).unwrap()]));
    // Until the device has no room: the depth and one for a marker.
    let error = loop {
        // SAFETY: the region outlives the queue pair.
        if let Err(error) = unsafe { a.post_send_unchecked(send()) } {
            break error;
        }
    };
    assert_eq!(error, RawPostError { verb: "ibv_post_send", errno: 12, bad_wr: Some(0) });
    drop(a);
}

profile! { Overlong { entry: Raw } }

/// The only way to post a message that is too long, and so to reach SQE on a device that follows
/// IBA (R3.6, R8.16).
/// Proves R8.16.
#[test]
fn a_message_beyond_the_mtu_stops_the_send_queue() {
    let context = Fabric::new().open_device();
    let gid = context.query_gid(1, 1).unwrap();
    let mtu = context.query_port(1).unwrap().active_mtu.unwrap().bytes() as usize;
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(32).unwrap();
    let qp = pd.create_qp::<Ud, Overlong>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let qkey = Qkey::new(7).unwrap();
    let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() }).unwrap();
    let qp = qp.modify(UdRtr::default()).unwrap();
    let mut qp = qp.modify(UdRts { sq_psn: Psn::new(0).unwrap(), qkey: None }).unwrap();
    let ah = pd.create_ah(AddressVector::roce(1, gid, 1)).unwrap();
    let address_handle = qp.add_address_handle(ah).unwrap();
    let to = wr::Destination { address_handle, qpn: Qpn::new(qp.qp_num()).unwrap(), qkey };
    let region = pd.register::<LocalWrite>(2 * mtu).unwrap();
    let send = |wr_id, len| {
        wr::Send::new(wr::Sge::new(wr_id, [wr::Piece::new(&region, 0..len).unwrap()])).to(to)
    };
    let statuses = |cq: &mut CompletionQueue<Raw>| -> Vec<_> {
        let status = |wc: Completion<'_, Raw>| wc.status().map_err(|error| error.status);
        cq.poll().unwrap().map(status).collect()
    };
    for wr in [send(1, mtu + 1), send(2, 8)] {
        // SAFETY: the region outlives the queue pair, and no code accesses its bytes.
        unsafe { qp.post_send_unchecked(wr) }.unwrap();
    }
    let flushed = Err(WcStatus::WrFlush);
    assert_eq!(statuses(&mut cq), [Err(WcStatus::LocLen), flushed]);
    // The receive side works, and so does the send queue once it is moved on.
    let mut any = proverbs::qp::AnyQueuePair::from(qp);
    any.to_sqe().unwrap();
    let mut stopped = any.into_state::<proverbs::state::Sqe>().unwrap();
    assert_eq!(stopped.query().unwrap().state, Some(QpState::Sqe));
    let into = wr::Sge::new(3, [wr::Piece::new(&region, mtu..mtu + 64).unwrap()]);
    // SAFETY: the region outlives the queue pair, and no code accesses its bytes.
    unsafe { stopped.post_recv_unchecked(wr::Recv::new(into)) }.unwrap();
    let mut qp = stopped.modify(UdReturn::default()).unwrap();
    // SAFETY: the region outlives the queue pair, and no code accesses its bytes.
    unsafe { qp.post_send_unchecked(send(4, 8)) }.unwrap();
    assert_eq!(statuses(&mut cq), [Ok(()), Ok(())]);
    drop(qp);
}

/// Posted and polled through the crate and through rdma-sys, alternately.
#[cfg(feature = "rdma-sys")]
#[test]
fn rdma_sys_works_on_the_same_queues() {
    use std::mem::{MaybeUninit, zeroed};
    use std::ptr;

    use proverbs::raw::AsRaw;
    use rdma_sys::*;

    let context = Fabric::new().open_device();
    let gid = context.query_gid(1, 1).unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(32).unwrap();
    let qp = pd.create_qp::<Rc, Unbooked>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let number = qp.qp_num();
    let mut qp = connect(qp, gid, number);
    let region = pd.register::<LocalWrite>(64).unwrap();
    region.write_at(0, b"ours").unwrap();

    // SAFETY: a live region with live fields.
    let (mr_pd, addr, lkey) = unsafe {
        let mr: *mut ibv_mr = region.as_raw();
        ((*mr).pd, (*mr).addr as u64, (*mr).lkey)
    };
    assert_eq!(mr_pd, pd.as_raw());
    // SAFETY: live objects.
    assert_eq!(unsafe { (*qp.as_raw()).context }, context.as_raw());

    // Received through rdma-sys, sent through the crate.
    let mut sge = ibv_sge { addr: addr + 32, length: 16, lkey };
    // SAFETY: all zeroes is a value.
    let mut wr = unsafe { zeroed::<ibv_recv_wr>() };
    (wr.wr_id, wr.sg_list, wr.num_sge) = (1, &raw mut sge, 1);
    let mut bad = ptr::null_mut();
    // SAFETY: the queue pair is live and its entry `Raw`, and no code accesses the region until the
    // receive completed.
    assert_eq!(unsafe { ibv_post_recv(qp.as_raw(), &mut wr, &mut bad) }, 0);
    let send = wr::Send::new(wr::Sge::new(2, [wr::Piece::new(&region, 0..4).unwrap()])).signaled();
    // SAFETY: the region outlives the queue pair, and no code writes to it until the send
    // completed.
    unsafe { qp.post_send_unchecked(send) }.unwrap();
    let mut done = poll(&mut cq, 2);
    done.sort_unstable();
    assert_eq!(done, [(1, Some(4)), (2, None)]);

    // Received through the crate, sent and polled through rdma-sys.
    let into = wr::Sge::new(3, [wr::Piece::new(&region, 48..64).unwrap()]);
    // SAFETY: the region outlives the queue pair, and no code accesses the bytes until the receive
    // completed.
    unsafe { qp.post_recv_unchecked(wr::Recv::new(into)) }.unwrap();
    let mut sge = ibv_sge { addr: addr + 32, length: 3, lkey };
    // SAFETY: all zeroes is a value.
    let mut wr = unsafe { zeroed::<ibv_send_wr>() };
    (wr.wr_id, wr.sg_list, wr.num_sge) = (4, &raw mut sge, 1);
    (wr.opcode, wr.send_flags) = (ibv_wr_opcode::IBV_WR_SEND, ibv_send_flags::IBV_SEND_SIGNALED.0);
    let mut bad = ptr::null_mut();
    // SAFETY: the queue pair is live and its entry `Raw`. The element is in the region, which
    // outlives the queue pair, and no code writes to it until the send completed.
    assert_eq!(unsafe { ibv_post_send(qp.as_raw(), &mut wr, &mut bad) }, 0);
    let mut done = Vec::new();
    while done.len() < 2 {
        let mut wc = MaybeUninit::<ibv_wc>::uninit();
        // SAFETY: the completion queue is live and its entry `Raw`; there is room for one.
        let count = unsafe { ibv_poll_cq(cq.as_raw(), 1, wc.as_mut_ptr()) };
        assert!(count >= 0);
        // SAFETY: one was written.
        done.extend((count == 1).then(|| unsafe { wc.assume_init_ref() }.wr_id));
    }
    done.sort_unstable();
    assert_eq!(done, [3, 4]);
    let mut got = [0; 3];
    region.read_at(48, &mut got).unwrap();
    assert_eq!(&got, b"our");
}

/// The fields of a completion without the crate's bookkeeping: only its opcode shows which queue it
/// is for.
#[test]
fn a_completion_shows_its_direction_by_its_opcode() {
    let context = Fabric::new().open_device();
    let gid = context.query_gid(1, 1).unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(40).unwrap();
    let depth = Depth { send: 8, recv: 8 };
    let a = pd.create_qp::<Rc, Unbooked>(&cq, &cq, depth).unwrap();
    let b = pd.create_qp::<Rc, Unbooked>(&cq, &cq, depth).unwrap();
    let (a_num, b_num) = (a.qp_num(), b.qp_num());
    let (mut a, mut b) = (connect(a, gid, b_num), connect(b, gid, a_num));
    let region = pd.register::<RemoteAll>(256).unwrap();
    let sge = |wr_id, range| wr::Sge::new(wr_id, [wr::Piece::new(&region, range).unwrap()]);
    let remote = region.remote();
    let send = wr::Send::new(sge(3, 64..74));
    let to = remote.slice(128, 64).unwrap();
    let with_imm = wr::RdmaWriteWithImm::new(sge(4, 64..72), to.write(), 0x0304_0506);
    let read = wr::RdmaRead::new(sge(5, 192..212), remote.slice(0, 20).unwrap().read());
    let add = wr::FetchAndAdd::new(sge(6, 224..232), remote.atomic(240).unwrap(), 1);
    // SAFETY: the region lives to the end of the test, and its bytes are accessed only by atomics.
    unsafe {
        for wr_id in [1, 2] {
            b.post_recv_unchecked(wr::Recv::new(sge(wr_id, 0..64))).unwrap();
        }
        a.post_send_unchecked(send.signaled()).unwrap();
        a.post_send_unchecked(with_imm.signaled()).unwrap();
        a.post_send_unchecked(read.signaled()).unwrap();
        a.post_send_unchecked(add.signaled()).unwrap();
    }
    let mut told = Vec::new();
    for _ in 0..1000 {
        told.extend(cq.poll().unwrap().map(|wc| {
            assert_eq!(wc.status(), Ok(()));
            assert_eq!(wc.qp_num(), if wc.raw_wr_id() < 3 { b_num } else { a_num });
            (wc.raw_wr_id(), wc.opcode().unwrap(), wc.byte_len(), wc.imm_data())
        }));
    }
    told.sort_unstable_by_key(|(wr_id, ..)| *wr_id);
    let expected = [
        (1, WcOpcode::Recv, Some(10), None),
        (2, WcOpcode::RecvRdmaWithImm, Some(8), Some(0x0304_0506)),
        (3, WcOpcode::Send, None, None),
        (4, WcOpcode::RdmaWrite, None, None),
        (5, WcOpcode::RdmaRead, Some(20), None),
        (6, WcOpcode::FetchAdd, Some(8), None),
    ];
    assert_eq!(told, expected);
}

/// The opcode and status of the next completion.
fn next(cq: &mut CompletionQueue) -> (Option<WcOpcode>, Result<(), WcStatus>) {
    for _ in 0..1000 {
        if let Some(completion) = cq.poll_one().unwrap() {
            return (completion.opcode(), completion.status().map_err(|error| error.status));
        }
    }
    panic!("nothing completed");
}

/// LOCAL_INV invalidates the key of a window of the queue pair's domain, once, and no key of a
/// region.
/// Proves R1.6.
#[test]
fn a_window_is_invalidated_once() {
    let Pair { mut a, b: _b, mut cq, pd, fabric, .. } = proverbs::loopback::pair().unwrap();
    let mut outcome = |a: &mut QueuePair<Rc, Rts>, rkey| {
        // SAFETY: nothing relies on the key any more.
        a.post_send(unsafe { ext::windows::LocalInv::of_rkey(rkey) }).unwrap();
        next(&mut cq)
    };
    let region = pd.register::<RemoteWrite>(64).unwrap();
    let window = fabric.open_window(region.remote()).unwrap();
    let closed = outcome(&mut a, window.rkey());
    assert_eq!(closed, (Some(<ext::windows::LocalInv as wr::Opcode>::COMPLETES_AS), Ok(())));
    assert!(!fabric.close_window(window));
    assert_eq!(outcome(&mut a, window.rkey()), (None, Err(WcStatus::LocQpOp)));
    assert_eq!(a.query().unwrap().state, Some(QpState::Err));

    let Pair { mut a, b: _b, cq: mut own, pd, .. } = proverbs::loopback::pair().unwrap();
    let region = pd.register::<RemoteWrite>(64).unwrap();
    // SAFETY: the key does not belong to a window.
    a.post_send(unsafe { ext::windows::LocalInv::of_rkey(region.remote().rkey()) }).unwrap();
    assert_eq!(next(&mut own), (None, Err(WcStatus::LocQpOp)));
}

#[cfg(feature = "rdma-sys")]
#[path = "raw/bad_wr.rs"]
mod bad_wr;
#[path = "raw/credits.rs"]
mod credits;
#[path = "raw/drain.rs"]
mod drain;
#[path = "raw/lists.rs"]
mod lists;
#[path = "raw/sessions.rs"]
mod sessions;
#[path = "raw/srq.rs"]
mod srq;
#[allow(dead_code, unused_imports, unused_macros)] // Shared with the conformance suite.
#[path = "conformance/support/mod.rs"]
mod support;
#[cfg(feature = "rdma-sys")]
#[path = "raw/window.rs"]
mod window;

/// C's verbs, called with the handles of this crate's objects: here a memory window that the crate
/// does not manage. (On a real device `tests/handles.rs` calls a verb that the crate does not
/// offer.)
#[test]
fn a_verb_that_the_crate_does_not_offer() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    // SAFETY: context and domain are live; every entry of the table is a function. The window is
    // not used once it is deallocated.
    unsafe {
        let ops = (*context.as_raw()).ops;
        assert_eq!((*pd.as_raw()).context, context.as_raw());
        let window = ops.alloc_mw.unwrap()(pd.as_raw(), 1);
        assert!(!window.is_null());
        assert_eq!(((*window).pd, (*window).type_), (pd.as_raw(), 1));
        assert_eq!(ops.dealloc_mw.unwrap()(window), 0);
        assert!(ops.alloc_mw.unwrap()(pd.as_raw(), 3).is_null());
    }
}
