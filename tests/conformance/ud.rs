//! UD: datagrams that arrive, after their 40 bytes, and those that do not.

use proverbs::completion::{Direction, GRH_LEN, UdReceived, WcOpcode};
use proverbs::memory::Entry;
use proverbs::prelude::*;
use proverbs::qp::UdReturn;
use proverbs::state::QpState;

use crate::support::*;

fn checks_route<E: Entry>(dev: &Device, got: &UdReceived<E>, from: u32) {
    let grh = got.grh().expect("a GRH on RoCE");
    assert_eq!((grh.source(), grh.destination()), (Some(dev.gid()), Some(dev.gid())));
    assert_eq!(got.src_qp.get(), from);
    assert_eq!(got.reply_vector(1, dev.gid_index), Some(dev.vector()));
}

/// Proves R5.8, R5.9, R10.4, R10.5.
#[test]
fn datagrams_arrive_after_their_grh() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    for len in [0, 1, 64, 200] {
        let message = numbered(len, len);
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &message)).to(to)).unwrap();
        let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        assert_eq!((sent.opcode, sent.qp_num), (WcOpcode::Send, p.a.qp_num()));
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
        assert_eq!((got.byte_len as usize, got.payload_len()), (GRH_LEN + len, len));
        assert_eq!((got.payload(), got.imm_data), (&message[..], None));
        assert_eq!(got.qp_num, p.b.qp_num());
        checks_route(&p.dev, &got, p.a.qp_num());
        let bytes = got.entry.as_ref().unwrap().to_vec();
        holds(got.entry.unwrap(), &bytes);
    }
}

/// Proves R10.3.
#[test]
fn immediates_inline_data_and_nothing() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    post_send!(
        p.a,
        [
            wr::SendWithImm::new(filled(&p.pool, b"imm"), 0x0102_0304).to(to).solicited(),
            wr::Send::inline(b"inline").to(to),
            wr::SendWithImm::new(wr::Empty, u32::MAX).to(to),
        ]
    )
    .unwrap();
    poll(&p.dev, &mut p.ca, 3);
    let got = poll(&p.dev, &mut p.cb, 3).into_iter().map(Done::datagram);
    let got: Vec<_> = got.map(|g| (g.imm_data, g.payload().to_vec())).collect();
    let expected = [
        (Some(0x0102_0304), b"imm".to_vec()),
        (None, b"inline".to_vec()),
        (Some(u32::MAX), vec![]),
    ];
    assert_eq!(got, expected);
}

profile! { Lists { max_recv_sge: 4, entry: BufList } }

/// Proves R5.8.
#[test]
fn a_grh_spans_as_many_buffers_as_needed() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud, Lists>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let tiny = p.pd.create_pool(4, 16).unwrap();
    // 16 + 16 + 8 bytes of GRH, so that the payload begins in the third buffer.
    p.b.post_recv(wr::Recv::new([(); 4].map(|()| poisoned(&tiny)))).unwrap();
    let message = numbered(3, 20);
    p.a.post_send(wr::Send::new(filled(&p.pool, &message)).to(to)).unwrap();
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
    checks_route(&p.dev, &got, p.a.qp_num());
    let segments: Vec<_> = got.payload_segments().map(<[u8]>::to_vec).collect();
    assert_eq!(segments, [&message[..8], &message[8..]]);
    let buffers: Vec<Buf> = got.entry.unwrap().collect();
    assert_eq!(buffers.iter().map(|buf| buf.len()).collect::<Vec<_>>(), [16, 16, 16, 12]);
    poll(&p.dev, &mut p.ca, 1);
}

#[test]
fn a_grh_has_a_buffer_of_its_own() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud, Lists>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let headers = p.pd.create_pool(2, GRH_LEN).unwrap();
    for message in [b"payload alone".to_vec(), vec![]] {
        p.b.post_recv(wr::Recv::new([poisoned(&headers), poisoned(&p.pool)])).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &message)).to(to)).unwrap();
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
        checks_route(&p.dev, &got, p.a.qp_num());
        assert_eq!(got.payload_segments().flatten().copied().collect::<Vec<_>>(), message);
        let [header, payload] =
            <[Buf; 2]>::try_from(got.entry.unwrap().collect::<Vec<_>>()).unwrap();
        assert_eq!(header.len(), GRH_LEN);
        holds(payload, &message);
        poll(&p.dev, &mut p.ca, 1);
    }
}

