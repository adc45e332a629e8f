//! Pieces of regions in gather and scatter lists, alone and behind a buffer.

use proverbs::memory::{AnyList, LocalRead, OpenBuf, ReadOnlyBuf};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::Max;

use crate::support::*;

profile! { Lists { max_send_sge: 4, max_recv_sge: 4, initiator: NoReads, entry: AnyList } }
profile! { Mixed { max_send_sge: 4, max_recv_sge: 4, initiator: NoReads, entry: AnyBuf } }
profile! { Seldom { max_send_sge: 2, initiator: NoReads, signaling: Selective, entry: AnyList } }
profile! { Scatters { max_send_sge: 4, entry: AnyList } }

/// A region with the bytes 0, 1 and so on.
fn region<A: proverbs::memory::Access>(pd: &ProtectionDomain, len: usize) -> MemoryRegion<A> {
    let region = pd.register::<A>(len).unwrap();
    let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
    region.write_at(0, &bytes).unwrap();
    region
}

fn bytes<A: proverbs::memory::Access>(region: &MemoryRegion<A>, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    region.read_at(at, &mut bytes).unwrap();
    bytes
}

/// The lengths of the elements, and the id of each piece.
fn elements(list: &AnyList) -> Vec<(usize, u64)> {
    let one = |element: &AnyBuf| match element {
        AnyBuf::Buf(buf) => (buf.len(), 0),
        AnyBuf::Open(piece) => (piece.len(), piece.id()),
        AnyBuf::Shared(part) => (part.len(), part.id()),
        AnyBuf::ReadOnlyPiece(piece) => (piece.len(), piece.id()),
        other => panic!("{other:?}"),
    };
    list.iter().map(|element| one(&element)).collect()
}

fn with_id(mut piece: OpenBuf, id: u64) -> OpenBuf {
    piece.set_id(id);
    piece
}

/// Proves R3.10, R6.12.
#[test]
fn a_write_gathers_pieces_of_several_regions() {
    let mut p = Pair::<Rc, Lists>::new();
    let [one, two] = [region::<LocalWrite>(&p.pd, 64), region::<LocalWrite>(&p.pd, 64)];
    let there = p.pd.register::<RemoteWrite>(64).unwrap();
    let at = there.remote();
    let pieces = [
        with_id(one.piece(8, 4).unwrap(), 1),
        with_id(one.piece(0, 2).unwrap(), 2),
        with_id(two.piece(60, 3).unwrap(), 3),
    ];
    p.a.post_send(wr::RdmaWrite::new(pieces, at.write())).unwrap();
    let list: AnyList = [one.piece(1, 1).unwrap(), two.piece(2, 1).unwrap()].into_iter().collect();
    let head = wr::RdmaWrite::new((filled(&p.pool, b"head"), one.piece(3, 2).unwrap()), {
        at.slice(16, 48).unwrap().write()
    });
    let tail = at.slice(32, 32).unwrap().write();
    post_send!(p.a, [head, wr::RdmaWrite::new(list, tail)]).unwrap();
    let sent: Vec<_> = poll(&p.dev, &mut p.ca, 3)
        .into_iter()
        .map(|done| elements(&done.sent().entry.unwrap()))
        .collect();
    assert_eq!(sent, [vec![(4, 1), (2, 2), (3, 3)], vec![(4, 0), (2, 0)], vec![(1, 0), (1, 0)]]);
    assert_eq!(bytes(&there, 0, 9), [8, 9, 10, 11, 0, 1, 60, 61, 62]);
    assert_eq!(bytes(&there, 16, 6), *b"head\x03\x04");
    assert_eq!(bytes(&there, 32, 3), [1, 2, 0]);
    // Too long for the slice: nothing is posted, and the handles come back.
    let short = at.slice(0, 5).unwrap().write();
    let pieces = [one.piece(0, 3).unwrap(), with_id(two.piece(0, 3).unwrap(), 9)];
    let error = p.a.post_send(wr::RdmaWrite::new(pieces, short)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsSlice { asked: 6, max: 5 });
    let back: Vec<_> = error.into_rejected().map(|list| elements(&list)).collect();
    assert_eq!(back, [[(3, 0), (3, 9)]]);
    one.destroy().unwrap();
    two.destroy().unwrap();
}

