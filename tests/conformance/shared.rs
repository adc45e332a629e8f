//! Entries other than exclusive buffers: shared ones, pieces of open regions, and mixtures.

use proverbs::completion::{Direction, WcStatus};
use proverbs::memory::OpenBuf;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Any { max_send_sge: 2, max_recv_sge: 2, initiator: NoReads, entry: AnyBuf } }
profile! { Reader { entry: AnyBuf } }

/// Proves R6.13.
#[test]
fn one_shared_buffer_is_sent_on_three_queue_pairs() {
    let mut followers: Vec<_> = (0..3).map(|_| Pair::<Rc, Any>::new()).collect();
    // They share one device and domain, so that one buffer can be used on all.
    let leader = followers.remove(0);
    let (dev, pd, pool) = (leader.dev.clone(), leader.pd.clone(), leader.pool.clone());
    let wish = Wish::new();
    let mut pairs: Vec<_> = (0..3)
        .map(|_| {
            let ca = dev.ctx.create_cq::<AnyBuf>(60).unwrap();
            let cb = dev.ctx.create_cq::<AnyBuf>(60).unwrap();
            let a = pd.create_qp::<Rc, Any>(&ca, &ca, wish.depth).unwrap();
            let b = pd.create_qp::<Rc, Any>(&cb, &cb, wish.depth).unwrap();
            let (a, b) = Rc::connect((a, &pd), (b, &pd), &dev, &wish);
            (a, b, ca, cb)
        })
        .collect();
    let entry = filled(&pool, b"log entry").freeze();
    for (a, b, ..) in &mut pairs {
        b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        a.post_send(wr::Send::new(entry.clone())).unwrap();
    }
    // It can be read while it is with three devices.
    assert_eq!(&entry[..], b"log entry");
    drop(entry);
    let mut back = Vec::new();
    for (_, _, ca, cb) in &mut pairs {
        back.push(poll(&dev, ca, 1).remove(0).sent().entry.unwrap());
        let got = poll(&dev, cb, 1).remove(0).received().entry.unwrap().into_buf().unwrap();
        holds(got, b"log entry");
    }
    assert_eq!(pool.available(), 39);
    assert!(back.iter().all(|entry| matches!(entry, AnyBuf::Shared(_))));
    drop(back);
    assert_eq!(pool.available(), 40, "dropping the last clone returns the buffer");
}

/// Proves R3.8.
#[test]
fn pieces_of_an_open_region_are_sent_and_filled() {
    let mut p = Pair::<Rc, Reader>::new();
    let here = p.pd.register::<RemoteReadWrite>(64).unwrap();
    let there = p.pd.register::<RemoteReadWrite>(64).unwrap();
    here.write_at(10, b"open piece").unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let remote = there.remote();
    post_send!(
        p.a,
        [
            wr::Send::new(here.piece(10, 10).unwrap()),
            wr::RdmaWrite::new(here.piece(10, 4).unwrap(), remote.write()),
            wr::RdmaRead::new(here.piece(40, 4).unwrap(), remote.slice(0, 4).unwrap().read()),
        ]
    )
    .unwrap();
    let sent = poll(&p.dev, &mut p.ca, 3).into_iter().map(|s| s.sent().entry.unwrap());
    let lengths: Vec<_> = sent
        .map(|entry| match entry {
            AnyBuf::Open(piece) => piece.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lengths, [10, 4, 4]);
    let mut bytes = [0; 6];
    here.read_at(39, &mut bytes).unwrap();
    assert_eq!(&bytes, b"\0open\0");
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    assert_eq!(got.segments().flatten().copied().collect::<Vec<_>>(), b"open piece");
    assert!(here.piece(60, 5).is_err());
    assert!(here.piece(64, 0).unwrap().is_empty());
}

/// Proves R6.10, R11.5.
#[test]
fn a_region_stays_registered_while_a_piece_is_with_the_device() {
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<RemoteRead>(16).unwrap();
    region.write_at(0, b"still registered").unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(region.piece(0, 16).unwrap())).unwrap();
    let refused = region.destroy().unwrap_err();
    assert_eq!(
        said(&refused),
        "ibv_dereg_mr: EBUSY: Device or resource busy (pieces of the region exist, or \
         windows are bound to it: drop them, including those in completions)"
    );
    drop(refused);
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
    holds(got.into_buf().unwrap(), b"still registered");
    poll(&p.dev, &mut p.ca, 1);
}

