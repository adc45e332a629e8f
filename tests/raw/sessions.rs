//! The `unsafe` path in sessions of extended posting: lists of elements and of inline pieces, and
//! sessions that a device refuses.

use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::loopback::{Fabric, Personality};
use proverbs::memory::Raw;
use proverbs::post::RawPostError;
use proverbs::prelude::*;

use super::{connect, poll};
use crate::support::{Bring, Device, Wish};

profile! {
    Direct { posting: ExtendedPosting, signaling: Selective, max_send_sge: 3, max_inline: 32, entry: Raw }
}

/// The pieces of each work request arrive as one message, even where a session would send wrong
/// bytes (R15.10, R15.11); a session that does not fit posts nothing (R15.6).
/// Proves R15.11.
#[test]
fn several_pieces_are_one_message() {
    for (personality, full) in
        [(Personality::Plain, libc::ENOMEM), (Personality::Rxe, libc::ENOSPC)]
    {
        let context = Fabric::with(personality).open_device();
        let gid = context.query_gid(1, 1).unwrap();
        let pd = context.alloc_pd().unwrap();
        let mut cq: CompletionQueue<Raw> = context.create_cq(64).unwrap();
        let qp = pd.create_qp::<Rc, Direct>(&cq, &cq, Depth { send: 3, recv: 8 }).unwrap();
        let (myself, granted) = (qp.qp_num(), qp.granted_depth().send as usize);
        let mut qp = connect(qp, gid, myself);
        let region = pd.register::<RemoteAll>(256).unwrap();
        region.write_at(0, b"0123456789").unwrap();
        let piece = |range| wr::Piece::new(&region, range).unwrap();
        let mut slots = SendSlots::<3, 3>::new();
        // SAFETY: the region lives to the end of the test, and its bytes are accessed only by
        // atomics. The inline pieces are within the capacity, and the completion queue has room.
        let too_many = unsafe {
            for wr_id in 0..3 {
                let into = piece(64 * (wr_id + 1)..64 * (wr_id + 1) + 32);
                qp.post_recv_unchecked(wr::Recv::new(wr::Sge::new(wr_id as u64, [into]))).unwrap();
            }
            let list = |i: usize| {
                let pieces = [piece(i..i + 1), piece(5..8), piece(0..i)];
                let sge = wr::Sge::new(10 + i as u64, pieces);
                wr::Send::new(if i == 2 { sge.inline() } else { sge }).signaled()
            };
            qp.post_send_list_unchecked(&mut slots, 3, list).unwrap();
            let to = region.remote().slice(32, 1).unwrap().write();
            let one = || wr::RdmaWrite::new(wr::Sge::new(20, [piece(0..1)]), to);
            for _ in 3..granted {
                qp.post_send_unchecked(one()).unwrap();
            }
            qp.post_send_unchecked(one()).unwrap_err()
        };
        assert_eq!(
            too_many,
            RawPostError { verb: "ibv_wr_complete", errno: full, bad_wr: Some(0) }
        );
        let mut done = poll(&mut cq, 6);
        done.sort();
        let lens = [(0, Some(4)), (1, Some(5)), (2, Some(6))];
        assert_eq!(done[..3], lens, "{done:?}");
        let sent: Vec<u64> = done[3..].iter().map(|(wr_id, _)| *wr_id).collect();
        assert_eq!(sent, [10, 11, 12]);
        let expected: [&[u8]; 3] = [b"0567", b"15670", b"256701"];
        for (i, expected) in expected.into_iter().enumerate() {
            let mut there = vec![0; expected.len()];
            region.read_at(64 * (i + 1), &mut there).unwrap();
            assert_eq!(there, expected);
        }
    }
}

/// On each device, with a verb that supports them: librxe sends nothing for several inline pieces
/// in a session.
/// Proves R15.11.
#[test]
fn inline_pieces_arrive_on_the_device() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq: CompletionQueue<Raw> = dev.ctx.create_cq(32).unwrap();
    let make = || pd.create_qp::<Rc, Direct>(&cq, &cq, Depth { send: 5, recv: 4 }).unwrap();
    let (mut a, mut b) = Rc::connect((make(), &pd), (make(), &pd), &dev, &Wish::new());
    let region = pd.register::<RemoteAll>(320).unwrap();
    region.write_at(0, b"0123456789").unwrap();
    let piece = |range| wr::Piece::new(&region, range).unwrap();
    let inline =
        |wr_id, i: usize| wr::Sge::new(wr_id, [piece(i..i + 1), piece(4..9), piece(0..i)]).inline();
    let mut slots = SendSlots::<2, 3>::new();
    // SAFETY: the region lives to the end of the test, and its bytes are accessed only by atomics.
    // The inline pieces are within the capacity, and the completion queue has room.
    unsafe {
        for wr_id in 0..4 {
            let into = piece(64 * (wr_id + 1)..64 * (wr_id + 1) + 32);
            b.post_recv_unchecked(wr::Recv::new(wr::Sge::new(wr_id as u64, [into]))).unwrap();
        }
        a.post_send_unchecked(wr::Send::new(inline(10, 3)).signaled()).unwrap();
        // Work requests in between that need no other verb use a session.
        let one = wr::Sge::new(11, [piece(7..9)]).inline();
        a.post_send_unchecked(wr::Send::new(one).signaled()).unwrap();
        let list = |i| wr::Send::new(inline(12 + i as u64, 2 - i)).signaled();
        a.post_send_list_unchecked(&mut slots, 2, list).unwrap();
        let to = region.remote().slice(32, 32).unwrap().write();
        a.post_send_unchecked(wr::RdmaWrite::new(inline(14, 4), to).signaled()).unwrap();
    }
    let mut done = Vec::new();
    let mut deadline = dev.deadline("nine completions must come");
    while done.len() < 9 {
        let before = done.len();
        done.extend(cq.poll().unwrap().map(|wc| (wc.raw_wr_id(), wc.status(), wc.byte_len())));
        if done.len() == before {
            deadline.tick(&done);
        }
    }
    done.sort_by_key(|(wr_id, ..)| *wr_id);
    assert!(done.iter().all(|(_, status, _)| status.is_ok()), "{done:?}");
    let lens = done[..4].iter().map(|(_, _, len)| *len);
    assert_eq!(lens.collect::<Vec<_>>(), [Some(9), Some(2), Some(8), Some(7)]);
    assert!(done[4..].iter().map(|(wr_id, ..)| *wr_id).eq(10..15));
    let expected: [(usize, &[u8]); 5] = [
        (64, b"345678012"),
        (128, b"78"),
        (192, b"24567801"),
        (256, b"1456780"),
        (32, b"4456780123"),
    ];
    for (at, expected) in expected {
        let mut there = vec![0; expected.len()];
        region.read_at(at, &mut there).unwrap();
        assert_eq!(there, expected);
    }
}
