//! Work requests that are filled once and posted repeatedly.

use proverbs::completion::WcOpcode;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }
profile! { Any { entry: AnyBuf } }

/// Proves R1.1.
#[test]
fn each_opcode_can_be_posted_repeatedly() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAll>(256).unwrap();
    let remote = region.remote();
    let mut send = wr::SendWithImm::new(wr::Placeholder, 1).prepare();
    let mut write = wr::RdmaWrite::new(wr::Placeholder, remote.write()).prepare();
    let mut read = wr::RdmaRead::new(wr::Placeholder, remote.slice(0, 8).unwrap().read()).prepare();
    let mut add = wr::FetchAndAdd::new(wr::Placeholder, remote.atomic(0).unwrap(), 3).prepare();
    for round in 0..3u8 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        send.refill(wr::SendWithImm::new(wr::Placeholder, round.into()));
        // A different length each time.
        let bytes = numbered(round.into(), 10 + usize::from(round));
        p.a.post_prepared(&mut send, filled(&p.pool, &bytes)).unwrap();
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
        assert_eq!((got.imm_data, got.data()), (Some(round.into()), &bytes[..]));
        assert_eq!(poll(&p.dev, &mut p.ca, 1).remove(0).sent().opcode, WcOpcode::Send);

        p.a.post_prepared(&mut write, filled(&p.pool, &[round; 8])).unwrap();
        p.a.post_prepared(&mut read, poisoned(&p.pool)).unwrap();
        p.a.post_prepared(&mut add, poisoned(&p.pool)).unwrap();
        let done = poll(&p.dev, &mut p.ca, 3).into_iter().map(|done| done.sent());
        let done: Vec<_> = done.map(|sent| (sent.opcode, sent.entry.unwrap())).collect();
        assert_eq!(
            done.iter().map(|(opcode, _)| *opcode).collect::<Vec<_>>(),
            [WcOpcode::RdmaWrite, WcOpcode::RdmaRead, WcOpcode::FetchAdd,]
        );
        assert_eq!(&done[1].1[..], [round; 8]);
        assert_eq!(done[2].1[..], u64::from_ne_bytes([round; 8]).to_ne_bytes());
    }
    let mut there = [0; 8];
    region.read_at(0, &mut there).unwrap();
    assert_eq!(u64::from_ne_bytes(there), u64::from_ne_bytes([2; 8]).wrapping_add(3));
}

#[test]
fn inline_bytes_are_copied_at_each_post() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Uc>::new();
    let mut beat = wr::Send::inline(b"beat 0").prepare();
    let mut none = wr::SendWithImm::inline(&[], 9).prepare();
    let mut one = wr::Send::inline(b"1").prepare();
    for count in b'1'..=b'3' {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        beat.bytes_mut()[5] = count;
        p.a.post_prepared_inline(&mut beat).unwrap();
        beat.bytes_mut().fill(b'!');
        *beat.bytes_mut() = *b"beat 0";
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
        assert_eq!(got.data(), [b'b', b'e', b'a', b't', b' ', count]);
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_prepared_inline(&mut none).unwrap();
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
        assert_eq!((got.imm_data, got.byte_len), (Some(9), 0));
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_prepared_inline(&mut one).unwrap();
        assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"1");
        assert!(poll(&p.dev, &mut p.ca, 3).into_iter().all(|done| done.sent().entry.is_none()));
    }
}

/// The work request moves to other queue pairs and threads, and is dropped with work outstanding.
#[test]
fn a_prepared_request_belongs_to_no_queue_pair() {
    let [mut one, mut two] = [Pair::<Rc>::new(), Pair::<Rc>::new()];
    let send = wr::Send::new(wr::Placeholder).prepare();
    let mut send = std::thread::spawn(move || Box::new(send)).join().unwrap();
    for is_two in [false, true, false] {
        let p = if is_two { &mut two } else { &mut one };
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_prepared(&mut send, filled(&p.pool, b"to both")).unwrap();
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        let mut other = wr::Send::new(wr::Placeholder).prepare();
        std::mem::swap(&mut *send, &mut other);
        p.a.post_prepared(&mut send, filled(&p.pool, b"another")).unwrap();
        let got = poll(&p.dev, &mut p.cb, 2).into_iter().map(Done::received);
        let got: Vec<_> = got.map(|got| got.data().to_vec()).collect();
        assert_eq!(got, [b"to both", b"another"]);
    }
    // A buffer of another domain is rejected, and the rejection changes nothing.
    let error = one.a.post_prepared(&mut send, filled(&two.pool, b"strange")).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::PdMismatch);
    holds(error.into_rejected().next().unwrap(), b"strange");
    one.b.post_recv(wr::Recv::new(poisoned(&one.pool))).unwrap();
    one.a.post_prepared(&mut send, filled(&one.pool, b"mine")).unwrap();
    drop(send);
    assert_eq!(poll(&one.dev, &mut one.cb, 1).remove(0).received().data(), b"mine");
    assert!(poll(&one.dev, &mut one.ca, 5).into_iter().all(|done| done.sent().entry.is_some()));
    poll(&two.dev, &mut two.ca, 2);
}

