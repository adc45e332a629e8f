//! Gather and scatter lists.

use arrayvec::ArrayVec;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Lists { max_send_sge: 4, max_recv_sge: 4, max_inline: 16, initiator: NoReads, entry: BufList } }
profile! { Scatters { max_send_sge: 4, entry: BufList } }

/// Three pieces of different lengths.
const PIECES: [&[u8]; 3] = [b"one", b"twenty-two", b"3"];

fn pieces(pool: &Pool) -> [Buf; 3] {
    PIECES.map(|piece| filled(pool, piece))
}

/// Buffers of 8 bytes each.
fn small() -> (Pair<Rc, Lists>, Pool) {
    let p = Pair::<Rc, Lists>::new();
    let pool = p.pd.create_pool(8, 8).unwrap();
    (p, pool)
}

fn contents(list: BufList) -> Vec<Vec<u8>> {
    list.segments().map(<[u8]>::to_vec).collect()
}

/// Proves R3.10.
#[test]
fn arrays_gather_and_scatter() {
    let (mut p, pool) = small();
    let receive = [poisoned(&pool), poisoned(&pool), poisoned(&pool)];
    p.b.post_recv(wr::Recv::new(receive)).unwrap();
    p.a.post_send(wr::Send::new(pieces(&p.pool))).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    assert_eq!(contents(sent), PIECES);
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    let all: Vec<u8> = got.segments().flatten().copied().collect();
    assert_eq!(all, PIECES.concat());
    // Each buffer is filled before the next one is used, and its length is the number of bytes in
    // it.
    let got: Vec<Buf> = got.entry.unwrap().collect();
    assert_eq!(got.iter().map(|buf| buf.len()).collect::<Vec<_>>(), [8, 6, 0]);
    got.into_iter().zip(all.chunks(8).chain([&[][..]])).for_each(|(buf, bytes)| {
        holds(buf, bytes);
    });
}

#[test]
fn lists_known_at_run_time() {
    let (mut p, pool) = small();
    let receive: BufList = (0..4).map(|_| poisoned(&pool)).collect();
    p.b.post_recv(wr::Recv::new(receive)).unwrap();
    let list: BufList = pieces(&p.pool).into_iter().collect();
    p.a.post_send(wr::Send::new(list)).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    assert_eq!(contents(sent), PIECES);
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
    assert_eq!((got.len(), contents(got).concat()), (4, PIECES.concat()));
}

#[test]
fn array_vectors_that_are_not_full_or_empty() {
    fails_on!(IwarpOtherwise, "R24.15");
    let (mut p, pool) = small();
    let none = ArrayVec::<Buf, 4>::new();
    let some: ArrayVec<Buf, 4> = [poisoned(&pool), poisoned(&pool)].into_iter().collect();
    post_recv!(p.b, [wr::Recv::new(none), wr::Recv::new(some)]).unwrap();
    let one: ArrayVec<Buf, 4> = [filled(&p.pool, b"elevenbytes")].into_iter().collect();
    post_send!(p.a, [wr::Send::new(ArrayVec::<Buf, 2>::new()), wr::Send::new(one)]).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 2).into_iter().map(|s| s.sent().entry.map(contents));
    assert_eq!(sent.collect::<Vec<_>>(), [None, Some(vec![b"elevenbytes".to_vec()])]);
    let got = poll(&p.dev, &mut p.cb, 2).into_iter().map(|g| g.received().entry.map(contents));
    let halves = vec![b"elevenby".to_vec(), b"tes".to_vec()];
    assert_eq!(got.collect::<Vec<_>>(), [None, Some(halves)]);
}