/// Proves R6.12.
#[test]
fn a_header_and_a_piece_arrive_in_a_header_and_a_piece() {
    let mut p = Pair::<Rc, Mixed>::new();
    let (from, to) = (region::<LocalWrite>(&p.pd, 256), region::<LocalWrite>(&p.pd, 256));
    let heads = p.pd.create_pool(4, 8).unwrap();
    for at in [64, 128] {
        let receive = (poisoned(&heads), with_id(to.piece(at, 32).unwrap(), at as u64));
        p.b.post_recv(wr::Recv::at(receive).unwrap()).unwrap();
    }
    p.a.post_send(wr::Send::new((filled(&p.pool, b"a header"), from.piece(7, 20).unwrap())))
        .unwrap();
    // A message that is shorter than the header does not reach the piece.
    p.a.post_send(wr::Send::new(filled(&p.pool, b"short"))).unwrap();
    for (head, len, at) in [(&b"a header"[..], 28, 64), (b"short", 5, 128)] {
        let mut got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
        assert_eq!((got.byte_len, &got.data()[..]), (len, head));
        let Some(AnyBuf::List(list)) = &mut got.entry else { panic!("a list") };
        assert_eq!(elements(list), [(head.len(), 0), (32, at)]);
        let buf = list.pop_front().and_then(AnyBuf::into_buf).unwrap();
        holds(buf, head);
    }
    assert_eq!(bytes(&to, 64, 21), (7..27).chain([84]).collect::<Vec<u8>>());
    assert_eq!(bytes(&to, 128, 32), (128..160).collect::<Vec<u8>>());
    let sent = poll(&p.dev, &mut p.ca, 2).remove(0).sent().entry.unwrap();
    let AnyBuf::List(list) = sent else { panic!("a list") };
    // It contains not only buffers.
    let list = list.into_bufs().unwrap_err();
    assert_eq!((list.segments().collect::<Vec<_>>(), list.len()), (vec![&b"a header"[..]], 2));
    drop(list);
    assert_eq!((p.pool.available(), heads.available()), (40, 4));
}

/// Proves R3.1.
#[test]
fn a_list_of_run_time_length_is_within_the_limit() {
    let mut p = Pair::<Rc, Mixed>::new();
    let from = region::<LocalWrite>(&p.pd, 64);
    let there = p.pd.register::<RemoteWrite>(64).unwrap();
    let at = there.remote().write();
    for count in 0..=5 {
        let mut list: AnyList = (1..count).map(|i| from.piece(8 * i, 2).unwrap()).collect();
        if count != 0 {
            list.push_front(filled(&p.pool, b"head"));
        }
        assert_eq!((list.len(), list.is_empty()), (count, count == 0));
        let posted = p.a.post_send(wr::RdmaWrite::new(list, at));
        if count > 4 {
            let error = posted.unwrap_err();
            assert_eq!(error.kind(), PostErrorKind::TooManySge { asked: 5, max: 4 });
            let Some(AnyBuf::List(list)) = error.into_rejected().next() else { panic!("a list") };
            assert_eq!(elements(&list), [(4, 0), (2, 0), (2, 0), (2, 0), (2, 0)]);
            continue;
        }
        posted.unwrap();
        let entry = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry;
        assert_eq!(
            entry.map_or(0, |list| match list {
                AnyBuf::List(list) => list.count(),
                other => panic!("{other:?}"),
            }),
            count
        );
        if count != 0 {
            let expected = [&b"head"[..], &[8, 9, 16, 17, 24, 25][..2 * (count - 1)]].concat();
            assert_eq!(bytes(&there, 0, expected.len()), expected);
        }
    }
    // The same in a receive, and in the slots of a list.
    let five = || -> AnyList { (0..5).map(|i| from.piece(i, 1).unwrap()).collect() };
    let error = p.b.post_recv(wr::Recv::at(five()).unwrap()).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::TooManySge { asked: 5, max: 4 });
    drop(error);
    let mut slots = SendSlots::<2, 2>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(wr::RdmaWrite::new([from.piece(0, 1).unwrap(), from.piece(9, 1).unwrap()], at))
        .unwrap();
    list.push(wr::RdmaWrite::new((filled(&p.pool, b"x"), from.piece(1, 1).unwrap()), at)).unwrap();
    list.post().unwrap();
    poll(&p.dev, &mut p.ca, 2);
    assert_eq!(bytes(&there, 0, 2), *b"x\x01");
    assert_eq!(p.pool.available(), 40);
}