#[test]
fn every_kind_of_entry_on_one_queue_keeps_its_kind() {
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<RemoteRead>(8).unwrap();
    for _ in 0..5 {
        p.b.post_recv(wr::Recv::new([poisoned(&p.pool), poisoned(&p.pool)])).unwrap();
    }
    post_send!(
        p.a,
        [
            wr::Send::new(filled(&p.pool, b"buf")),
            wr::Send::new([filled(&p.pool, b"li"), filled(&p.pool, b"st")]),
            wr::Send::new(filled(&p.pool, b"shared").freeze()),
            wr::Send::new(region.piece(0, 8).unwrap()),
            wr::Send::new(wr::Empty),
        ]
    )
    .unwrap();
    let kinds = poll(&p.dev, &mut p.ca, 5).into_iter().map(|sent| match sent.sent().entry {
        Some(AnyBuf::Buf(_)) => "buf",
        Some(AnyBuf::List(list)) if list.len() == 2 => "list",
        Some(AnyBuf::Shared(_)) => "shared",
        Some(AnyBuf::Open(_)) => "open",
        None => "none",
        other => panic!("{other:?}"),
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["buf", "list", "shared", "open", "none"]);
    let got = poll(&p.dev, &mut p.cb, 5).into_iter().map(Done::received);
    let got: Vec<Vec<u8>> = got.map(|g| g.segments().flatten().copied().collect()).collect();
    assert_eq!(got, [&b"buf"[..], b"list", b"shared", &[0; 8], b""]);
    assert_eq!(p.pool.available(), 40);
}

profile! { OnlyShared { entry: SharedBuf } }
profile! { OnlyOpen { entry: OpenBuf } }
profile! { SharedRing { entry: SharedBuf, signaling: Selective, initiator: NoReads } }

#[test]
fn queues_of_only_shared_buffers_or_open_pieces() {
    fails_on!(Iwarp, "R24.2");
    fails_on!(NoRings);
    let mut p = Pair::<Uc, OnlyShared>::new();
    let buf = filled(&p.pool, b"again and again").freeze();
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::empty()).unwrap();
        let region = p.pd.register::<RemoteWrite>(16).unwrap();
        let wr = wr::RdmaWriteWithImm::new(buf.clone(), region.remote().write(), 1);
        p.a.post_send(wr).unwrap();
        poll(&p.dev, &mut p.cb, 1);
        let back = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        assert_eq!(&back[..], b"again and again");
        let mut bytes = [0; 15];
        region.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, back[..]);
    }

    let mut p = Pair::<Rc, SharedRing>::new();
    let region = p.pd.register::<RemoteWrite>(16).unwrap();
    let buf = filled(&p.pool, b"in a ring").freeze();
    for count in [1, 2, 3] {
        for _ in 1..count {
            let wr = wr::RdmaWrite::new(buf.clone(), region.remote().write());
            let _ = p.a.post_send_unsignaled(wr).unwrap();
        }
        p.a.post_send(wr::RdmaWrite::new(buf.clone(), region.remote().write())).unwrap();
        let (status, released) = complete(&p.dev, &mut p.ca, &mut p.a, 1).remove(0);
        assert_eq!((status, released.len(), buf.handles()), (Ok(()), count, 1 + count));
        assert!(released.iter().all(|back| back[..] == *b"in a ring"));
    }
    assert_eq!(buf.handles(), 1);

    let mut p = Pair::<Rc, OnlyOpen>::new();
    let region = p.pd.register::<RemoteReadWrite>(16).unwrap();
    region.write_at(0, b"12345678").unwrap();
    let to = region.remote().slice(8, 8).unwrap().write();
    p.a.post_send(wr::RdmaWrite::new(region.piece(0, 8).unwrap(), to)).unwrap();
    let back = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    assert_eq!(back.len(), 8);
    let mut bytes = [0; 16];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"1234567812345678");
}

