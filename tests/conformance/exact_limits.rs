//! The exact limit is accepted, and one more is rejected: slots, queue room, regions, device
//! maxima, the ends of rings.

use proverbs::memory::{Container, OutOfBounds};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }

fn labelled(pool: &Pool, from: usize, n: usize) -> impl ExactSizeIterator<Item = Buf> {
    (from..from + n).map(|i| filled(pool, &[i as u8])).collect::<Vec<_>>().into_iter()
}

/// A chain that uses all the room, even if that requires reading the completion counter.
#[test]
fn a_chain_uses_all_the_room() {
    let wish = Wish { depth: Depth { send: 3, recv: 3 }, ..Wish::new() };
    let mut p = Pair::<Rc>::with(&wish);
    for _ in 0..3 {
        let take = || wr::Recv::new(poisoned(&p.pool));
        post_recv!(p.b, [take(), take(), take()]).unwrap();
        assert_eq!(p.b.post_recv(take()).unwrap_err().into_rejected().count(), 1);
        let send = || wr::Send::inline(b"x");
        post_send!(p.a, [send(), send(), send()]).unwrap();
        poll(&p.dev, &mut p.cb, 3);
        poll(&p.dev, &mut p.ca, 3);
    }
}

/// `extend` adds `more` to lists of `had`; slots or queue have room for four.
macro_rules! lists_grow {
    ($name:ident, $profile:ty) => {
        #[test]
        fn $name() {
            fails_on!(NoRings, "", stringify!($profile) == "Ring");
            fails_on!(Siw, "R24.12", stringify!($profile) == "DefaultProfile");
            for (had, more) in (0..=4).flat_map(|had| (0..=5).map(move |more| (had, more))) {
                for by_slots in [true, false] {
                    let send = if by_slots { 12 } else { 4 };
                    let wish = Wish { depth: Depth { send, recv: send }, ..Wish::new() };
                    let mut p = Pair::<Rc, $profile>::with(&wish);
                    let fit = more.min(4 - had);
                    let (mut few, mut many) = (SendSlots::<4>::new(), SendSlots::<12>::new());
                    let mut list = match by_slots {
                        true => p.a.send_list(&mut few),
                        false => p.a.send_list(&mut many),
                    };
                    for buf in labelled(&p.pool, 0, had) {
                        list.push(wr::Send::new(buf)).unwrap();
                    }
                    let result = list.extend(labelled(&p.pool, had, more).map(wr::Send::new));
                    let full = PostErrorKind::QueueFull { asked: 5, room: 4 };
                    assert_eq!(
                        result.as_ref().err().map(|e| e.kind()),
                        (more > fit).then_some(full)
                    );
                    assert_eq!(list.len(), had + fit);
                    assert_eq!(list.push(wr::Send::inline(b"x")).is_err(), had + fit == 4);
                    list.post().unwrap();
                    let n = had + fit + (had + fit < 4) as usize;

                    let (mut few, mut many) = (RecvSlots::<4>::new(), RecvSlots::<12>::new());
                    let mut list = match by_slots {
                        true => p.b.recv_list(&mut few),
                        false => p.b.recv_list(&mut many),
                    };
                    for buf in labelled(&p.pool, 0, had) {
                        list.push(wr::Recv::new(buf)).unwrap();
                    }
                    let again = list.extend(labelled(&p.pool, had, more).map(wr::Recv::new));
                    assert_eq!(
                        again.as_ref().err().map(|e| e.kind()),
                        (more > fit).then_some(full)
                    );
                    assert_eq!(list.len(), had + fit);
                    assert_eq!(
                        list.push(wr::Recv::new(poisoned(&p.pool))).is_err(),
                        had + fit == 4
                    );
                    list.post().unwrap();
                    drop((result, again));
                    assert_eq!((p.a.sends_outstanding(), p.b.recvs_outstanding()), (n, n));
                    let got = poll(&p.dev, &mut p.cb, n).into_iter();
                    let got: Vec<u8> = got.map(|done| done.received().data()[0]).collect();
                    let mut expected: Vec<u8> = (0..(had + fit) as u8).collect();
                    expected.resize(n, b'x');
                    assert_eq!(got, expected);
                }
            }
        }
    };
}

lists_grow!(lists_grow_to_their_last_slot_where_all_complete, DefaultProfile);
lists_grow!(lists_grow_to_their_last_slot_where_some_complete, Ring);

