//! Arenas, whose buffers have any length, and parts of buffers: narrowed, split and joined.

use proverbs::completion::GRH_LEN;
use proverbs::memory::SplitError;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::Max;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::support::*;

/// A buffer of the arena with exactly these bytes.
#[track_caller]
fn of(arena: &Arena, bytes: &[u8]) -> Buf {
    let mut buf = arena.take(bytes.len()).expect("room in the arena");
    buf.copy_from(bytes).unwrap();
    buf
}

/// Checks that all buffers are back and form one block again.
#[track_caller]
fn is_whole(arena: Arena) {
    assert_eq!((arena.available(), arena.spare()), (arena.len(), arena.count()));
    assert_eq!((arena.longest(), arena.is_empty()), (arena.len(), false));
    arena.destroy().unwrap();
}

/// Proves R18.32.
#[test]
fn messages_of_any_length() {
    let mut p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(1 << 20, 16).unwrap();
    // (The long ones have several packets; Miri sees nothing new in more of them.)
    let long: &[usize] = if cfg!(miri) { &[4097] } else { &[4095, 4097, 100_000] };
    for &len in [1, 7, 63, 64, 65, 100].iter().chain(long) {
        let message = numbered(len, len);
        p.b.post_recv(wr::Recv::new(arena.take(len + 5).unwrap())).unwrap();
        p.a.post_send(wr::Send::new(of(&arena, &message))).unwrap();
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
        assert!(got.data() == message, "{len} bytes");
        assert_eq!(got.entry.unwrap().capacity(), (len + 5).next_multiple_of(64));
    }
    is_whole(arena);
}

#[test]
fn writes_reads_and_lists() {
    fails_on!(Iwarp, "R24.4");
    profile! { Lists { max_send_sge: 4, max_recv_sge: 4, entry: BufList } }
    let mut p = Pair::<Rc, Lists>::new();
    let arena = p.pd.create_arena(1 << 16, 32).unwrap();
    let region = p.pd.register::<RemoteReadWrite>(4096).unwrap();
    let message = numbered(3, 3000);
    // Gathered from three buffers, two of which are parts of one.
    let mut body = of(&arena, &message[1000..]);
    let tail = body.split_off(777).unwrap();
    let list = [of(&arena, &message[..1000]), body, tail];
    p.a.post_send(wr::RdmaWrite::new(list, region.remote().slice(0, 3000).unwrap().write()))
        .unwrap();
    drop(poll(&p.dev, &mut p.ca, 1));
    // And back, into others.
    let mut first = arena.take(1280).unwrap();
    let second = first.split_off(123).unwrap();
    let list = [first, second, arena.take(2000).unwrap()];
    p.a.post_send(wr::RdmaRead::new(list, region.remote().slice(0, 3000).unwrap().read())).unwrap();
    let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    let parts: Vec<usize> = read.segments().map(<[u8]>::len).collect();
    assert_eq!(parts, [123, 1157, 1720]);
    assert!(read.segments().collect::<Vec<_>>().concat() == message);
    drop(read);
    is_whole(arena);
}

/// Sends a received message from an offset behind its header, without a copy. Then the buffer
/// receives again.
/// Proves R18.31.
#[test]
fn a_payload_is_sent_on_from_an_offset() {
    let mut p = Pair::<Rc>::new();
    let mut at_b = poisoned(&p.pool);
    let whole = (at_b.as_ptr(), at_b.capacity());
    for round in 0..3 {
        let payload = numbered(round, 20 + round);
        p.b.post_recv(wr::Recv::new(at_b)).unwrap();
        let message = [&b"13 of header;"[..], &payload].concat();
        p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &message))).unwrap();
        let mut got = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
        got.narrow(13..).unwrap();
        assert_eq!((got.as_ptr(), got.capacity()), (whole.0.wrapping_add(13), payload.len()));
        // Its acknowledgement may arrive after the echo, so wait for it first.
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        p.b.post_send(wr::Send::new(got)).unwrap();
        at_b = poll(&p.dev, &mut p.cb, 1).remove(0).sent().entry.unwrap();
        let echo = poll(&p.dev, &mut p.ca, 1).remove(0).received().entry.unwrap();
        holds(echo, &payload);
        at_b.widen();
        assert_eq!((at_b.as_ptr(), at_b.capacity(), at_b.len()), (whole.0, whole.1, whole.1));
    }
    drop(at_b);
    assert_eq!(p.pool.available(), p.pool.count());
}