/// An element that one post leaves out is in the next one again (R3.3).
#[test]
fn an_empty_buffer_is_left_out_once() {
    let mut p = Pair::<Rc>::new();
    let mut send = wr::Send::new(wr::Placeholder).prepare();
    for len in [0, 5, 0, 0, 7] {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        let mut buf = filled(&p.pool, &[1; 8]);
        buf.set_len(len);
        p.a.post_prepared(&mut send, buf).unwrap();
        assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), vec![1; len]);
        assert_eq!(poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap().len(), len);
    }
}

#[test]
fn a_full_queue_and_a_short_slice_return_the_buffer() {
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    let short = region.remote().slice(0, 4).unwrap();
    let mut write = wr::RdmaWrite::new(wr::Placeholder, short.write()).prepare();
    let mut inline = wr::RdmaWrite::inline(b"5 byt", short.write()).prepare();
    let mut read = wr::RdmaRead::new(wr::Placeholder, region.remote().read()).prepare();
    let error = p.a.post_prepared(&mut write, filled(&p.pool, b"5 byt")).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsSlice { asked: 5, max: 4 });
    let error = p.a.post_prepared_inline(&mut inline).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsSlice { asked: 5, max: 4 });
    let mut exact = wr::RdmaWrite::inline(b"4 by", short.write()).prepare();
    p.a.post_prepared_inline(&mut exact).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    p.a.post_prepared(&mut write, filled(&p.pool, b"4 by")).unwrap();
    p.a.post_prepared(&mut read, poisoned(&p.pool)).unwrap();
    poll(&p.dev, &mut p.ca, 2);
    let mut send = wr::RdmaWrite::new(wr::Placeholder, short.write()).prepare();
    for _ in 0..8 {
        p.a.post_prepared(&mut send, filled(&p.pool, b"full")).unwrap();
    }
    let error = p.a.post_prepared(&mut send, filled(&p.pool, b"9th")).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 1, room: 0 });
    holds(error.into_rejected().next().unwrap(), b"9th");
    poll(&p.dev, &mut p.ca, 8);
    p.a.post_prepared(&mut send, filled(&p.pool, b"room")).unwrap();
    poll(&p.dev, &mut p.ca, 1);
}

/// Signaled on one queue pair, unsignaled on the next post.
#[test]
fn a_selective_queue_pair_signals_as_requested() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    let mut write = wr::RdmaWrite::new(wr::Placeholder, region.remote().write()).prepare();
    for _ in 0..2 {
        for byte in 0..3 {
            let buf = filled(&p.pool, &[byte]);
            let _ = p.a.post_prepared_unsignaled(&mut write, buf).unwrap();
        }
        p.a.post_prepared(&mut write, filled(&p.pool, b"3")).unwrap();
        let completion = loop {
            if let Some(completion) = p.ca.poll_one().unwrap() {
                break completion;
            }
        };
        assert_eq!(p.a.complete(completion).unwrap().released.count(), 4);
        assert_eq!(poll_empty(&mut p.ca), 0);
    }
    let mut inline = wr::RdmaWrite::inline(b"inline", region.remote().write()).prepare();
    p.a.post_prepared_inline(&mut inline).unwrap();
    assert_eq!(released(&mut p), 1);
}

/// The number of entries that the next completion of a ring releases, counting those without a
/// buffer.
fn released(p: &mut Pair<Rc, Ring>) -> usize {
    let before = p.a.sends_outstanding();
    until(&p.dev, "a signaled send", || match p.ca.poll_one().unwrap() {
        Some(completion) => {
            p.a.complete(completion).unwrap().released.for_each(drop);
            true
        }
        None => false,
    });
    before - p.a.sends_outstanding()
}

/// Only the request that fills the queue is signaled (R9.8).
#[test]
fn an_unsignaled_request_that_fills_the_queue_is_signaled() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    let mut write = wr::RdmaWrite::new(wr::Placeholder, region.remote().write()).prepare();
    let depth = p.a.send_room();
    for _ in 0..2 {
        for _ in 0..depth {
            let _ = p.a.post_prepared_unsignaled(&mut write, filled(&p.pool, b"x")).unwrap();
        }
        assert_eq!(released(&mut p), depth);
        assert_eq!(poll_empty(&mut p.ca), 0);
    }
}