#[test]
fn lists_use_the_rest_of_the_room() {
    // More slots than the queue has room for, some of it in use.
    for taken in 0..=4 {
        let wish = Wish { depth: Depth { send: 4, recv: 4 }, ..Wish::new() };
        let mut p = Pair::<Rc>::with(&wish);
        for _ in 0..taken {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(wr::Send::inline(b"x")).unwrap();
        }
        let room = 4 - taken;
        let full = PostErrorKind::QueueFull { asked: room + 1, room };
        let mut slots = RecvSlots::<16>::new();
        let mut list = p.b.recv_list(&mut slots);
        for _ in 0..room {
            list.push(wr::Recv::new(poisoned(&p.pool))).unwrap();
        }
        let error = list.push(wr::Recv::new(poisoned(&p.pool))).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (full, room as usize));
        list.post().unwrap();
        let mut slots = SendSlots::<16>::new();
        let mut list = p.a.send_list(&mut slots);
        for _ in 0..room {
            list.push(wr::Send::inline(b"y")).unwrap();
        }
        let error = list.push(wr::Send::inline(b"z")).unwrap_err();
        assert_eq!((error.kind(), error.accepted()), (full, room as usize));
        list.post().unwrap();
        assert_eq!((p.a.send_room(), p.b.recv_room()), (0, 0));
        assert!(p.a.post_send(wr::Send::inline(b"z")).unwrap_err().is_full());
        assert!(p.b.post_recv(wr::Recv::empty()).unwrap_err().is_full());
        poll(&p.dev, &mut p.ca, 4);
        assert_eq!(poll(&p.dev, &mut p.cb, 4).len(), 4);
    }
}

/// Lists of every length, starting at every slot of a ring, come back once and in order.
#[test]
fn lists_across_the_end_of_a_ring() {
    fails_on!(Iwarp, "R24.2");
    fails_on!(NoRings);
    // Rings have a power-of-two number of slots, with some spare: 127 and 128 are on different
    // sides of one.
    let depths: &[u32] = if cfg!(miri) { &[5] } else { &[1, 5, 126, 127, 128, 129] };
    for &depth in depths {
        let wish = Wish {
            depth: Depth { send: depth, recv: 300 },
            cqe: 600,
            buffers: 2 * depth as usize + 2,
            size: 8,
            ..Wish::new()
        };
        let mut p = Pair::<Uc, Ring>::with(&wish);
        let rounds = if cfg!(miri) { 6 } else { 9 };
        let mut slots = SendSlots::<130>::new();
        for round in 0..rounds {
            // Alternates between a full round and part of one, so that each round begins elsewhere.
            for n in [depth as usize, 1 + round % depth as usize] {
                let mut list = p.a.send_list(&mut slots);
                let bufs = labelled(&p.pool, 0, n);
                match round % 3 {
                    0 => list.extend(bufs.map(wr::Send::new)).unwrap(),
                    1 => bufs.map(wr::Send::new).try_for_each(|wr| list.push(wr)).unwrap(),
                    _ => {
                        let mut bufs = bufs;
                        list.push(wr::Send::new(bufs.next().unwrap())).unwrap();
                        list.extend(bufs.map(wr::Send::new)).unwrap();
                    }
                }
                let rest = depth as usize - n;
                let error = list.extend(labelled(&p.pool, n, rest + 1).map(wr::Send::new));
                let full = PostErrorKind::QueueFull { asked: depth + 1, room: depth };
                assert_eq!(error.unwrap_err().kind(), full);
                list.post().unwrap();
                // With `fold` or `append_to`, which have their own code for the end of the ring;
                // the slots behind have the earlier ones.
                let mut released = Vec::new();
                until(&p.dev, "the completion", || {
                    let Some(completion) = p.ca.poll_one().unwrap() else { return false };
                    let mut all = p.a.complete(completion).unwrap().released;
                    released.extend(all.by_ref().take(round / 3).map(|buf| buf[0]));
                    match round % 2 {
                        0 => all.for_each(|buf| released.push(buf[0])),
                        _ => {
                            let mut bufs = Vec::new();
                            all.append_to(&mut bufs);
                            released.extend(bufs.iter().map(|buf| buf[0]));
                        }
                    }
                    true
                });
                assert_eq!(released, (0..depth as u8).collect::<Vec<_>>());
                assert_eq!((p.a.sends_outstanding(), p.a.send_room()), (0, depth as usize));
            }
            // And some single posts, so that the next list begins elsewhere.
            for i in 0..1 + round as u8 % 3 {
                p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
                let released = complete(&p.dev, &mut p.ca, &mut p.a, 1).remove(0).1;
                assert_eq!(released[0][0], i);
            }
        }
        assert_eq!(p.pool.available(), p.pool.count());
    }
}

#[test]
fn cells_of_a_region() {
    fails_on!(Iwarp, "R24.4");
    let p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAll>(40).unwrap();
    assert_eq!((region.len(), region.is_empty()), (40, false));
    assert_eq!(region.remote().slice(3, 2).map(|two| (two.len(), two.is_empty())), Ok((2, false)));
    assert_eq!(
        region.remote().slice(3, 0).map(|none| (none.len(), none.is_empty())),
        Ok((0, true))
    );
    let remote = region.remote();
    for offset in 0..48 {
        let aligned = offset % 8 == 0;
        let inside = offset + 8 <= region.len();
        assert_eq!(region.cell(offset).is_ok(), aligned && inside, "{offset}");
        assert_eq!(remote.atomic(offset as u64).is_ok(), aligned && inside, "{offset}");
        if inside && !aligned {
            let error = region.cell(offset).unwrap_err();
            let available = 40;
            assert_eq!(
                error,
                OutOfBounds {
                    offset: offset as u64,
                    len: 8,
                    available,
                    misaligned: true,
                    of: Container::Region
                }
            );
            assert_eq!(remote.atomic(offset as u64).unwrap_err(), error);
        } else if !inside {
            assert!(!region.cell(offset).unwrap_err().misaligned);
        }
    }
    // The cells are at the same place as the bytes.
    region.write_at(8, &7u64.to_ne_bytes()).unwrap();
    let cells =
        [0, 8, 16].map(|at| region.cell(at).unwrap().load(std::sync::atomic::Ordering::SeqCst));
    assert_eq!(cells, [0, 7, 0]);
}