/// Proves R3.1.
#[test]
fn the_typed_limit_is_accepted_and_one_more_is_rejected() {
    let (mut p, pool) = small();
    p.b.post_recv(wr::Recv::new([(); 4].map(|()| poisoned(&pool)))).unwrap();
    p.a.post_send(wr::Send::new([b"a", b"b", b"c", b"d"].map(|b| filled(&p.pool, b)))).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    assert_eq!(got.segments().flatten().copied().collect::<Vec<_>>(), b"abcd");
    drop(got);

    let five = |pool: &Pool| -> BufList { (0..5).map(|i| filled(pool, &[i])).collect() };
    let error = p.a.post_send(wr::Send::new(five(&pool))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::TooManySge { asked: 5, max: 4 });
    let expected = "ibv_post_send: work request 0: a list of 5 buffers exceeds the 4 elements of a \
                    work request (ask for more in the profile and in a list's slots, or post it in parts)";
    assert_eq!(error.to_string(), expected);
    let back: Vec<BufList> = error.into_rejected().collect();
    let back: Vec<_> = back.into_iter().map(contents).collect();
    assert_eq!(back, [(0..5).map(|i| vec![i]).collect::<Vec<_>>()]);
    let error = p.b.post_recv(wr::Recv::new(five(&pool))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::TooManySge { asked: 5, max: 4 });
    drop(error);
    assert_eq!((pool.available(), p.pool.available()), (8, 40));
}

#[test]
fn a_write_gathers_and_a_read_scatters() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc, Scatters>::new();
    let pool = p.pd.create_pool(8, 8).unwrap();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    p.a.post_send(wr::RdmaWrite::new(pieces(&p.pool), region.remote().write())).unwrap();
    let len = PIECES.concat().len();
    let sinks = [poisoned(&pool), poisoned(&pool), poisoned(&pool)];
    let from = region.remote().slice(0, len as u64).unwrap().read();
    p.a.post_send(wr::RdmaRead::new(sinks, from)).unwrap();
    let mut bytes = vec![0; len];
    let read = poll(&p.dev, &mut p.ca, 2).remove(1).sent().entry.unwrap();
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, PIECES.concat());
    let read: Vec<Buf> = read.collect();
    // One is filled after the other; the last may get nothing.
    let (first, second) = bytes.split_at(8);
    for (buf, bytes) in read.into_iter().zip([first, second, &[]]) {
        holds(buf, bytes);
    }
}

#[test]
fn buffers_of_no_length_within_a_list() {
    let (mut p, pool) = small();
    p.b.post_recv(wr::Recv::new([poisoned(&pool), poisoned(&pool)])).unwrap();
    p.a.post_send(wr::Send::new([
        filled(&p.pool, b"x"),
        filled(&p.pool, b""),
        filled(&p.pool, b"y"),
    ]))
    .unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
    assert_eq!(contents(got), [b"xy".to_vec(), b"".to_vec()]);
}

