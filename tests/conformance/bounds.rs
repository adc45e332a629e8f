//! The bounds of a `RemoteSlice`: a longer WRITE is rejected before it is posted, and a READ
//! returns exactly the slice (R6.7).
//!
//! An RDMA WRITE that is longer than its `RemoteSlice` is rejected.
//! An RDMA READ is not longer than its `RemoteSlice`.

use arrayvec::ArrayVec;
use proverbs::completion::Direction;
use proverbs::memory::Owned;
use proverbs::post::{PostErrorKind, Unsettled};
use proverbs::prelude::*;

use crate::support::*;

/// A region of 64 bytes at the peer. The first 8 are the slice.
struct There {
    region: MemoryRegion<RemoteReadWrite>,
    slice: RemoteSlice<RemoteReadWrite>,
}

impl There {
    fn new(pd: &ProtectionDomain) -> There {
        let region = pd.register::<RemoteReadWrite>(64).unwrap();
        region.write_at(0, &[7; 64]).unwrap();
        let slice = region.remote().slice(0, 8).unwrap();
        There { region, slice }
    }

    /// Checks that it begins with `bytes`, and that nothing was written after them.
    #[track_caller]
    fn has(&self, bytes: &[u8]) {
        let (mut all, mut expected) = ([0; 64], [7; 64]);
        self.region.read_at(0, &mut all).unwrap();
        expected[..bytes.len()].copy_from_slice(bytes);
        assert_eq!(all, expected);
    }
}

/// Checks that the post was rejected because it is a byte longer than the slice. Returns the
/// buffers.
#[track_caller]
fn beyond<E: Owned>(refused: Result<(), PostError<E>>, at: usize) -> Vec<E> {
    let error = refused.expect_err("it exceeds the slice");
    let kind = PostErrorKind::ExceedsSlice { asked: 9, max: 8 };
    assert_eq!((error.kind(), error.accepted()), (kind, at));
    let text = "an RDMA WRITE of 9 bytes exceeds the remote slice of 8 (write fewer, or have the \
                peer offer a longer slice)";
    assert_eq!(error.to_string(), format!("ibv_post_send: work request {at}: {text}"));
    error.into_rejected().collect()
}

fn of_len<C>(mut buf: Buf<C>, len: usize) -> Buf<C> {
    buf.set_len(len);
    buf
}

/// Proves R6.7.
#[test]
fn a_write_of_a_buffer() {
    let mut p = Pair::<Rc>::new();
    let there = There::new(&p.pd);
    let to = there.slice.write();
    let mut buf = filled(&p.pool, &numbered(1, 16));
    // Repeated, so that the check also covers a buffer that was last used here.
    for _ in 0..2 {
        p.a.post_send(wr::RdmaWrite::new(of_len(buf, 1), to)).unwrap();
        buf = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        buf = beyond(p.a.post_send(wr::RdmaWrite::new(of_len(buf, 9), to)), 0).remove(0);
        assert_eq!((buf.len(), p.a.sends_outstanding()), (9, 0));
        p.a.post_send(wr::RdmaWrite::new(of_len(buf, 8), to)).unwrap();
        buf = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        let refused = p.a.post_send(wr::RdmaWriteWithImm::new(of_len(buf, 9), to, 1));
        buf = beyond(refused, 0).remove(0);
    }
    there.has(&numbered(1, 8));
    // A shorter slice at the same address, and an empty one.
    let error =
        p.a.post_send(wr::RdmaWrite::new(of_len(buf, 8), there.slice.slice(0, 7).unwrap().write()));
    let kind = error.as_ref().map_err(PostError::kind);
    assert_eq!(kind, Err(PostErrorKind::ExceedsSlice { asked: 8, max: 7 }));
    let nothing = there.slice.slice(8, 0).unwrap().write();
    let error = p.a.post_send(wr::RdmaWrite::inline(&[1], nothing)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsSlice { asked: 1, max: 0 });
    p.a.post_send(wr::RdmaWrite::inline(&[], nothing)).unwrap();
    p.a.post_send(wr::RdmaWrite::new(wr::Empty, nothing)).unwrap();
    poll(&p.dev, &mut p.ca, 2);
}