/// Proves R4.5.
#[test]
fn a_read_scatters_over_pieces() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc, Scatters>::new();
    let there = region::<RemoteRead>(&p.pd, 64);
    let here = p.pd.register::<LocalWrite>(64).unwrap();
    let from = there.remote().slice(10, 10).unwrap().read();
    let pieces = || [(0, 4), (32, 4), (16, 4)].map(|(at, len)| here.piece(at, len).unwrap());
    p.a.post_send(wr::RdmaRead::new(pieces(), from)).unwrap();
    let list: AnyList = pieces().into_iter().collect();
    p.a.post_send(wr::RdmaRead::new(list, from)).unwrap();
    p.a.post_send(wr::RdmaRead::new((poisoned(&p.pool), here.piece(48, 4).unwrap()), from))
        .unwrap();
    let read = poll(&p.dev, &mut p.ca, 3).into_iter().map(|done| done.sent().entry.unwrap());
    // The length of a piece does not change, and the length of a buffer is what was read.
    let read: Vec<_> = read.map(|list| elements(&list)).collect();
    assert_eq!(read, [vec![(4, 0); 3], vec![(4, 0); 3], vec![(10, 0), (4, 0)]]);
    for (at, expected) in [(0, [10, 11, 12, 13]), (32, [14, 15, 16, 17]), (16, [18, 19, 0, 0])] {
        assert_eq!(bytes(&here, at, 4), expected);
    }
    assert_eq!(bytes(&here, 48, 4), [0; 4]);
    let longer = there.remote().slice(0, 13).unwrap().read();
    let error = p.a.post_send(wr::RdmaRead::new(pieces(), longer)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsBuffers { asked: 13, max: 12 });
    let mut list = AnyList::from(poisoned(&p.pool));
    list.push_back(filled(&p.pool, b"shared").freeze());
    let error = p.a.post_send(wr::RdmaRead::new(list, from)).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (PostErrorKind::NotWritable, 0));
    assert_eq!(elements(&error.into_rejected().next().unwrap())[1], (6, 0));
    assert_eq!(p.pool.available(), 40);
}

/// Memory that the device may not write is sent from lists, and rejected in others.
/// Proves R4.5, R6.3.
#[test]
fn read_only_elements_are_only_sent() {
    let mut p = Pair::<Rc, Lists>::new();
    static TABLE: [u8; 8] = *b"constant";
    let table = p.pd.region::<LocalRead>().create_in(&TABLE[..]).unwrap();
    let source = |at, len| -> ReadOnlyBuf { table.source(at, len).unwrap() };
    let shared = || filled(&p.pool, b"shared").freeze();
    let there = p.pd.register::<RemoteWrite>(64).unwrap();
    let at = there.remote();
    let mut list = AnyList::new();
    list.push_back(filled(&p.pool, b"head"));
    list.push_back([source(0, 3), source(6, 2)]);
    list.push_back(shared());
    p.a.post_send(wr::RdmaWrite::new(list, at.write())).unwrap();
    p.a.post_send(wr::RdmaWrite::new([shared(), shared()], at.slice(16, 48).unwrap().write()))
        .unwrap();
    let body = at.slice(32, 32).unwrap().write();
    p.a.post_send(wr::RdmaWrite::new((filled(&p.pool, b"to "), shared()), body)).unwrap();
    let mut sent = poll(&p.dev, &mut p.ca, 3);
    assert_eq!(bytes(&there, 0, 15), *b"headconntshared");
    assert_eq!(bytes(&there, 16, 12), *b"sharedshared");
    assert_eq!(bytes(&there, 32, 9), *b"to shared");
    let mut list = sent.remove(0).sent().entry.unwrap();
    assert_eq!(elements(&list), [(4, 0), (3, 0), (2, 0), (6, 0)]);
    let Some(AnyBuf::Shared(last)) = list.by_ref().last() else { panic!("shared") };
    holds(last.thaw::<()>().unwrap(), b"shared");
    drop(sent);

    let with = |last: AnyList| -> AnyList {
        let mut list = AnyList::from(poisoned(&p.pool));
        list.push_back(last);
        list
    };
    for last in [AnyList::from(source(0, 8)), AnyList::from(shared())] {
        let len = elements(&last)[0].0;
        let error = p.b.post_recv(wr::Recv::at(with(last)).unwrap()).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (PostErrorKind::NotWritable, 0));
        assert!(said(&error).contains("contains a shared buffer or a piece of read-only memory"));
        assert_eq!(elements(&error.into_rejected().next().unwrap())[1], (len, 0));
    }
    assert_eq!(p.pool.available(), 40);
}