/// A list is checked as a whole, whatever the other entries are.
#[test]
fn a_list_among_other_entries() {
    let mut p = Pair::<Rc, Any>::new();
    let foreign = p.dev.ctx.alloc_pd().unwrap().create_pool(1, 8).unwrap();
    for place in 0..2 {
        let mut bufs = [filled(&p.pool, b"one"), filled(&p.pool, b"two")];
        bufs[place] = filled(&foreign, b"far");
        let error = p.a.post_send(wr::Send::new(bufs)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::PdMismatch, "element {place}");
        let list = error.into_rejected().next().unwrap().into_list().unwrap();
        assert_eq!(list.len(), 2);
        let error = p.b.post_recv(wr::Recv::new(list)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::PdMismatch, "element {place}");
    }
    assert_eq!((p.pool.available(), foreign.available()), (40, 1));
    let small = p.pd.create_pool(2, 8).unwrap();
    p.b.post_recv(wr::Recv::new([poisoned(&small), poisoned(&small)])).unwrap();
    p.a.post_send(wr::Send::new([filled(&p.pool, b"one hun"), filled(&p.pool, b"dred")])).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    let lengths = |list: BufList| list.map(|buf| buf.len()).collect::<Vec<_>>();
    assert_eq!(lengths(sent.into_list().unwrap()), [7, 4]);
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    assert_eq!(got.segments().flatten().copied().collect::<Vec<u8>>(), b"one hundred");
    assert!(matches!(got.entry, Some(AnyBuf::List(_))));
    assert_eq!(lengths(got.entry.unwrap().into_list().unwrap()), [8, 3]);
    // An entry that is not a list does not convert to one.
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"x").freeze())).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    assert!(sent.into_list().is_none());
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    assert_eq!(got.segments().collect::<Vec<_>>(), [b"x"]);
    assert!(got.entry.unwrap().into_list().is_none());
}

/// Each handle returns its own context value, even if the buffer has several handles, and if the
/// work requests fail.
#[test]
fn handles_return_their_context_values() {
    fails_on!(IwarpOtherwise, "R24.7");
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    let remote = region.remote();
    let one = filled(&p.pool, b"entry").freeze();
    let named = |id| {
        let mut handle = one.clone();
        handle.set_id(id);
        handle
    };
    let mut piece = region.piece(8, 8).unwrap();
    piece.set_id(u64::MAX);
    let posts = post_send!(
        p.a,
        [
            wr::RdmaWrite::new(named(7), remote.write()),
            wr::RdmaWrite::new(named(8), remote.write()),
            wr::RdmaWrite::new(piece, remote.write()),
            wr::RdmaWrite::new(named(9).clone(), remote.write()),
        ]
    );
    posts.unwrap();
    let id = |entry: AnyBuf| match entry {
        AnyBuf::Shared(shared) => shared.id(),
        AnyBuf::Open(piece) => piece.id(),
        other => panic!("{other:?}"),
    };
    let ids = poll(&p.dev, &mut p.ca, 4).into_iter().map(|sent| id(sent.sent().entry.unwrap()));
    assert_eq!(ids.collect::<Vec<_>>(), [7, 8, u64::MAX, 9]);
    assert_eq!((one.id(), one.handles()), (0, 1));
    // Rejected, and flushed.
    let foreign = p.dev.ctx.alloc_pd().unwrap().register::<RemoteRead>(8).unwrap();
    let mut piece = foreign.piece(0, 8).unwrap();
    piece.set_id(5);
    let error = p.a.post_send(wr::Send::new(piece)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::PdMismatch);
    assert_eq!(error.into_rejected().map(id).collect::<Vec<_>>(), [5]);
    let mut dead = p.a.to_error().unwrap();
    dead.post_send(wr::Send::new(named(6))).unwrap();
    let entry =
        poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::WrFlush).entry;
    assert_eq!(id(entry.unwrap()), 6);
}