/// Proves R6.7.
#[test]
fn a_write_of_inline_bytes() {
    let mut p = Pair::<Rc>::new();
    let there = There::new(&p.pd);
    let to = there.slice.write();
    let bytes = numbered(2, 9);
    let nine: &[u8; 9] = bytes[..].try_into().unwrap();
    let eight: &[u8; 8] = bytes[..8].try_into().unwrap();
    for _ in 0..2 {
        beyond(p.a.post_send(wr::RdmaWrite::inline(nine, to)), 0);
        beyond(p.a.post_send(wr::RdmaWrite::inline_slice(nine, to)), 0);
        beyond(p.a.post_send(wr::RdmaWriteWithImm::inline(nine, to, 1)), 0);
        beyond(p.a.post_send(wr::RdmaWriteWithImm::inline_slice(nine, to, 1)), 0);
        assert_eq!(p.a.sends_outstanding(), 0);
        p.a.post_send(wr::RdmaWrite::inline(eight, to)).unwrap();
        p.a.post_send(wr::RdmaWrite::inline_slice(eight, to)).unwrap();
        poll(&p.dev, &mut p.ca, 2);
    }
    there.has(eight);
}

profile! { Lists { max_send_sge: 4, initiator: NoReads, entry: AnyBuf } }
profile! { Ring { signaling: Selective, max_send_sge: 4, initiator: NoReads, entry: AnyBuf } }
profile! { Scatters { max_send_sge: 4, entry: AnyBuf } }

/// Entries of `n` completed work requests, with either signaling.
fn each(p: &mut Pair<Rc, Lists>, n: usize) -> Vec<AnyBuf> {
    poll(&p.dev, &mut p.ca, n).into_iter().filter_map(|done| done.sent().entry).collect()
}

fn ringed(p: &mut Pair<Rc, Ring>, n: usize) -> Vec<AnyBuf> {
    let all = complete(&p.dev, &mut p.ca, &mut p.a, n);
    all.into_iter().flat_map(|(_, released)| released).collect()
}

/// Buffers filled with `byte` that were last posted here, so that only their length is checked.
macro_rules! known {
    ($p:ident, $byte:expr, $n:expr, $home:expr) => {{
        let somewhere = $p.pd.register::<RemoteWrite>(1).unwrap();
        let mut bufs = Vec::new();
        for _ in 0..$n {
            let buf = of_len(filled(&$p.pool, &[$byte; 16]), 1);
            $p.a.post_send(wr::RdmaWrite::new(buf, somewhere.remote().write())).unwrap();
            bufs.extend($home(&mut $p, 1).remove(0).into_buf());
        }
        move |len| of_len(bufs.pop().unwrap(), len)
    }};
}

#[test]
fn a_write_that_gathers() {
    let mut p = Pair::<Rc, Lists>::new();
    let there = There::new(&p.pd);
    let to = there.slice.write();
    for _ in 0..2 {
        let mut part = known!(p, 1, 10, each);
        assert_eq!(beyond(p.a.post_send(wr::RdmaWrite::new([part(4), part(5)], to)), 0).len(), 1);
        let several = ArrayVec::<Buf, 4>::from_iter([part(1), part(1), part(7)]);
        assert_eq!(beyond(p.a.post_send(wr::RdmaWrite::new(several, to)), 0).len(), 1);
        let list = BufList::from([part(8), part(1)]);
        let list =
            beyond(p.a.post_send(wr::RdmaWrite::new(list, to)), 0).remove(0).into_list().unwrap();
        assert_eq!(list.map(|buf| buf.len()).collect::<Vec<_>>(), [8, 1]);
        let shared = part(9).freeze();
        beyond(p.a.post_send(wr::RdmaWrite::new(shared, to)), 0);
        beyond(p.a.post_send(wr::RdmaWrite::new(there.region.piece(32, 9).unwrap(), to)), 0);
        p.a.post_send(wr::RdmaWrite::new([part(4), part(4)], to)).unwrap();
        poll(&p.dev, &mut p.ca, 1);
    }
    there.has(&[1; 8]);
    assert_eq!(p.pool.available(), p.pool.count());
}