/// Proves R6.8.
#[test]
fn a_piece_of_another_domain_is_rejected() {
    let mut p = Pair::<Rc, Lists>::new();
    let other = p.dev.ctx.alloc_pd().unwrap();
    let (ours, foreign) = (region::<LocalWrite>(&p.pd, 64), region::<LocalWrite>(&other, 64));
    let piece = |region: &MemoryRegion<LocalWrite>| region.piece(0, 8).unwrap();
    let list = |mut list: AnyList, more: OpenBuf| {
        list.push_back(more);
        list
    };
    for pieces in [[piece(&foreign), piece(&ours)], [piece(&ours), piece(&foreign)]] {
        let error = p.a.post_send(wr::Send::new(pieces)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::PdMismatch);
        let list = error.into_rejected().next().unwrap();
        let error = p.b.post_recv(wr::Recv::at(list).unwrap()).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::PdMismatch);
    }
    let head = AnyList::from(filled(&p.pool, b"head"));
    let error = p.a.post_send(wr::Send::new(list(head, piece(&foreign)))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::PdMismatch);
    drop(error);
    foreign.destroy().unwrap();
    ours.destroy().unwrap();
}

/// An empty piece is left out of a send, and rejected in a receive.
/// Proves R3.3.
#[test]
fn empty_pieces() {
    let mut p = Pair::<Rc, Lists>::new();
    let here = region::<LocalWrite>(&p.pd, 64);
    let there = p.pd.register::<RemoteWrite>(64).unwrap();
    let pieces = || [(3, 1), (0, 0), (7, 1)].map(|(at, len)| here.piece(at, len).unwrap());
    p.a.post_send(wr::RdmaWrite::new(pieces(), there.remote().write())).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    assert_eq!(elements(&sent), [(1, 0), (0, 0), (1, 0)]);
    assert_eq!(bytes(&there, 0, 3), [3, 7, 0]);
    let refused = wr::Recv::at(sent).unwrap_err();
    assert!(said(&refused.error).contains("a receive into a piece of 0 bytes"), "{refused}");
    let refused = wr::Recv::at(pieces()).unwrap_err();
    assert_eq!(refused.into_object().len(), 3);
}

/// Proves R2.4, R10.7.
#[test]
fn selective_signaling_returns_lists_in_order() {
    fails_on!(NoRings, "R24.13");
    let mut p = Pair::<Rc, Seldom>::new();
    let here = region::<LocalWrite>(&p.pd, 64);
    let there = p.pd.register::<RemoteWrite>(64).unwrap();
    let at = there.remote().write();
    for id in 0..2 {
        let pieces = [with_id(here.piece(0, 1).unwrap(), id), here.piece(1, 2).unwrap()];
        let _later = p.a.post_send_unsignaled(wr::RdmaWrite::new(pieces, at)).unwrap();
    }
    p.a.post_send(wr::RdmaWrite::new((filled(&p.pool, b"x"), here.piece(9, 1).unwrap()), at))
        .unwrap();
    let done = loop {
        if let Some(completion) = p.ca.poll_one().unwrap() {
            break p.a.complete(completion).unwrap();
        }
    };
    let lists: Vec<_> = done.released.map(|list| elements(&list)).collect();
    assert_eq!(lists, [[(1, 0), (2, 0)], [(1, 1), (2, 0)], [(1, 0), (1, 0)]]);
    assert_eq!(bytes(&there, 0, 3), [b'x', 9, 2]);
}

/// Lists that are outstanding when their queue pair ends come back, whatever is first in them.
/// Proves R8.18, R10.15.
#[test]
fn lists_in_flight_hold_their_regions_until_their_queue_ends() {
    let Pair { a, mut b, ca, mut cb, pool, pd, dev } = Pair::<Rc, Lists>::new();
    let here = region::<LocalWrite>(&pd, 64);
    let piece = |at| here.piece(at, 8).unwrap();
    b.post_recv(wr::Recv::at([piece(0), piece(8)]).unwrap()).unwrap();
    b.post_recv(wr::Recv::at((poisoned(&pool), piece(16))).unwrap()).unwrap();
    let mut list = AnyList::from(piece(24));
    list.push_back(poisoned(&pool));
    b.post_recv(wr::Recv::at(list).unwrap()).unwrap();
    assert_eq!((pool.available(), b.recvs_outstanding()), (38, 3));
    let here = here.destroy().unwrap_err().into_object();
    drop((a, b, ca));
    poll_empty(&mut cb);
    assert_eq!(cb.reclaim_handles(), 0);
    assert_eq!(pool.available(), 40);
    here.destroy().unwrap();
    drop((cb, pd, dev));
}