/// A frozen buffer is exclusive again when its other handles are gone, wherever they were.
/// Proves R18.43.
#[test]
fn a_frozen_buffer_is_thawed() {
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<RemoteReadWrite>(16).unwrap();
    let kept = filled(&p.pool, b"frozen").freeze();
    p.a.post_send(wr::RdmaWrite::new(kept.clone(), region.remote().write())).unwrap();
    let kept = kept.thaw::<()>().unwrap_err();
    assert_eq!(kept.handles(), 2);
    let back = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry;
    let kept = kept.thaw::<()>().unwrap_err();
    drop(back);
    // With another context it cannot be thawed.
    let kept = kept.thaw::<u32>().unwrap_err();
    assert_eq!((&kept[..], kept.handles(), p.pool.available()), (&b"frozen"[..], 1, 39));
    let mut buf: Buf = kept.thaw().unwrap();
    assert_eq!((&buf[..], p.pool.available()), (&b"frozen"[..], 39));
    buf.copy_from(b"written again").unwrap();
    // It is a buffer like any other: alone, in a list, frozen again.
    for _ in 0..3 {
        p.a.post_send(wr::RdmaWrite::new(buf, region.remote().write())).unwrap();
        let back = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        let list: BufList = [back.into_buf().unwrap()].into();
        buf = list.into_iter().next().unwrap().freeze().thaw().unwrap();
    }
    arrives(&p.dev, b"written again", |now| region.read_at(0, now).unwrap());
    drop(buf);
    assert_eq!(p.pool.available(), 40);
}

/// A new handle has no number, even if its header was used before.
#[test]
fn a_new_handle_has_no_number() {
    let p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    for number in 1..4 {
        let (mut piece, mut shared) =
            (region.piece(0, 8).unwrap(), p.pool.take().unwrap().freeze());
        assert_eq!((piece.id(), shared.id()), (0, 0));
        piece.set_id(number);
        shared.set_id(number << 32);
        assert_eq!((piece.id(), shared.id()), (number, number << 32));
    }
}

/// A handle in a dropped list was never posted, so the next owner of its header keeps it when the
/// queue pair ends.
#[test]
fn a_handle_of_a_dropped_list_was_never_posted() {
    fails_on!(Iwarp, "R24.6");
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    for panics in [false, true] {
        let mut p = Pair::<Rc, Any>::new();
        let region = p.pd.register::<RemoteReadWrite>(16).unwrap();
        let kept = filled(&p.pool, b"frozen").freeze();
        let write = || wr::RdmaWrite::new(kept.clone(), region.remote().write());
        if panics {
            let stop = || -> wr::WorkRequest<wr::Send, Buf> { resume_unwind(Box::new("stop")) };
            let post = || drop(post_send!(p.a, [write(), write(), stop()]));
            assert!(catch_unwind(AssertUnwindSafe(post)).is_err());
        } else {
            let mut slots = SendSlots::<4>::new();
            let mut list = p.a.send_list(&mut slots);
            (0..3).for_each(|_| list.push(write()).unwrap());
            drop(list);
        }
        assert_eq!(kept.handles(), 1);
        let held: Vec<SharedBuf> = (0..6).map(|_| kept.clone()).collect();
        // The peer has no receive, so this waits, and is orphaned.
        p.a.post_send(wr::Send::new(kept.clone())).unwrap();
        let Pair { a, mut ca, .. } = p;
        let a = a.reset().unwrap();
        poll_empty(&mut ca);
        ca.reclaim_handles();
        assert_eq!((kept.handles(), held.len()), (7, 6));
        drop((held, a));
        assert_eq!(kept.handles(), 1);
    }
}