/// Proves R18.31.
#[test]
fn a_datagram_is_sent_on_from_after_its_grh() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud>::new();
    let to_b = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let to_a = p.b.way_to(&p.dev, &p.pd, p.a.qp_num());
    let arena = p.pd.create_arena(4096, 8).unwrap();
    for len in [0, 1, 64, 150] {
        let message = numbered(len, len);
        p.b.post_recv(wr::Recv::new(arena.take(200).unwrap())).unwrap();
        p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &message)).to(to_b)).unwrap();
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
        let mut payload = got.entry.unwrap();
        payload.narrow(GRH_LEN..).unwrap();
        assert_eq!(&payload[..], message);
        p.b.post_send(wr::Send::new(payload).to(to_a)).unwrap();
        poll(&p.dev, &mut p.cb, 1).remove(0).sent();
        let echo = poll(&p.dev, &mut p.ca, 1).remove(0).datagram();
        assert_eq!(echo.payload(), message);
    }
    is_whole(arena);
}

/// One part receives, another is sent, and the program uses the third.
/// Proves R18.32.
#[test]
fn parts_are_in_flight_independently() {
    let mut p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(4096, 8).unwrap();
    let mut mine = of(&arena, &numbered(1, 256));
    let mut sink = mine.split_off(64).unwrap();
    let source = sink.split_off(96).unwrap();
    assert_eq!((mine.capacity(), sink.capacity(), source.capacity()), (64, 96, 96));
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_recv(wr::Recv::new(sink)).unwrap();
    p.a.post_send(wr::Send::new(source)).unwrap();
    mine[..].fill(1);
    p.b.post_send(wr::Send::new(filled(&p.pool, b"between them"))).unwrap();
    let mut done = poll(&p.dev, &mut p.ca, 2);
    let is_sent = |done: &Done<Buf>| matches!(done, Done::Sent(_));
    let source = done.remove(done.iter().position(is_sent).unwrap()).sent().entry.unwrap();
    let sink = done.remove(0).received().entry.unwrap();
    let mut done = poll(&p.dev, &mut p.cb, 2);
    let got = done.remove(done.iter().position(|done| !is_sent(done)).unwrap()).received();
    assert_eq!(got.data(), &numbered(1, 256)[160..]);
    assert_eq!((&sink[..], sink.capacity()), (&b"between them"[..], 96));
    mine.join(sink).unwrap();
    assert_eq!((mine.len(), mine.capacity()), (76, 160));
    mine.join(source).unwrap();
    let expected = [&[1; 64][..], b"between them", &numbered(1, 256)[76..]].concat();
    assert_eq!(mine[..], expected);
    drop(mine);
    drop((got, done));
    is_whole(arena);
}

/// The device writes only into the part that a buffer was narrowed to.
/// Proves R18.31.
#[test]
fn nothing_is_written_outside_a_part() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAll>(64).unwrap();
    region.write_at(0, &[7; 64]).unwrap();
    let mut buf = poisoned(&p.pool);
    let poison = buf[0];
    let capacity = buf.capacity();
    let check = |mut buf: Buf, expected: &[u8], at: usize| {
        assert_eq!(&buf[..], expected);
        buf.widen();
        let before = buf[..at].iter().all(|&byte| byte == poison);
        let behind = buf[at + expected.len()..].iter().all(|&byte| byte == poison);
        assert!(before && behind && buf.len() == capacity, "at {at}");
        buf[..].fill(poison);
        buf
    };
    buf.narrow(11..16).unwrap();
    p.b.post_recv(wr::Recv::new(buf)).unwrap();
    p.a.post_send(wr::Send::inline(b"five!")).unwrap();
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
    buf = check(got, b"five!", 11);

    buf.narrow(20..33).unwrap();
    let at = |len| region.remote().slice(0, len).unwrap().read();
    let error = p.a.post_send(wr::RdmaRead::new(buf, at(14))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsBuffers { asked: 14, max: 13 });
    buf = error.into_rejected().next().unwrap();
    p.a.post_send(wr::RdmaRead::new(buf, at(13))).unwrap();
    let done = poll(&p.dev, &mut p.ca, 2);
    let read = done.into_iter().filter_map(|done| done.sent().entry).next().unwrap();
    buf = check(read, &[7; 13], 20);

    // A part of 8 bytes at any offset takes the result; fewer do not.
    let cell = region.remote().atomic(0).unwrap();
    let operands = wr::CompareSwap { compare: 0, swap: 0 };
    for len in [0, 1, 7] {
        buf.narrow(41..41 + len).unwrap();
        let refused = PostErrorKind::AtomicExceedsBuffer { max: len.max(1) as u64 };
        let error = p.a.post_send(wr::FetchAndAdd::new(buf, cell, 0)).unwrap_err();
        assert_eq!(error.kind(), refused);
        buf = error.into_rejected().next().unwrap();
        let error = post_send!(p.a, [wr::CmpAndSwp::new(buf, cell, operands)]).unwrap_err();
        assert_eq!(error.kind(), refused);
        buf = error.into_rejected().next().unwrap();
        assert_eq!((buf.len(), buf.capacity()), (len.max(1), len.max(1)));
        buf.widen();
    }
    buf.narrow(41..49).unwrap();
    p.a.post_send(wr::FetchAndAdd::new(buf, cell, 0)).unwrap();
    let old = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    check(old, &[7; 8], 41);
}