/// C's elements of no bytes mean 2 GiB on some devices, so a list leaves them out.
/// Proves R3.3.
#[test]
fn a_list_leaves_out_empty_elements() {
    let mut p = Pair::<Rc, Lists>::new();
    let (from, there) =
        (region::<LocalWrite>(&p.pd, 64), p.pd.register::<RemoteWrite>(64).unwrap());
    let piece = |at, len| from.piece(at, len).unwrap();
    let at = |at: u64| there.remote().slice(at, 8).unwrap().write();
    let mut empty = p.pool.take().unwrap();
    empty.set_len(0);
    p.a.post_send(wr::RdmaWrite::new([piece(9, 0), piece(1, 2), piece(8, 0)], at(0))).unwrap();
    p.a.post_send(wr::RdmaWrite::new((empty, piece(3, 1)), at(8))).unwrap();
    p.a.post_send(wr::RdmaWrite::new([piece(5, 0), piece(6, 0)], at(16))).unwrap();
    let context = p.pool.take().unwrap();
    p.a.post_send(wr::RdmaWrite::new(piece(7, 0), at(24)).with_context(context)).unwrap();
    let list: AnyList = [piece(5, 3), piece(4, 0), piece(4, 0)].into_iter().collect();
    p.a.post_send(wr::RdmaWrite::new(list, at(32))).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 5);
    let counts: Vec<_> = sent.into_iter().map(|one| one.sent().entry.unwrap().len()).collect();
    assert_eq!(counts, [3, 2, 2, 2, 3]);
    assert_eq!(
        [0, 8, 16, 24, 32].map(|at| bytes(&there, at, 4)),
        [[1, 2, 0, 0], [3, 0, 0, 0], [0; 4], [0; 4], [5, 6, 7, 0],]
    );
    assert_eq!(p.pool.available(), p.pool.count());
}

/// Datagrams: the GRH goes to the header.
/// Proves R5.8.
#[test]
fn a_datagram_is_split() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud, Mixed>::new();
    let (from, to) = (region::<LocalWrite>(&p.pd, 64), p.pd.register::<LocalWrite>(64).unwrap());
    let heads = p.pd.create_pool(2, 48).unwrap();
    let receive = wr::Recv::at((poisoned(&heads), to.piece(8, 16).unwrap())).unwrap();
    p.b.post_recv(receive).unwrap();
    let way = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let send = wr::Send::new((filled(&p.pool, b"8 bytes:"), from.piece(1, 3).unwrap()));
    p.a.post_send(send.to(way)).unwrap();
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
    assert_eq!((&got.payload()[..], got.payload_len()), (&b"8 bytes:"[..], 11));
    // (InfiniBand needs no GRH within a subnet.)
    assert!(got.grh().is_none_or(|grh| grh.source() == Some(p.dev.gid())));
    assert_eq!(bytes(&to, 8, 4), [1, 2, 3, 0]);
    poll(&p.dev, &mut p.ca, 1);
}