#[test]
fn pieces_of_a_region() {
    profile! { Open { entry: AnyBuf } }

    let mut p = Pair::<Rc, Open>::new();
    let region = p.pd.register::<RemoteReadWrite>(24).unwrap();
    region.write_at(0, &numbered(3, 24)).unwrap();
    for (offset, len) in (0..=26).flat_map(|offset| [0, 1, 2, 24, 25].map(|len| (offset, len))) {
        let inside = offset + len <= 24;
        assert_eq!(region.piece(offset, len).is_ok(), inside, "{len} at {offset}");
        assert_eq!(
            wr::Piece::new(&region, offset..offset + len).is_ok(),
            inside,
            "{len} at {offset}"
        );
        assert_eq!(region.remote().slice(offset as u64, len as u64).is_ok(), inside);
    }
    // The last byte is accepted, and so is an empty range at the end.
    for (offset, len) in [(23, 1), (24, 0), (0, 0), (0, 24), (7, 2)] {
        let piece = region.piece(offset, len).unwrap();
        assert_eq!((piece.len(), piece.is_empty()), (len, len == 0));
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(piece)).unwrap();
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
        holds(got.into_buf().unwrap(), &numbered(3, 24)[offset..offset + len]);
    }
}

#[test]
fn device_maxima() {
    let dev = Device::open();
    let attr = dev.ctx.query_device().unwrap();
    let too_many = |error: proverbs::Error, what: &str, max: u32| {
        let kind = ErrorKind::Limit {
            what: what.to_owned().leak(),
            asked: u64::from(max) + 1,
            max: max.into(),
        };
        assert_eq!(*error.kind(), kind);
    };
    if attr.max_cqe < 1 << 22 {
        let cq = dev.ctx.create_cq::<Buf>(attr.max_cqe).unwrap();
        assert!(cq.capacity() >= attr.max_cqe);
    }
    too_many(dev.ctx.create_cq::<Buf>(attr.max_cqe + 1).err().unwrap(), "cqe", attr.max_cqe);
    let pd = dev.ctx.alloc_pd().unwrap();
    let (max, cqe) = (attr.max_qp_wr, attr.max_cqe);
    let cq = dev.ctx.create_cq::<Buf>(cqe.min(2 * max + 1)).unwrap();
    let make = |send, recv| pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send, recv });
    // A drain needs a separate work request.
    too_many(make(max, 1).unwrap_err(), "max_send_wr", max);
    too_many(make(1, max + 1).unwrap_err(), "max_recv_wr", max);
    // Soft-RoCE has deeper receive queues than completion queues.
    if max < cqe {
        drop(make(max - 1, 1).unwrap());
        let qp = make(1, max).unwrap();
        assert_eq!(qp.depth().recv, max);
    }
}

/// A queue pair that only sends, and one that only receives: posting to the queue of depth 0 always
/// fails, and returns the buffer.
#[test]
fn a_queue_of_depth_0_accepts_nothing() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let mut cq: CompletionQueue = dev.ctx.create_cq(16).unwrap();
    let create =
        |send, recv| pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send, recv }).unwrap();
    let (from, to) = (create(2, 0), create(0, 2));
    let numbers = (from.qp_num(), to.qp_num());
    let mut from = Rc::up(from, &dev, numbers.1, &Wish::new());
    let mut to = Rc::up(to, &dev, numbers.0, &Wish::new());
    assert_eq!((to.depth().send, to.send_room(), from.recv_room()), (0, 0, 0));

    let full = PostErrorKind::QueueFull { asked: 1, room: 0 };
    let is_refused = |from: &mut QueuePair<Rc, Rts>, to: &mut QueuePair<Rc, Rts>| {
        let refused = to.post_send(wr::Send::new(pool.take().unwrap())).unwrap_err();
        assert!(refused.to_string().starts_with(
            "ibv_post_send: work request 0: queue full: posting 1 work request, room for 0"
        ));
        assert_eq!((refused.kind(), refused.into_rejected().count()), (full, 1));
        let refused = from.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap_err();
        assert_eq!((refused.kind(), refused.into_rejected().count()), (full, 1));
    };
    is_refused(&mut from, &mut to);
    to.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    from.post_send(wr::Send::new(filled(&pool, b"one way"))).unwrap();
    let done = poll(&dev, &mut cq, 2);
    let received = done.into_iter().find_map(|done| match done {
        Done::Received(received) => Some(received.data().to_vec()),
        _ => None,
    });
    assert_eq!(received.unwrap(), b"one way");
    is_refused(&mut from, &mut to); // and polling makes no room
    let mut to = to.to_error().unwrap();
    to.drain(&mut cq, |_| ()).unwrap();
}