/// Every way to post several work requests, with one kind of signaling: nothing in a list is posted
/// after one that exceeds its slice.
macro_rules! in_lists {
    ($name:ident, $profile:ty, $home:expr, $completions:literal) => {
        #[test]
        fn $name() {
            fails_on!(NoRings, "", stringify!($profile) == "Ring");
            let mut p = Pair::<Rc, $profile>::new();
            let there = There::new(&p.pd);
            let to = there.slice.write();
            let home = p.pool.count();
            let mut slots = SendSlots::<8, 4>::new();
            for round in 0..2 {
                let mut part = known!(p, 3, 17, $home);
                let refused = post_send!(
                    p.a,
                    [
                        wr::RdmaWrite::new(part(8), to),
                        wr::RdmaWrite::new(part(9), to),
                        wr::RdmaWrite::inline(&[3], to)
                    ]
                );
                assert_eq!(beyond(refused, 0).len(), 2);
                let refused = post_send!(
                    p.a,
                    [wr::RdmaWrite::inline(&[3], to), wr::RdmaWrite::inline(&[3; 9], to)]
                );
                assert!(beyond(refused, 0).is_empty());

                let mut list = p.a.send_list(&mut slots);
                list.push(wr::RdmaWrite::new(part(8), to)).unwrap();
                assert_eq!(beyond(list.push(wr::RdmaWrite::new(part(9), to)), 1).len(), 1);
                assert_eq!(
                    beyond(list.push(wr::RdmaWrite::new([part(8), part(1)], to)), 1).len(),
                    1
                );
                assert!(beyond(list.push(wr::RdmaWrite::inline_slice(&[3; 9], to)), 1).is_empty());
                // The requests pushed before stay; the others come back, or were not taken from the
                // iterator.
                let lens = [1, 8, 9, 2, 3];
                let mut wrs = lens.into_iter().map(|len| wr::RdmaWrite::new(part(len), to));
                let back = beyond(list.extend(&mut wrs), 3).len();
                assert_eq!(back + wrs.map(drop).count(), 3);
                assert_eq!(list.len(), 3);
                // The same with an iterator of unknown length.
                let mut unknown =
                    lens.into_iter().filter(|_| true).map(|len| wr::RdmaWrite::new(part(len), to));
                assert_eq!(beyond(list.extend(&mut unknown), 5).len(), 1);
                list.post().unwrap();
                assert_eq!(p.a.sends_outstanding(), 5, "round {round}");
                assert_eq!($home(&mut p, $completions).len(), 5);
            }
            there.has(&[3; 8]);
            assert_eq!(p.pool.available(), home);
        }
    };
}

in_lists!(writes_in_lists, Lists, each, 5);
in_lists!(writes_in_lists_of_a_ring, Ring, ringed, 1);

#[test]
fn unsignaled_writes() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    let there = There::new(&p.pd);
    let to = there.slice.write();
    for _ in 0..2 {
        let mut part = known!(p, 3, 3, ringed);
        let refused =
            p.a.post_send_unsignaled(wr::RdmaWrite::new(part(9), to)).map(drop::<Unsettled>);
        assert_eq!(beyond(refused, 0).len(), 1);
        drop(p.a.post_send_unsignaled(wr::RdmaWrite::new(part(8), to)).unwrap());
        p.a.post_send(wr::RdmaWrite::new(part(1), to)).unwrap();
        assert_eq!(complete(&p.dev, &mut p.ca, &mut p.a, 1)[0].1.len(), 2);
    }
    there.has(&[3; 8]);
}

/// Proves R6.7.
#[test]
fn a_read_returns_the_slice() {
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteRead>(256).unwrap();
    region.write_at(0, &numbered(1, 256)).unwrap();
    let remote = region.remote();
    let mut buf = poisoned(&p.pool);
    // The buffer's earlier length does not matter: one that was never posted, that a READ filled,
    // that sent 1 byte, that is empty.
    for (i, len) in [(0, 20), (256, 30), (1, 256), (2, 1), (0, 2)].into_iter().enumerate() {
        buf.set_len(usize::MAX);
        buf[..].fill(0xa5);
        buf.set_len(len.0);
        let from = remote.slice(i as u64 % 3 % (257 - len.1), len.1).unwrap().read();
        p.a.post_send(wr::RdmaRead::new(buf, from)).unwrap();
        let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        let start = i % 3 % (257 - len.1 as usize);
        buf = holds(sent.entry.unwrap(), &numbered(1, 256)[start..start + len.1 as usize]);
    }
    // It sent one byte, and reads the whole slice anyway.
    p.b.post_recv(wr::Recv::new(p.pool.take().unwrap())).unwrap();
    p.a.post_send(wr::Send::new(of_len(buf, 1))).unwrap();
    buf = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    p.a.post_send(wr::RdmaRead::new(buf, remote.read())).unwrap();
    buf = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    assert_eq!(buf[..], numbered(1, 256));
    if p.dev.is_iwarp() {
        return; // R24.18
    }
    // An empty slice, into a buffer that was last used here, alone and in lists: R3.4.
    let nothing = remote.slice(256, 0).unwrap().read();
    p.a.post_send(wr::RdmaRead::new(buf, nothing)).unwrap();
    buf = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    assert_eq!(buf.len(), 0);
    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(wr::RdmaRead::new(buf, nothing)).unwrap();
    let more = p.pool.take().unwrap();
    list.extend(
        [nothing, remote.read()]
            .into_iter()
            .zip([more, p.pool.take().unwrap()])
            .map(|(from, buf)| wr::RdmaRead::new(buf, from)),
    )
    .unwrap();
    list.post().unwrap();
    let read = poll(&p.dev, &mut p.ca, 3).into_iter().map(|done| done.sent().entry.unwrap().len());
    assert_eq!(read.collect::<Vec<_>>(), [0, 0, 256]);
}