/// A shared receive queue: the header belongs to its pool, and limits the receives.
/// Proves R7.5, R6.8.
#[test]
fn shared_receives_at_chosen_places() {
    profile! { Shares { receive: SharedRq, entry: AnyBuf } }
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let (mut ca, mut cb) = (dev.ctx.create_cq(60).unwrap(), dev.ctx.create_cq(60).unwrap());
    let (heads, pool) = (pd.create_pool(4, 8).unwrap(), pd.create_pool(4, 8).unwrap());
    let mut srq: SharedReceiveQueue<Rc, AnyBuf, Max<3>> = pd.create_srq(&heads).unwrap();
    let a = pd.create_qp::<Rc, Mixed>(&ca, &ca, Depth { send: 4, recv: 4 }).unwrap();
    let b = pd.create_qp::<Rc, Shares>(&cb, &cb, Depth::on_srq(4, &srq)).unwrap();
    let (mut a, b) = Rc::connect((a, &pd), (b, &pd), &dev, &Wish::new());
    let to = region::<LocalWrite>(&pd, 64);
    let piece = |at| to.piece(at, 16).unwrap();
    srq.post_srq_recv(wr::Recv::at((poisoned(&heads), piece(8))).unwrap()).unwrap();
    let list: AnyList =
        [AnyList::from(poisoned(&heads)), [piece(24), piece(40)].into()].into_iter().collect();
    post_srq_recv!(srq, [wr::Recv::at(list).unwrap(), wr::Recv::new(poisoned(&heads))]).unwrap();
    assert_eq!((srq.recvs_outstanding(), heads.available()), (3, 1));
    for message in [&b"header 1, body"[..], b"header 2 and a longer body", b"header 3"] {
        let split = wr::Send::new(
            pd.create_pool(1, 64)
                .unwrap()
                .take()
                .map(|mut buf| {
                    buf.copy_from(message).unwrap();
                    buf
                })
                .unwrap(),
        );
        a.post_send(split).unwrap();
    }
    let got = poll(&dev, &mut cb, 3).into_iter().map(Done::received);
    let got: Vec<_> = got.map(|got| (got.byte_len, got.data().into_owned())).collect();
    let head = |n| format!("header {n}").into_bytes();
    assert_eq!(got, [(14, head(1)), (26, head(2)), (8, head(3))]);
    assert_eq!(bytes(&to, 8, 7), *b", body\x0e");
    assert_eq!(bytes(&to, 24, 18), *b" and a longer body");
    poll(&dev, &mut ca, 3);
    assert_eq!((srq.recvs_outstanding(), heads.available()), (0, 4));

    // The queue rejects lists that do not begin with a buffer of its pool.
    let rejected = |list: AnyList, srq: &mut SharedReceiveQueue<Rc, AnyBuf, Max<3>>| {
        srq.post_srq_recv(wr::Recv::at(list).unwrap()).unwrap_err().kind()
    };
    use PostErrorKind::{ForeignPool, NoBuffer, PdMismatch, TooManySge};
    let behind = |first: AnyList, more: AnyList| -> AnyList { [first, more].into_iter().collect() };
    let own = || AnyList::from(poisoned(&heads));
    assert_eq!(rejected(AnyList::new(), &mut srq), NoBuffer);
    assert_eq!(rejected(piece(0).into(), &mut srq), ForeignPool);
    assert_eq!(rejected(behind(piece(0).into(), own()), &mut srq), ForeignPool);
    assert_eq!(rejected(poisoned(&pool).into(), &mut srq), ForeignPool);
    assert_eq!(rejected(behind(own(), poisoned(&pool).into()), &mut srq), ForeignPool);
    let other = region::<LocalWrite>(&dev.ctx.alloc_pd().unwrap(), 64);
    let foreign = other.piece(0, 8).unwrap();
    assert_eq!(rejected(behind(own(), foreign.into()), &mut srq), PdMismatch);
    let three = [piece(0), piece(0), piece(0)];
    assert_eq!(rejected(behind(own(), three.into()), &mut srq), TooManySge { asked: 4, max: 3 });
    assert_eq!((srq.recvs_outstanding(), heads.available()), (0, 4));

    // Those that are left come back with the queue.
    srq.post_srq_recv(wr::Recv::at((poisoned(&heads), piece(8))).unwrap()).unwrap();
    drop((a, b));
    poll_empty(&mut cb);
    srq.destroy().unwrap();
    poll_empty(&mut cb);
    assert_eq!((heads.reclaim(&mut cb), heads.available()), (0, 4));
    to.destroy().unwrap();
}

/// The program's own value on inline data, on nothing and on pieces, in any order of completions.
/// Proves R17.7.
#[test]
fn contexts_travel_without_their_bytes() {
    profile! { Tasks { max_send_sge: 2, initiator: NoReads, entry: AnyBuf<String> } }
    let mut p = Pair::<Rc, Tasks>::new();
    let tasks = p.pd.pool(8).contexts(|_| String::new()).create(40).unwrap();
    let task = |name: &str| {
        let mut task = tasks.take().unwrap();
        task.context_mut().replace_range(.., name);
        task
    };
    let (from, to) = (region::<LocalWrite>(&p.pd, 64), p.pd.register::<LocalWrite>(64).unwrap());
    let there = p.pd.register::<RemoteWrite>(64).unwrap();
    let at = there.remote().write();
    let piece = |at, len| from.piece(at, len).unwrap();
    let receive = wr::Recv::at(to.piece(8, 16).unwrap()).unwrap().with_context(task("receive"));
    p.b.post_recv(receive).unwrap();
    post_send!(
        p.a,
        [
            wr::RdmaWrite::inline(b"inline", at).with_context(task("inline")),
            wr::RdmaWrite::new(wr::Empty, at).with_context(task("nothing")),
            wr::RdmaWrite::new([piece(1, 1), piece(9, 1)], at).with_context(task("pieces")),
            wr::Send::new(with_id(piece(32, 4), 5)).with_context(task("piece")),
        ]
    )
    .unwrap();
    let names = |cq: &mut CompletionQueue<AnyBuf<String>>, n| -> Vec<(String, usize)> {
        let entries = poll(&p.dev, cq, n).into_iter().map(|done| match done {
            Done::Sent(sent) => sent.entry,
            other => {
                let got = other.received();
                assert_eq!((got.byte_len, got.data().len()), (4, 0));
                got.entry
            }
        });
        let one = |entry: Option<AnyBuf<String>>| {
            let Some(AnyBuf::List(mut list)) = entry else { panic!("{entry:?}") };
            let mut task = list.pop_front().and_then(AnyBuf::into_buf).unwrap();
            task.widen();
            assert_eq!(task.capacity(), 8);
            (task.context().clone(), list.len())
        };
        entries.map(one).collect()
    };
    let sent = [("inline", 0), ("nothing", 0), ("pieces", 2), ("piece", 1)];
    assert_eq!(names(&mut p.ca, 4), sent.map(|(name, pieces)| (name.to_string(), pieces)));
    assert_eq!(names(&mut p.cb, 1), [("receive".to_string(), 1)]);
    assert_eq!(bytes(&there, 0, 6), *b"\x01\x09line");
    assert_eq!(bytes(&to, 8, 5), [32, 33, 34, 35, 0]);
    // A full queue returns them.
    let error = loop {
        let write = wr::RdmaWrite::inline(b"inline", at).with_context(task("again"));
        if let Err(error) = p.a.post_send(write) {
            break error;
        }
    };
    assert!(error.is_full());
    let Some(AnyBuf::List(list)) = error.into_rejected().next() else { panic!("a list") };
    assert_eq!(*list.into_bufs().unwrap().pop_front().unwrap().context(), "again");
}