/// An empty range has room for one byte, since a receive with length 0 could mean 2^31 bytes.
#[test]
fn a_part_has_the_bounds_of_its_range() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(64, 1).unwrap();
    let mut buf = of(&arena, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for (range, expected) in [
        ((Included(2), Included(4)), &[2u8, 3, 4][..]),
        ((Excluded(2), Included(4)), &[3, 4]),
        ((Excluded(2), Excluded(4)), &[3]),
        ((Unbounded, Included(0)), &[0]),
        ((Unbounded, Excluded(1)), &[0]),
        ((Excluded(5), Unbounded), &[6, 7]),
        ((Included(7), Included(7)), &[7]),
    ] {
        buf.widen();
        buf.set_len(8);
        buf.narrow(range).unwrap();
        assert_eq!(&buf[..], expected, "{range:?}");
    }
    buf.widen();
    buf.set_len(8);
    for range in
        [(Included(0), Included(8)), (Excluded(usize::MAX), Unbounded), (Included(5), Included(3))]
    {
        let error = buf.narrow(range).unwrap_err();
        let len = if range.0 == Included(0) { 9 } else { 0 };
        assert_eq!((error.len, error.available, buf.len()), (len, 8, 8), "{range:?}");
        assert!(!error.misaligned);
    }
}

/// Proves R18.31.
#[test]
fn an_empty_part_receives_at_most_a_byte() {
    let mut p = Pair::<Rc>::new();
    for at in [0, 5, 256] {
        let mut buf = poisoned(&p.pool);
        assert_eq!(buf.capacity(), 256);
        buf.narrow(at..at).unwrap();
        assert_eq!((buf.len(), buf.capacity()), (0, 1));
        p.b.post_recv(wr::Recv::new(buf)).unwrap();
        p.a.post_send(wr::Send::inline(b"!")).unwrap();
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        let mut got = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
        assert_eq!(&got[..], b"!");
        got.widen();
        assert_eq!(got[at.min(255)], b'!');
        // As a send it is a message of no bytes.
        got.narrow(at..at).unwrap();
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(got)).unwrap();
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().byte_len, 0);
    }
}

/// Proves R18.31.
#[test]
fn a_part_that_is_dropped_is_whole_at_the_next_take() {
    let p = Pair::<Rc>::new();
    let pool = p.pd.create_pool(1, 64).unwrap();
    let mut buf = pool.take().unwrap();
    let at = buf.as_ptr();
    buf.narrow(60..).unwrap();
    drop(buf);
    let mut buf = pool.take().unwrap();
    assert_eq!((buf.as_ptr(), buf.capacity(), buf.len()), (at, 64, 64));
    assert_eq!(buf.split_off(8).unwrap_err(), SplitError::OfPool);
    buf.narrow(8..16).unwrap();
    assert!(buf.narrow(4..9).is_err() && buf.narrow(9..).is_err());
    #[allow(clippy::reversed_empty_ranges)] // on purpose
    let reversed = buf.narrow(3..2);
    assert!(reversed.is_err() && buf.narrow(..=usize::MAX).is_err());
    assert_eq!((buf.as_ptr(), buf.len()), (at.wrapping_add(8), 8));
}