#[test]
fn a_list_behaves_like_a_queue_of_its_buffers() {
    let p = Pair::<Rc, Lists>::new();
    let mut list = BufList::new();
    assert!(list.is_empty());
    for byte in [3, 2, 1] {
        list.push_front(filled(&p.pool, &[byte]));
    }
    assert_eq!((list.len(), format!("{list:?}").as_str()), (3, "BufList(3 buffers)"));
    assert_eq!(list.pop_front().unwrap()[..], [1]);
    assert_eq!(list.map(|buf| buf[0]).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(p.pool.available(), 40);
}

/// Buffers are sent in the order of the list, which gives access to their contexts.
#[test]
fn a_list_grows_at_both_ends_and_shows_its_buffers() {
    let p = Pair::<Rc, Lists>::new();
    let pool: Pool<usize> = p.pd.pool(8).contexts(|index| 10 + index).create(3).unwrap();
    let mut list: BufList<usize> = BufList::new();
    assert!(list.front().is_none());
    for byte in [1, 2] {
        list.push_back(filled(&pool, &[byte]));
        let sum: usize = list.iter().map(|buf| *buf.context()).sum();
        assert!(sum >= 10 * byte as usize, "each has its own");
    }
    list.push_front(filled(&pool, &[0]));
    assert_eq!(list.front().map(|buf| buf[..].to_vec()), Some(vec![0]));
    assert_eq!(list.iter().map(|buf| buf[0]).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(format!("{:?}", list.front()), "Some(BufRef(Buf(1 of 8 bytes)))");
    assert_eq!(list.len(), 3, "all are still there");
    // A buffer that was taken out can be added to the end again.
    let first = list.pop_front().unwrap();
    list.push_back(first);
    assert_eq!(list.segments().collect::<Vec<_>>(), [[1], [2], [0]]);
    let mut lonely = BufList::new();
    lonely.push_back(list.pop_front().unwrap());
    assert_eq!((lonely.len(), list.len()), (1, 2));
    drop((list, lonely));
    assert_eq!(pool.available(), 3);
}

/// Slots may have fewer elements than the queue; a list of buffers is limited to those.
#[test]
fn lists_with_slots_of_fewer_elements_than_the_queue() {
    let (mut p, pool) = small();
    let some = |n: u8| -> BufList { (0..n).map(|i| filled(&pool, &[i])).collect() };
    let too_many = PostErrorKind::TooManySge { asked: 3, max: 2 };
    let mut slots = SendSlots::<4, 2>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(wr::Send::new(some(2))).unwrap();
    assert_eq!(list.push(wr::Send::new(some(3))).unwrap_err().kind(), too_many);
    let error = list.extend([some(1), some(3)].map(wr::Send::new)).unwrap_err();
    assert_eq!((error.kind(), error.accepted(), list.len()), (too_many, 2, 2));
    assert_eq!(error.into_rejected().map(contents).collect::<Vec<_>>(), [[[0], [1], [2]]]);
    drop(list);
    let mut slots = RecvSlots::<4, 2>::new();
    let mut list = p.b.recv_list(&mut slots);
    list.push(wr::Recv::new(some(2))).unwrap();
    assert_eq!(list.push(wr::Recv::new(some(3))).unwrap_err().kind(), too_many);
    let error = list.extend([some(1), some(3)].map(wr::Recv::new)).unwrap_err();
    assert_eq!((error.kind(), error.accepted(), list.len()), (too_many, 2, 2));
    assert_eq!(error.into_rejected().map(contents).collect::<Vec<_>>(), [[[0], [1], [2]]]);
    list.post().unwrap();
    assert_eq!(p.b.recvs_outstanding(), 2);
    // As many as the slots have are sent, and as many are filled.
    let mut slots = SendSlots::<4, 2>::new();
    let mut list = p.a.send_list(&mut slots);
    list.extend([some(2), some(2)].map(wr::Send::new)).unwrap();
    list.post().unwrap();
    for sent in poll(&p.dev, &mut p.ca, 2) {
        assert_eq!(contents(sent.sent().entry.unwrap()), [[0], [1]]);
    }
    let got: Vec<usize> = poll(&p.dev, &mut p.cb, 2)
        .into_iter()
        .map(|done| done.received().byte_len as usize)
        .collect();
    assert_eq!((got, pool.available()), (vec![2, 2], 8));
}

profile! { Any { max_recv_sge: 4, entry: AnyBuf } }

/// A message is one slice, whatever it was received into: borrowed from one buffer, otherwise
/// joined.
#[test]
fn the_message_of_any_entry() {
    fails_on!(IwarpOtherwise, "R24.15");
    use std::borrow::Cow;
    let whole = PIECES.concat();
    let (mut p, pool) = small();
    p.b.post_recv(wr::Recv::new([poisoned(&pool), poisoned(&pool)])).unwrap();
    p.b.post_recv(wr::Recv::new([poisoned(&p.pool), poisoned(&p.pool)])).unwrap();
    p.b.post_recv(wr::Recv::empty()).unwrap();
    for message in [&whole[..], &whole, &[]] {
        p.a.post_send(wr::Send::inline_slice(message)).unwrap();
    }
    let got: Vec<_> = poll(&p.dev, &mut p.cb, 3).into_iter().map(|done| done.received()).collect();
    assert!(matches!(got[0].data(), Cow::Owned(all) if all == whole));
    assert!(matches!(got[1].data(), Cow::Borrowed(all) if all == whole));
    assert!(got[2].data().is_empty());

    let mut p = Pair::<Rc, Any>::new();
    let pool = p.pd.create_pool(2, 8).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.b.post_recv(wr::Recv::new([poisoned(&pool), poisoned(&pool)])).unwrap();
    for _ in 0..2 {
        p.a.post_send(wr::Send::new(filled(&p.pool, &whole))).unwrap();
    }
    let got: Vec<_> = poll(&p.dev, &mut p.cb, 2).into_iter().map(|done| done.received()).collect();
    assert!(matches!(got[0].data(), Cow::Borrowed(all) if all == whole));
    assert_eq!(got[1].data(), whole);
}