/// Proves R5.11.
#[test]
fn a_receiver_answers_with_the_reply_vector() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::inline(b"question").to(to)).unwrap();
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
    let vector = got.reply_vector(1, p.dev.gid_index).unwrap();
    let address_handle = p.b.add_address_handle(p.pd.create_ah(vector).unwrap()).unwrap();
    let back = wr::Destination { address_handle, qpn: got.src_qp, qkey: to.qkey };
    p.b.post_send(wr::Send::inline(b"answer").to(back)).unwrap();
    let mut done = poll(&p.dev, &mut p.ca, 2);
    done.sort_by_key(|done| matches!(done, Done::Datagram(_)));
    assert_eq!(done.remove(1).datagram().payload(), b"answer");
    poll(&p.dev, &mut p.cb, 1);
}

/// Proves R5.5, R5.10.
#[test]
fn a_message_with_the_wrong_key_does_not_arrive() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let wrong = wr::Destination { qkey: Qkey::new(QKEY + 1).unwrap(), ..to };
    let violations = || p.dev.ctx.query_port(1).unwrap().qkey_viol_cntr;
    let before = violations();
    // R5.5: both are sent successfully; the second does not overtake the first.
    post_send!(
        p.a,
        [wr::Send::inline(b"wrong key").to(wrong), wr::Send::inline(b"right key").to(to)]
    )
    .unwrap();
    poll(&p.dev, &mut p.ca, 2).into_iter().for_each(|done| drop(done.sent()));
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
    assert_eq!(got.payload(), b"right key");
    drop(got);
    assert_eq!((p.b.recvs_outstanding(), poll_empty(&mut p.cb)), (0, 0));
    // Only the port's counter shows it.
    assert_eq!(violations(), before + 1);
}

#[test]
fn a_q_key_can_be_changed_later() {
    fails_on!(Iwarp, "R24.2");
    let p = Pair::<Ud>::new();
    let Pair { mut a, b, mut ca, mut cb, pool, pd, dev } = p;
    let new = Qkey::new(7).unwrap();
    let mut b = b.modify(UdReturn { qkey: Some(new.into()) }).unwrap();
    assert_eq!(b.query().unwrap().qkey, 7);
    let to = wr::Destination { qkey: new, ..a.way_to(&dev, &pd, b.qp_num()) };
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    a.post_send(wr::Send::inline(b"new key").to(to)).unwrap();
    assert_eq!(poll(&dev, &mut cb, 1).remove(0).datagram().payload(), b"new key");
    poll(&dev, &mut ca, 1);
}

/// Proves R3.7.
#[test]
fn a_receive_too_short_for_a_datagram() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let short = p.pd.create_pool(1, GRH_LEN + 8).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&short))).unwrap();
    post_send!(p.a, [wr::Send::inline(&[1; 9]).to(to), wr::Send::inline(&[2; 8]).to(to)]).unwrap();
    poll(&p.dev, &mut p.ca, 2).into_iter().for_each(|done| drop(done.sent()));
    let done = poll(&p.dev, &mut p.cb, 1).remove(0);
    by_rule!(p.dev, "R3.7",
        // The message is dropped, and the receive takes the next one (IBA, class D).
        loopback: assert_eq!(done.datagram().payload(), [2; 8]),
        // The receiving queue pair fails.
        rxe before (6, 12): drop(done.failed(Direction::Receive, WcStatus::LocQpOp)));
    let state = by_rule!(p.dev, "R3.7", loopback: QpState::Rts, rxe before (6, 12): QpState::Err);
    until(&p.dev, "the receiver's state", || p.b.query().unwrap().state == Some(state));
}

/// Proves R8.16.
#[test]
fn a_working_send_queue_is_not_in_sqe() {
    fails_on!(Iwarp, "R24.2");
    let Pair { a, .. } = Pair::<Ud>::new();
    let refused = a.into_sqe().unwrap_err();
    assert_eq!(said(&refused), "ibv_query_qp: EINVAL: Invalid argument (the queue pair is in RTS)");
    assert_eq!(refused.into_object().query().unwrap().state, Some(QpState::Rts));
}