/// Dropped buffers keep their bytes and headers for the next buffers of the same length, until
/// another length needs them.
/// Proves R18.32.
#[test]
fn dropped_buffers_make_room_for_other_lengths() {
    let p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(200 * 64, 200).unwrap();
    let short: Vec<_> = (0..200).map(|_| arena.take(64).unwrap()).collect();
    assert!(arena.take(1).is_none());
    drop(short);
    let whole = arena.take(200 * 64).expect("all of it");
    assert_eq!(whole.capacity(), 200 * 64);
    drop(whole);
    for len in [1, 65, 130, 4000] {
        drop([arena.take(len), arena.take(len)]);
    }
    assert!(arena.take(198 * 64).is_some());
    is_whole(arena);

    let arena = p.pd.create_arena(1 << 12, 2).unwrap();
    for len in [64, 128, 192, 0, 4096, 1] {
        let first = arena.take(len).expect("a header");
        assert_eq!((first.len(), first.capacity()), (len, len.next_multiple_of(64).max(64)));
        assert!(len == 4096 || arena.take(64).is_some());
    }
    is_whole(arena);
}

/// Proves R18.31 and R18.32.
#[test]
fn a_narrowed_or_split_buffer_that_was_dropped_has_its_bytes_again() {
    let p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(1 << 12, 8).unwrap();
    let mut buf = of(&arena, &numbered(1, 256));
    let at = buf.as_ptr();
    buf.narrow(64..128).unwrap();
    drop(buf);
    let [short, buf] = [arena.take(64).unwrap(), arena.take(200).unwrap()];
    assert_eq!((buf.as_ptr(), buf.len(), buf.capacity()), (at, 200, 256));
    assert_ne!(short.as_ptr(), at.wrapping_add(64));
    let mut front = buf;
    let back = front.split_off(70).unwrap();
    let (at, capacity) = (back.as_ptr(), back.capacity());
    drop(back);
    let other = arena.take(capacity).unwrap();
    assert!(other.as_ptr().addr() % 64 == 0 && other.as_ptr() != at, "it starts at a line");
    drop((front, other, short));
    is_whole(arena);
}

/// Four threads take, split, join and drop, and find in each buffer what they wrote there.
#[test]
fn threads_share_an_arena() {
    let p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(1 << 14, 100).unwrap();
    let rounds = if cfg!(miri) { 30 } else { 3000 };
    std::thread::scope(|threads| {
        for seed in 1..=4 {
            let arena = arena.clone();
            threads.spawn(move || {
                println!("seed {seed}");
                let mut random = Pcg64Mcg::seed_from_u64(seed);
                let mut bufs = Vec::<Buf>::new();
                for _ in 0..rounds {
                    let random = random.next_u32() as usize;
                    if bufs.len() == 12 || random % 4 == 0 {
                        let Some(last) = bufs.pop() else { continue };
                        assert!(last.iter().all(|&byte| byte == seed as u8));
                        if random % 3 == 0 {
                            bufs.clear();
                        }
                    } else if let Some(mut buf) = arena.take(1 + random / 4 % 300) {
                        buf.fill(seed as u8);
                        if buf.len() > 100 && random % 5 == 0 {
                            bufs.extend(buf.split_off(64));
                        }
                        bufs.push(buf);
                    }
                }
            });
        }
    });
    is_whole(arena);
}