/// Bulk data in relaxed memory, with a flag in other memory.
/// Proves R18.41.
#[test]
fn relaxed_memory_and_a_flag_beside_it() {
    use proverbs::memory::Relaxed;
    let mut p = Pair::<Rc, Reader>::new();
    let bulk = p.pd.register::<Relaxed<RemoteReadWrite>>(64).unwrap();
    let flag = p.pd.register::<RemoteWrite>(8).unwrap();
    let at: RemoteSlice<RemoteWrite> = bulk.export();
    let told = RemoteSlice::<RemoteWrite>::from_bytes(&at.to_bytes()).unwrap();
    let same = p.pd.register::<RemoteReadWrite>(64).unwrap();
    assert_eq!(bulk.remote().to_bytes()[20..], same.remote().to_bytes()[20..]);
    p.a.post_send(wr::RdmaWrite::new(filled(&p.pool, b"bulk"), told.write())).unwrap();
    p.a.post_send(wr::RdmaWrite::inline(&1u64.to_ne_bytes(), flag.remote().write())).unwrap();
    poll(&p.dev, &mut p.ca, 2);
    let flag = flag.cell(0).unwrap();
    until(&p.dev, "the flag", || flag.load(std::sync::atomic::Ordering::Acquire) == 1);
    arrives(&p.dev, b"bulk", |now| bulk.read_at(0, now).unwrap());
    let all = "MemoryRegion(Relaxed<RemoteReadWrite> 64 bytes)";
    assert_eq!(format!("{bulk:?}"), all);
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), bulk.remote().slice(0, 4).unwrap().read()))
        .unwrap();
    let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    holds(read.into_buf().unwrap(), b"bulk");
}

/// A returned handle can be set to other bytes of its region, anywhere and of any length: sent, and
/// filled by a READ. A rejected range changes nothing.
#[test]
fn a_piece_is_set_to_other_bytes() {
    let mut p = Pair::<Rc, OnlyOpen>::new();
    let here = p.pd.register::<RemoteRead>(4096).unwrap();
    let there = p.pd.register::<RemoteReadWrite>(4096).unwrap();
    here.write_at(0, &numbered(3, 4096)).unwrap();
    let mut piece = here.piece(64, 8).unwrap();
    piece.set_id(77);
    for (offset, len) in [(0, 8), (4000, 5), (8, 4088), (0, 4096), (4095, 1), (7, 300), (4096, 0)] {
        piece.set_range(offset, len).unwrap();
        assert_eq!((piece.len(), piece.is_empty(), piece.id()), (len, len == 0, 77));
        there.write_at(0, &[0xee; 4096]).unwrap();
        p.a.post_send(wr::RdmaWrite::new(piece, there.remote().write())).unwrap();
        piece = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        let mut all = numbered(3, 4096)[offset..offset + len].to_vec();
        all.resize(4096, 0xee);
        arrives(&p.dev, &all, |now| there.read_at(0, now).unwrap());
    }
    // The last one was empty. The next one has bytes, but not more than an earlier one.
    for (offset, len, text) in [
        (4090, 7, "7 bytes at offset 4090 exceed the region of 4096 bytes"),
        (0, 4097, "4097 bytes at offset 0 exceed the region of 4096 bytes"),
        (usize::MAX, 2, "2 bytes at offset 18446744073709551615 exceed the region of 4096 bytes"),
        (
            1,
            usize::MAX,
            "18446744073709551615 bytes at offset 1 exceed the 4294967294 that an element can have",
        ),
        (4097, 0, "0 bytes at offset 4097 exceed the region of 4096 bytes"),
    ] {
        for before in [(4, 12), (9, 0)] {
            piece.set_range(before.0, before.1).unwrap();
            let error = piece.set_range(offset, len).unwrap_err();
            assert_eq!(error, here.piece(offset, len).unwrap_err());
            assert_eq!((error.to_string(), piece.len()), (text.to_string(), before.1));
        }
    }
    // Filled only at its current place; a shorter READ leaves the rest.
    there.write_at(0, b"from the peer").unwrap();
    here.write_at(0, &[0; 4096]).unwrap();
    for (offset, len) in [(100, 4), (200, 13), (300, 20)] {
        piece.set_range(offset, len).unwrap();
        let from = there.remote().slice(0, len.min(13) as u64).unwrap();
        p.a.post_send(wr::RdmaRead::new(piece, from.read())).unwrap();
        piece = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        assert_eq!(piece.len(), len);
    }
    let mut bytes = [0; 4096];
    here.read_at(0, &mut bytes).unwrap();
    let mut expected = [0; 4096];
    for (offset, text) in [(100, &b"from"[..]), (200, b"from the peer"), (300, b"from the peer")] {
        expected[offset..offset + text.len()].copy_from_slice(text);
    }
    assert!(bytes == expected);
    // A clone is a separate handle, with the range of its origin.
    piece.set_range(100, 4).unwrap();
    let mut other = piece.clone();
    other.set_range(204, 9).unwrap();
    assert_eq!((piece.len(), other.len(), other.id()), (4, 9, 77));
    drop(here.destroy().unwrap_err().into_object());
    for (piece, text) in [(other, &b" the peer"[..]), (piece, b"from")] {
        p.a.post_send(wr::RdmaWrite::new(piece, there.remote().write())).unwrap();
        poll(&p.dev, &mut p.ca, 1);
        let mut bytes = vec![0; text.len()];
        there.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, text);
    }
}