/// Receives without an element, each with a buffer of the pool.
/// Proves R9.9, R3.2.
#[test]
fn empty_receives_of_a_shared_queue() {
    fails_on!(IwarpOtherwise, "R24.15");
    profile! { Shares { receive: SharedRq } }
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let (mut ca, mut cb) = (dev.ctx.create_cq(60).unwrap(), dev.ctx.create_cq(60).unwrap());
    let (pool, other) = (pd.create_pool(4, 8).unwrap(), pd.create_pool(1, 8).unwrap());
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
    let a = pd.create_qp::<Rc, DefaultProfile>(&ca, &ca, Depth { send: 4, recv: 4 }).unwrap();
    let b = pd.create_qp::<Rc, Shares>(&cb, &cb, Depth::on_srq(4, &srq)).unwrap();
    let (mut a, _b) = Rc::connect((a, &pd), (b, &pd), &dev, &Wish::new());
    let empty = || wr::Recv::empty().with_context(poisoned(&pool));
    srq.post_srq_recv(empty()).unwrap();
    post_srq_recv!(srq, [empty(), wr::Recv::new(poisoned(&pool))]).unwrap();
    assert_eq!((srq.recvs_outstanding(), pool.available()), (3, 1));
    for message in [&b""[..], b"", b"8 bytes!"] {
        a.post_send(wr::Send::inline_slice(message)).unwrap();
    }
    poll(&dev, &mut ca, 3);
    let mut got: Vec<Buf> =
        poll(&dev, &mut cb, 3).into_iter().map(|done| done.received().entry.unwrap()).collect();
    assert_eq!(got.iter().map(|buf| buf.len()).collect::<Vec<_>>(), [0, 0, 8]);
    for buf in &mut got {
        buf.widen();
        assert_eq!(buf.capacity(), 8);
    }
    drop(got);
    assert_eq!((srq.recvs_outstanding(), pool.available()), (0, 4));
    let foreign = wr::Recv::empty().with_context(poisoned(&other));
    assert_eq!(srq.post_srq_recv(foreign).unwrap_err().kind(), PostErrorKind::ForeignPool);
    assert_eq!(other.available(), 1);
}

/// A buffer that a receive had for its context alone comes back without bytes. Posted again, it has
/// no element: one of length 0 would be 2^31 bytes of buffers that the program owns.
/// Proves R3.3.
#[test]
fn a_buffer_without_bytes_has_no_element() {
    fails_on!(IwarpOtherwise, "R24.15");
    profile! { Sparse { entry: AnyBuf, max_recv_sge: 2 } }
    let mut p = Pair::<Rc, Sparse>::new();
    let pool = p.pd.create_pool(16, 64).unwrap();
    let mut all: Vec<Buf> = (0..16).map(|_| poisoned(&pool)).collect();
    all.sort_by_key(|buf| std::cmp::Reverse(buf.as_ptr()));
    // The buffers behind it in memory stay with the program.
    let mut buf = all.pop().unwrap();
    let to = p.pd.register::<LocalWrite>(16).unwrap();
    let buf_of = |entry| match entry {
        AnyBuf::Buf(buf) => buf,
        AnyBuf::List(list) => list.into_bufs().ok().and_then(|mut list| list.pop_front()).unwrap(),
        other => panic!("{other:?}"),
    };
    fn exchange(p: &mut Pair<Rc, Sparse>, message: &[u8]) -> AnyBuf {
        p.a.post_send(wr::Send::inline_slice(message)).unwrap();
        poll(&p.dev, &mut p.ca, 1);
        let done = poll(&p.dev, &mut p.cb, 1).remove(0).received();
        assert_eq!(done.byte_len as usize, message.len());
        done.entry.unwrap()
    }
    p.b.post_recv(wr::Recv::empty().with_context(buf)).unwrap();
    buf = buf_of(exchange(&mut p, b""));
    assert_eq!((buf.len(), buf.capacity()), (0, 0));
    buf.narrow(..).unwrap();
    assert_eq!((buf.len(), buf.capacity()), (0, 0));

    // Alone, in a list of work requests, and before another element.
    p.b.post_recv(wr::Recv::new(buf)).unwrap();
    buf = buf_of(exchange(&mut p, b""));
    post_recv!(p.b, [wr::Recv::new(buf)]).unwrap();
    buf = buf_of(exchange(&mut p, b""));
    let mut slots = RecvSlots::<1>::new();
    let mut list = p.b.recv_list(&mut slots);
    list.push(wr::Recv::new(buf)).unwrap();
    list.post().unwrap();
    buf = buf_of(exchange(&mut p, b""));
    let parts = (buf, to.piece(0, 16).unwrap());
    p.b.post_recv(wr::Recv::at(parts).unwrap()).unwrap();
    for message in [b"16 bytes of text", b"again, 16 bytes "] {
        let AnyBuf::List(list) = exchange(&mut p, message) else { panic!("a list") };
        assert_eq!((elements(&list), bytes(&to, 0, 16)), (vec![(0, 0), (16, 0)], message.into()));
        p.b.post_recv(wr::Recv::at(list).unwrap()).unwrap();
    }
    all.into_iter().for_each(|buf| drop(untouched(buf)));
}