/// Proves R18.33.
#[test]
fn a_shared_receive_queue_takes_an_arena() {
    profile! { Shared { receive: SharedRq } }
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let (arena, other) = (pd.create_arena(4096, 4).unwrap(), pd.create_arena(4096, 4).unwrap());
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&arena).unwrap();
    let (sends, mut receives) = (dev.ctx.create_cq(40).unwrap(), dev.ctx.create_cq(40).unwrap());
    let depth = Depth { send: 8, recv: 0 };
    let from = pd.create_qp::<Rc, DefaultProfile>(&sends, &sends, depth).unwrap();
    let to = pd.create_qp::<Rc, Shared>(&sends, &receives, Depth::on_srq(4, &srq)).unwrap();
    let wish = Wish::new();
    let (mut from, to) = Rc::connect((from, &pd), (to, &pd), &dev, &wish);
    let error = srq.post_srq_recv(wr::Recv::new(other.take(64).unwrap())).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ForeignPool);
    drop(error);
    // Four parts of one buffer, which use all headers.
    let mut parts = vec![arena.take(256).unwrap()];
    for at in [128, 64, 32] {
        let part = parts[0].split_off(at).unwrap();
        parts.push(part);
    }
    assert_eq!(parts[0].split_off(16).unwrap_err(), SplitError::NoHeader { count: 4 });
    assert_eq!(parts.len(), 4);
    parts.into_iter().rev().for_each(|part| srq.post_srq_recv(wr::Recv::new(part)).unwrap());
    assert_eq!(srq.recvs_outstanding(), 4);
    for message in [&b"one"[..], b"two"] {
        from.post_send(wr::Send::new(of(&other, message))).unwrap();
        let got = poll(&dev, &mut receives, 1).remove(0).received();
        assert_eq!(got.data(), message);
    }
    drop((from, to));
    srq.destroy().unwrap();
    poll_empty(&mut receives);
    drop((receives, sends));
    is_whole(arena);
    is_whole(other);
}

/// Proves R18.32.
#[test]
fn orphaned_parts_return() {
    let Pair { dev, pd, mut a, b, mut ca, mut cb, .. } = Pair::<Rc>::new();
    let arena = pd.create_arena(1024, 8).unwrap();
    let mut held = arena.take(1024).unwrap();
    let mut one = held.split_off(100).unwrap();
    let two = one.split_off(100).unwrap();
    one.narrow(3..5).unwrap();
    a.post_recv(wr::Recv::new(one)).unwrap();
    a.post_recv(wr::Recv::new(two)).unwrap();
    drop((a, b));
    assert_eq!([&mut ca, &mut cb].map(|cq| arena.reclaim(cq)), [0, 0], "not polled yet");
    for cq in [&mut ca, &mut cb] {
        poll_empty(cq);
    }
    let home: usize = [&mut ca, &mut cb].map(|cq| arena.reclaim(cq)).iter().sum();
    assert!(home <= 2, "polls may have returned them already");
    assert_eq!([&mut ca, &mut cb].map(|cq| arena.reclaim(cq)), [0, 0], "all are home");
    assert_eq!((arena.available(), arena.spare()), (1024 - 100, 7));
    assert_eq!(
        held.join(arena.take(64).unwrap()).unwrap_err().into_object().capacity(),
        64,
        "at 128"
    );
    drop(held);
    is_whole(arena);
    drop((dev, pd));
}

/// A queue that ends while every buffer of an arena is in use searches all of its headers, and none
/// beyond. The empty receive is counted and has no buffer, so the search does not stop early. (A
/// debug assertion in `Slots::note_taken` would fail otherwise.)
#[test]
fn a_search_ends_with_the_last_buffer_of_an_arena() {
    fails_on!(IwarpOtherwise, "R24.15");
    let mut p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(4096, 2).unwrap();
    let kept = arena.take(64).unwrap();
    p.a.post_recv(wr::Recv::new(arena.take(64).unwrap())).unwrap();
    p.a.post_recv(wr::Recv::empty()).unwrap();
    drop((p.a, p.b));
    for cq in [&mut p.ca, &mut p.cb] {
        poll_empty(cq);
        arena.reclaim(cq);
    }
    assert_eq!((arena.available(), arena.spare()), (4096 - 64, 1));
    drop(kept);
    is_whole(arena);
}

/// Parts of an arena that is gone can still be split and joined, and the last one frees its memory.
#[test]
fn parts_outlive_their_arena() {
    let p = Pair::<Rc>::new();
    for is_joined in [false, true] {
        let pd = p.dev.ctx.alloc_pd().unwrap();
        let arena = pd.create_arena(4096, 8).unwrap();
        let dropped = arena.take(64).unwrap();
        let (mut first, other) = (arena.take(512).unwrap(), arena.take(64).unwrap());
        drop(dropped);
        drop(arena);
        let mut second = first.split_off(128).unwrap();
        let third = second.split_off(128).unwrap();
        if is_joined {
            second.join(third).unwrap();
        } else {
            drop(third);
        }
        drop((first, other));
        second.fill(7);
        let pd = pd.destroy().unwrap_err().into_object();
        drop(second);
        pd.destroy().unwrap();
    }
}