/// A datagram that is too long is rejected even if the piece was shorter before, and a short one is
/// sent even if it was longer.
#[test]
fn a_piece_that_becomes_longer_than_a_message() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud, OnlyOpen>::new();
    let mtu = p.dev.mtu();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let region = p.pd.register::<RemoteRead>(2 * mtu).unwrap();
    let mut piece = region.piece(0, 1).unwrap();
    for _ in 0..2 {
        for (offset, len) in [(5, 7), (1, mtu), (0, mtu - 1), (mtu, mtu)] {
            piece.set_range(offset, len).unwrap();
            p.a.post_send(wr::Send::new(piece).to(to)).unwrap();
            piece = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
            piece.set_range(0, mtu + 1).unwrap();
            let error = p.a.post_send(wr::Send::new(piece).to(to)).unwrap_err();
            let kind = PostErrorKind::ExceedsMtu { asked: mtu as u64 + 1, max: mtu as u32 };
            assert_eq!(error.kind(), kind);
            piece = error.into_rejected().next().unwrap();
            assert_eq!(piece.len(), mtu + 1);
        }
    }
}

/// One buffer has a handle for each of several posts; the last to return is the buffer.
#[test]
fn a_shared_buffer_is_thawed_by_the_last_handle() {
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, OnlyShared>::new();
    let region = p.pd.register::<RemoteWrite>(16).unwrap();
    let to = region.remote().write();
    let mut buf = filled(&p.pool, b"first");
    for round in 1..5 {
        for (i, mut handle) in buf.share(round).enumerate() {
            assert_eq!((handle.handles(), handle.id()), (round, 0));
            handle.set_id(i as u64);
            p.a.post_send(wr::RdmaWrite::new(handle, to)).unwrap();
        }
        let back = poll(&p.dev, &mut p.ca, round);
        let mut back: Vec<_> = back.into_iter().map(|done| done.sent().entry.unwrap()).collect();
        assert!(back.iter().enumerate().all(|(i, handle)| handle.id() == i as u64));
        assert_eq!(p.pool.available(), 39);
        let last = back.pop().unwrap();
        assert!(back.into_iter().all(|handle| handle.thaw_if_last::<()>().is_none()));
        buf = last.thaw_if_last().unwrap();
        buf.copy_from(&[round as u8; 9]).unwrap();
    }
    let mut bytes = [0; 9];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [3; 9]);
    // More headers are created at once than are used.
    let mut shares = buf.share(300);
    let some: Vec<_> = shares.by_ref().take(3).collect();
    assert_eq!(some[0].handles(), 300);
    drop(shares);
    assert!(some.iter().all(|handle| handle.handles() == 3 && handle[..] == [4; 9]));
    assert_eq!((drop(some), p.pool.available()), ((), 40));
    // A clone counts like any share. Without shares, or with another context, the buffer returns to
    // its pool.
    let mut shares = filled(&p.pool, b"again").share(1);
    let one = shares.next().unwrap();
    assert!(shares.next().is_none());
    let two = one.clone();
    assert!(one.thaw_if_last::<()>().is_none());
    assert!(two.thaw_if_last::<u32>().is_none());
    assert!(filled(&p.pool, b"none").share(0).next().is_none());
    assert_eq!(p.pool.available(), 40);
    // Shares that are never taken out return at once, even if a queue was meant to have them.
    drop(filled(&p.pool, b"never").share(3));
    for handle in filled(&p.pool, b"lost").share(2) {
        p.a.post_send(wr::RdmaWrite::new(handle, to)).unwrap();
    }
    assert_eq!(p.pool.available(), 39);
    poll(&p.dev, &mut p.ca, 2);
    assert_eq!(p.pool.available(), 40);
    // A part of a region is not a buffer.
    let table =
        p.pd.region::<RemoteRead>().create_in(std::sync::Arc::<[u8]>::from(*b"table")).unwrap();
    let part = table.share(0, 5).unwrap();
    assert_eq!(part.handles(), 2);
    assert!(part.thaw_if_last::<()>().is_none());
    table.destroy().unwrap();
}