/// A READ gets a source without a length, and then one with a length (R6.7).
#[test]
fn a_read_is_refilled_with_and_without_a_length() {
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    region.write_at(0, &[7; 64]).unwrap();
    let four = region.remote().slice(0, 4).unwrap();
    let mut read = wr::RdmaRead::new(wr::Placeholder, four.read()).prepare();
    for has_end in [true, false, true, false, false] {
        match has_end {
            true => read.refill(wr::RdmaRead::new(wr::Placeholder, four.read())),
            false => read.refill(wr::RdmaRead::new(wr::Placeholder, four.read().start())),
        }
        let mut buf = poisoned(&p.pool);
        buf.set_len(9);
        p.a.post_prepared(&mut read, buf).unwrap();
        let back = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        assert_eq!(&back[..], &[7; 9][..if has_end { 4 } else { 9 }]);
    }
    let mut write = wr::RdmaWrite::new(wr::Placeholder, four.write().start()).prepare();
    p.a.post_prepared(&mut write, filled(&p.pool, b"beyond four")).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let mut there = [0; 11];
    region.read_at(0, &mut there).unwrap();
    assert_eq!(&there, b"beyond four");
}

#[test]
fn any_buffer_fits_an_any_entry() {
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    let there = region.remote().slice(32, 32).unwrap();
    let mut write = wr::RdmaWrite::new(wr::Placeholder, there.write()).prepare();
    p.a.post_prepared(&mut write, filled(&p.pool, b"plain")).unwrap();
    p.a.post_prepared(&mut write, filled(&p.pool, b"shared").freeze()).unwrap();
    p.a.post_prepared(&mut write, region.piece(0, 8).unwrap()).unwrap();
    let back = poll(&p.dev, &mut p.ca, 3).into_iter().map(|done| done.sent().entry.unwrap());
    let lens = back.map(|entry| match entry {
        AnyBuf::Buf(buf) => buf.len(),
        AnyBuf::Shared(buf) => buf.len(),
        AnyBuf::Open(piece) => piece.len(),
        _ => 0,
    });
    assert_eq!(lens.collect::<Vec<_>>(), [5, 6, 8]);
}

/// The piece is longer than the READ, and than the next one.
#[test]
fn a_read_shorter_than_its_piece_can_be_repeated() {
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    region.write_at(0, b"here are they").unwrap();
    let four = region.remote().slice(0, 4).unwrap();
    let mut read = wr::RdmaRead::new(wr::Placeholder, four.read()).prepare();
    for round in 0..3 {
        region.write_at(32, &[round; 16]).unwrap();
        p.a.post_prepared(&mut read, region.piece(32, 16).unwrap()).unwrap();
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        let mut there = [0; 6];
        region.read_at(32, &mut there).unwrap();
        assert_eq!(there, [b'h', b'e', b'r', b'e', round, round]);
        let mut buf = poisoned(&p.pool);
        buf.set_len(9);
        p.a.post_prepared(&mut read, buf).unwrap();
        let back = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry;
        assert_eq!(&back.and_then(AnyBuf::into_buf).unwrap()[..], b"here");
    }
}

/// Its address handle is looked up at each post (R5.3).
#[test]
fn a_datagram_is_sent_while_its_address_handle_exists() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let mut send = wr::Send::new(wr::Placeholder).to(to).prepare();
    for word in [b"one", b"two"] {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_prepared(&mut send, filled(&p.pool, word)).unwrap();
        assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).datagram().payload(), word);
        poll(&p.dev, &mut p.ca, 1);
    }
    assert!(p.a.remove_address_handle(to.address_handle));
    let other = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let error = p.a.post_prepared(&mut send, filled(&p.pool, b"gone")).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::UnknownAddressHandle);
    let error = p.b.post_prepared(&mut send, filled(&p.pool, b"of another")).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::UnknownAddressHandle);
    let mut inline = wr::Send::inline(b"inline").to(to).prepare();
    let error = p.a.post_prepared_inline(&mut inline).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::UnknownAddressHandle);
    let mut inline = wr::Send::inline(b"inline").to(other).prepare();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_prepared_inline(&mut inline).unwrap();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).datagram().payload(), b"inline");
    poll(&p.dev, &mut p.ca, 1);
    send.refill(wr::Send::new(wr::Placeholder).to(other));
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_prepared(&mut send, filled(&p.pool, b"three")).unwrap();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).datagram().payload(), b"three");
    poll(&p.dev, &mut p.ca, 1);
}