/// `reclaim` returns the number of buffers that a poll would otherwise return.
#[test]
fn orphaned_parts_are_counted() {
    fails_on!(Siw, "R10.13");
    let mut p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(1024, 8).unwrap();
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    for len in [100, 200] {
        p.a.post_recv(wr::Recv::new(arena.take(len).unwrap())).unwrap();
    }
    p.a.post_send(wr::RdmaWrite::inline(b"x", region.remote().write())).unwrap();
    drop(p.a);
    // That completion may or may not be there. If it is, one more poll would be needed.
    let completions = p.ca.poll().unwrap().map(drop).count();
    let home = arena.reclaim(&mut p.ca);
    assert_eq!(home, if completions == 0 { 0 } else { 2 });
    assert_eq!(arena.reclaim(&mut p.ca), 0, "all are home");
    is_whole(arena);
}

/// The longest possible buffer, and one line more.
#[test]
#[cfg(not(miri))]
fn the_longest_buffer_of_all() {
    const LONGEST: usize = (1 << 31) - 64;
    let p = Pair::<Rc>::new();
    if p.dev.kind != Kind::Loopback {
        return; // it would need all memory
    }
    let memory = proverbs::memory::MapOptions::new().anonymous(1 << 31).unwrap();
    let arena = p.pd.arena(4).create_in(memory).unwrap();
    let mut all = arena.take(1 << 30).unwrap();
    let (next, last) = (arena.take((1 << 30) - 64).unwrap(), arena.take(64).unwrap());
    all.join(next).unwrap();
    assert_eq!(all.capacity(), LONGEST);
    let error = all.join(last).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} bytes exceed the {LONGEST} bytes of the longest buffer", 1u32 << 31)
    );
    drop((all, error));
    assert_eq!(arena.longest(), LONGEST);
    assert!(arena.take(LONGEST).is_some() && arena.take(LONGEST + 1).is_none());
}

#[test]
fn arenas_in_the_programs_own_memory() {
    let p = Pair::<Rc>::new();
    let words = vec![7u64.to_le(); 1000];
    let at = words.as_ptr().addr();
    let arena = p.pd.arena(4).create_in(words).unwrap();
    let lead = at.wrapping_neg() % 64;
    assert_eq!(arena.len(), (8000 - lead) / 64 * 64);
    let mut buf = arena.take(arena.len()).unwrap();
    assert_eq!((buf.as_ptr().addr(), buf[0], buf.len()), (at + lead, 7, arena.len()));
    buf[0] = 9;
    let refused = arena.destroy().unwrap_err();
    assert!(refused.error.to_string().contains("buffers of the arena are in use"));
    drop(buf);
    let words = refused.into_object().destroy().unwrap();
    assert_eq!((words.as_ptr().addr(), words.len()), (at, 1000));
    assert_eq!(words[lead / 8].to_ne_bytes()[0], 9);

    let refused = p.pd.arena(4).create_in(vec![0u8; 63]).unwrap_err();
    assert_eq!(refused.error.errno(), Some(22));
    assert_eq!(refused.into_object().len(), 63);
    assert_eq!(p.pd.create_arena(0, 4).unwrap_err().errno(), Some(22));
    assert_eq!(p.pd.create_arena(64, 0).unwrap_err().errno(), Some(22));
    let error = p.pd.create_arena(64, 1 << 31).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { what: "number of buffers", .. }));
}

/// The region is deregistered, and the contexts are dropped.
#[test]
fn a_context_that_panics_leaves_nothing() {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let made = std::sync::Arc::new(());
    for bad in [0, 3, 7] {
        let context = |i| match i == bad {
            true => resume_unwind(Box::new("on purpose")),
            false => made.clone(),
        };
        let arena = AssertUnwindSafe(|| pd.arena(8).contexts(context).create(4096).map(drop));
        let pool = AssertUnwindSafe(|| pd.pool(64).contexts(context).create(8).map(drop));
        assert!(catch_unwind(arena).is_err() && catch_unwind(pool).is_err());
    }
    assert_eq!(std::sync::Arc::strong_count(&made), 1);
    pd.destroy().unwrap();
}