/// A whole message at a chosen place, although the queue is shared.
/// Proves R9.9, R6.12.
#[test]
fn shared_receives_at_a_piece_alone() {
    profile! { Shares { receive: SharedRq, entry: AnyList } }
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let (mut ca, mut cb) = (dev.ctx.create_cq(60).unwrap(), dev.ctx.create_cq(60).unwrap());
    let pool = pd.create_pool(4, 8).unwrap();
    let mut srq: SharedReceiveQueue<Rc, AnyList, Max<2>> = pd.create_srq(&pool).unwrap();
    let a = pd.create_qp::<Rc, DefaultProfile>(&ca, &ca, Depth { send: 4, recv: 4 }).unwrap();
    let b = pd.create_qp::<Rc, Shares>(&cb, &cb, Depth::on_srq(4, &srq)).unwrap();
    let (mut a, _b) = Rc::connect((a, &pd), (b, &pd), &dev, &Wish::new());
    let to = pd.register::<LocalWrite>(64).unwrap();
    let piece = |at, len| to.piece(at, len).unwrap();
    let one = wr::Recv::at(piece(3, 16)).unwrap().with_context(poisoned(&pool));
    srq.post_srq_recv(one).unwrap();
    let two = wr::Recv::at([piece(32, 3), piece(48, 13)]).unwrap().with_context(poisoned(&pool));
    srq.post_srq_recv(two).unwrap();
    for message in [b"message 1", b"message 2"] {
        a.post_send(wr::Send::inline(message)).unwrap();
    }
    poll(&dev, &mut ca, 2);
    let got = poll(&dev, &mut cb, 2).into_iter().map(Done::received);
    let [one, two] = <[_; 2]>::try_from(got.collect::<Vec<_>>()).unwrap();
    assert_eq!((one.byte_len, two.byte_len), (9, 9));
    let (one, two) = (one.entry.unwrap(), two.entry.unwrap());
    assert_eq!(elements(&one), [(0, 0), (16, 0)]);
    assert_eq!(elements(&two), [(0, 0), (3, 0), (13, 0)]);
    assert_eq!(bytes(&to, 3, 9), *b"message 1");
    assert_eq!((bytes(&to, 32, 3), bytes(&to, 48, 6)), (b"mes".to_vec(), b"sage 2".to_vec()));
    // The buffer came back without bytes, so only the piece is an element again (R3.3).
    srq.post_srq_recv(wr::Recv::at(one).unwrap()).unwrap();
    a.post_send(wr::Send::inline(b"message 3")).unwrap();
    poll(&dev, &mut ca, 1);
    let three = poll(&dev, &mut cb, 1).remove(0).received();
    assert_eq!((three.byte_len, bytes(&to, 3, 9)), (9, b"message 3".to_vec()));
    drop((two, three));
    let other = dev.ctx.alloc_pd().unwrap().register::<LocalWrite>(64).unwrap();
    let foreign = wr::Recv::at(other.piece(0, 8).unwrap()).unwrap().with_context(poisoned(&pool));
    assert_eq!(srq.post_srq_recv(foreign).unwrap_err().kind(), PostErrorKind::PdMismatch);
    assert_eq!(pool.available(), 4);
}
