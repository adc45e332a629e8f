//! The `unsafe` path: the caller chooses wr_ids, keeps the books, and borrows regions.

use proverbs::loopback::Fabric;
use proverbs::*;

profile! { Unbooked { signaling: Selective, max_send_sge: 2, max_inline: 32, entry: Raw } }

type Qp<S> = QueuePair<Rc, S, Unbooked>;

fn connect(qp: Qp<Reset>, gid: Gid, peer: u32) -> Qp<Rts> {
    let psn = Psn::try_from(1).unwrap();
    let address = AddressVector::roce(1, gid, 1);
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let rtr = RcRtr::new(address, Qpn::try_from(peer).unwrap(), psn);
    let rts = RcRts::new(psn, ReadDepth::ONE);
    qp.modify(init).unwrap().modify(rtr).unwrap().modify(rts).unwrap()
}

/// Polls until `n` completions came: each wr_id, and what became of it.
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
    let piece = |range| Piece::new(&region, range).unwrap();
    assert!(Piece::new(&region, 60..65).is_err());

    let into = Sge::new(7, [piece(32..48)]);
    // SAFETY: the region lives to the end of the test, and its bytes are touched by atomics only.
    unsafe { b.post_recv_unchecked(Recv::new(into)) }.unwrap();
    // SAFETY: as above.
    unsafe { b.post_recv_unchecked(Recv::new(Sge::new(8, [piece(48..64)]))) }.unwrap();
    let two = Sge::new(u64::MAX, [piece(0..4), piece(4..7)]);
    // SAFETY: as above.
    unsafe { a.post_send_unchecked(Send::new(two).signaled()) }.unwrap();
    let inline = Sge::new(3, [piece(0..3)]).inline();
    // SAFETY: as above; 3 bytes are within the inline capacity.
    unsafe { a.post_send_unchecked(SendWithImm::new(inline, 5).signaled()) }.unwrap();

    let sent: Vec<u64> = poll(&mut ca, 2).into_iter().map(|(wr_id, _)| wr_id).collect();
    assert_eq!(sent, [u64::MAX, 3]);
    assert_eq!(poll(&mut cb, 2), [(7, Some(7)), (8, Some(3))]);
    let mut got = [0; 7];
    region.read_at(32, &mut got).unwrap();
    assert_eq!(&got, b"one two");
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
    let send = || Send::new(Sge::new(1, [Piece::new(&region, 0..64).unwrap()]));
    // Until the device has no room: the depth and one for a sentinel.
    let error = loop {
        // SAFETY: the region outlives the queue pair.
        if let Err(error) = unsafe { a.post_send_unchecked(send()) } {
            break error;
        }
    };
    assert_eq!(error, RawPostError { errno: 12, bad_wr: Some(0) });
    drop(a);
}

profile! { Overlong { entry: Raw } }

/// The only way to a message that is too long, and so to SQE on a device that follows IBA (R3.6, R8.16).
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
    let to = Destination { address_handle, qpn: Qpn::new(qp.qp_num()).unwrap(), qkey };
    let region = pd.register::<LocalWrite>(2 * mtu).unwrap();
    let send =
        |wr_id, len| Send::new(Sge::new(wr_id, [Piece::new(&region, 0..len).unwrap()])).to(to);
    let statuses = |cq: &mut CompletionQueue<Raw>| -> Vec<_> {
        let status = |wc: Completion<'_, Raw>| wc.status().map_err(|error| error.status);
        cq.poll().unwrap().map(status).collect()
    };
    for wr in [send(1, mtu + 1), send(2, 8)] {
        // SAFETY: the region outlives the queue pair, and nobody touches its bytes.
        unsafe { qp.post_send_unchecked(wr) }.unwrap();
    }
    let flushed = Err(WcStatus::WrFlush);
    assert_eq!(statuses(&mut cq), [Err(WcStatus::LocLen), flushed]);
    // The receive side goes on, and so does the send queue once it is moved on.
    let mut stopped = qp.into_sqe().unwrap();
    assert_eq!(stopped.query().unwrap().state, Some(QpState::Sqe));
    let into = Sge::new(3, [Piece::new(&region, mtu..mtu + 64).unwrap()]);
    // SAFETY: as above.
    unsafe { stopped.post_recv_unchecked(Recv::new(into)) }.unwrap();
    let mut qp = stopped.modify(UdReturn::default()).unwrap();
    // SAFETY: as above.
    unsafe { qp.post_send_unchecked(send(4, 8)) }.unwrap();
    assert_eq!(statuses(&mut cq), [Ok(()), Ok(())]);
    drop(qp);
}