/// Proves R6.7.
#[test]
fn a_read_that_does_not_fit() {
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteRead>(257).unwrap();
    let (all, fits) = (region.remote().read(), region.remote().slice(0, 256).unwrap().read());
    let kind = PostErrorKind::ExceedsBuffers { asked: 257, max: 256 };
    let mut buf = p.pool.take().unwrap();
    for _ in 0..2 {
        let error = p.a.post_send(wr::RdmaRead::new(buf, all)).unwrap_err();
        let text = "an RDMA READ of a slice of 257 bytes exceeds the 256 of its buffers (read a \
                    part of the slice, or into more buffers)";
        assert_eq!(error.to_string(), format!("ibv_post_send: work request 0: {text}"));
        assert_eq!(error.kind(), kind);
        buf = error.into_rejected().next().unwrap();
        assert_eq!((buf.len(), p.a.sends_outstanding()), (256, 0));
        p.a.post_send(wr::RdmaRead::new(buf, fits)).unwrap();
        buf = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    }
    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    let bufs = [buf, p.pool.take().unwrap(), p.pool.take().unwrap()];
    let wrs =
        bufs.into_iter().zip([fits, all, fits]).map(|(buf, from)| wr::RdmaRead::new(buf, from));
    let error = list.extend(wrs).unwrap_err();
    assert_eq!((error.kind(), error.accepted(), list.len()), (kind, 1, 1));
    let error = list.push(wr::RdmaRead::new(wr::Empty, fits)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsBuffers { asked: 256, max: 0 });
    list.post().unwrap();
    poll(&p.dev, &mut p.ca, 1);
}

#[test]
fn a_read_that_scatters() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc, Scatters>::new();
    let region = p.pd.register::<RemoteRead>(40).unwrap();
    region.write_at(0, &numbered(1, 40)).unwrap();
    let remote = region.remote();
    let pool = p.pd.create_pool(4, 16).unwrap();
    let mut list: BufList = (0..2).map(|_| poisoned(&pool)).collect();
    for (len, lens) in [(20, [16, 4]), (32, [16, 16]), (3, [3, 0]), (16, [16, 0]), (0, [0, 0])] {
        let error =
            p.a.post_send(wr::RdmaRead::new(list, remote.slice(0, 33).unwrap().read()))
                .unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::ExceedsBuffers { asked: 33, max: 32 });
        list = error.into_rejected().next().and_then(AnyBuf::into_list).unwrap();
        p.a.post_send(wr::RdmaRead::new(list, remote.slice(0, len).unwrap().read())).unwrap();
        let entry = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        list = entry.into_list().unwrap();
        let parts: Vec<&[u8]> = list.segments().collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), lens);
        assert_eq!(parts.concat(), numbered(1, len as usize));
    }
    // A piece of a region has a fixed length, whatever was read into it.
    let here = p.pd.register::<RemoteWrite>(16).unwrap();
    let from = remote.slice(0, 4).unwrap().read();
    p.a.post_send(wr::RdmaRead::new(here.piece(0, 8).unwrap(), from)).unwrap();
    let AnyBuf::Open(piece) = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap() else {
        panic!("another entry");
    };
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(piece)).unwrap();
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    assert_eq!(
        got.segments().collect::<Vec<_>>().concat(),
        [&numbered(1, 4)[..], &[0; 4]].concat()
    );
    let error = p.a.post_send(wr::RdmaRead::new(here.piece(0, 3).unwrap(), from)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsBuffers { asked: 4, max: 3 });
    let error = p.a.post_send(wr::RdmaRead::new(here.piece(0, 0).unwrap(), from)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsBuffers { asked: 4, max: 0 });
}