/// If threads drop handles at the same time, one of them returns the buffer.
#[test]
fn one_of_several_threads_thaws() {
    let p = Pair::<Rc, OnlyShared>::new();
    let mut buf = filled(&p.pool, b"before");
    for round in 0..if cfg!(miri) { 4 } else { 500 } {
        let threads: Vec<_> = buf
            .share(3)
            .map(|handle| {
                std::thread::spawn(move || {
                    assert!(round > 0 || handle[..] == *b"before");
                    let sum = handle.iter().map(|&byte| byte as u32).sum::<u32>();
                    (sum, handle.thaw_if_last::<()>())
                })
            })
            .collect();
        let done: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(done.iter().all(|(sum, _)| *sum == done[0].0));
        let mut back: Vec<Buf> = done.into_iter().filter_map(|(_, buf)| buf).collect();
        assert_eq!((back.len(), p.pool.available()), (1, 39));
        buf = back.remove(0);
        buf.copy_from(&[round as u8; 6]).unwrap();
    }
}

/// A buffer that was shared and is exclusive again returns by itself if its queue ends with it. The
/// share count leaves nothing where lists have their links.
#[test]
fn a_thawed_buffer_returns_by_itself() {
    let mut p = Pair::<Rc>::new();
    let pool = p.pd.create_pool(4, 64).unwrap();
    let thawed: Buf = pool.take().unwrap().freeze().thaw().expect("the only share");
    let last = pool.take().unwrap().share(2).collect::<Vec<_>>().into_iter();
    let last: Buf = last.filter_map(SharedBuf::thaw_if_last).next().expect("the last share");
    for buf in [thawed, last, pool.take().unwrap()] {
        p.a.post_recv(wr::Recv::new(buf)).unwrap();
    }
    drop((p.a, p.b));
    for cq in [&mut p.ca, &mut p.cb] {
        poll_empty(cq);
        pool.reclaim(cq);
    }
    assert_eq!(pool.available(), 4);
    let all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(all.len(), 4, "each is handed out once");
}