/// A list without buffers is checked as well.
#[test]
fn a_read_into_a_list_of_no_buffers() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc, Scatters>::new();
    let region = p.pd.register::<RemoteReadWrite>(40).unwrap();
    let (from, at) = (region.remote().read(), region.remote().write());
    let none = PostErrorKind::ExceedsBuffers { asked: 40, max: 0 };
    let read = || wr::RdmaRead::new(BufList::new(), from);
    assert_eq!(p.a.post_send(read()).unwrap_err().kind(), none);
    assert_eq!(post_send!(p.a, [read()]).unwrap_err().kind(), none);
    let inline = || wr::RdmaWrite::inline(b"first", at);
    assert_eq!(post_send!(p.a, [inline(), read()]).unwrap_err().kind(), none);
    let mut slots = SendSlots::<4, 32>::new();
    let mut list = p.a.send_list(&mut slots);
    assert_eq!(list.push(read()).unwrap_err().kind(), none);
    assert_eq!(list.extend([read()]).unwrap_err().kind(), none);
    list.push(inline()).unwrap();
    assert_eq!(list.extend([read(), read()]).unwrap_err().kind(), none);
    assert_eq!(list.len(), 1);
    drop(list);
    // An empty slice needs no buffer.
    let nothing = region.remote().slice(40, 0).unwrap();
    p.a.post_send(wr::RdmaRead::new(BufList::new(), nothing.read())).unwrap();
    p.a.post_send(wr::RdmaWrite::new(BufList::new(), nothing.write())).unwrap();
    for done in poll(&p.dev, &mut p.ca, 2) {
        assert!(done.sent().entry.is_none());
    }
}

/// A slice with a length that the peer claims.
fn said_to_be(slice: RemoteSlice<RemoteReadWrite>, len: u64) -> RemoteSlice<RemoteReadWrite> {
    let mut told = slice.to_bytes();
    told[8..16].copy_from_slice(&len.to_be_bytes());
    RemoteSlice::from_bytes(&told).unwrap()
}

#[test]
fn a_slice_whose_length_has_more_than_32_bits() {
    let mut p = Pair::<Rc>::new();
    let there = There::new(&p.pd);
    for len in [u32::MAX as u64 - 1, u32::MAX as u64, 1 << 32, (1 << 32) + 4, u64::MAX] {
        let long = said_to_be(there.slice, len);
        p.a.post_send(wr::RdmaWrite::inline(&[len as u8; 8], long.write())).unwrap();
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        there.has(&[len as u8; 8]);
        let error =
            p.a.post_send(wr::RdmaRead::new(p.pool.take().unwrap(), long.read())).unwrap_err();
        let asked = u32::MAX as u64 - 1;
        assert_eq!(error.kind(), PostErrorKind::ExceedsBuffers { asked, max: 256 });
    }
}

#[test]
fn a_wrong_length_gives_no_access() {
    fails_on!(Siw, "R24.12");
    // If the peer claims too much, its own device checks; if it claims too little, posts are
    // narrowed.
    let mut p = Pair::<Rc>::new();
    let there = There::new(&p.pd);
    let short = said_to_be(there.slice, 3);
    let error = p.a.post_send(wr::RdmaWrite::inline(&[1; 4], short.write())).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsSlice { asked: 4, max: 3 });
    p.a.post_send(wr::RdmaRead::new(p.pool.take().unwrap(), short.read())).unwrap();
    assert_eq!(poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap().len(), 3);
    let long = said_to_be(there.slice, 65);
    p.a.post_send(wr::RdmaRead::new(p.pool.take().unwrap(), long.read())).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RemAccess);
}

#[test]
fn an_address_without_an_end() {
    let mut p = Pair::<Rc>::new();
    let there = There::new(&p.pd);
    let (to, from) = (there.slice.write().start(), there.slice.read().start());
    p.a.post_send(wr::RdmaWrite::inline(&[1; 12], to)).unwrap();
    p.a.post_send(wr::RdmaWrite::new(filled(&p.pool, &[2; 10]), to)).unwrap();
    poll(&p.dev, &mut p.ca, 2);
    there.has(&[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1]);
    // The buffer gives the length.
    let lengths = [11, 5, 0, 9].into_iter().filter(|&len| len > 0 || !p.dev.is_iwarp()); // R24.18
    for len in lengths {
        p.a.post_send(wr::RdmaRead::new(of_len(poisoned(&p.pool), len), from)).unwrap();
        let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        holds(read, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1][..len]);
    }
}
