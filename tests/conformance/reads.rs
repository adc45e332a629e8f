//! RDMA READ.

use proverbs::completion::{Direction, WcOpcode};
use proverbs::prelude::*;

use crate::support::*;

#[test]
fn a_read_fills_the_start_of_the_buffer() {
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteRead>(64).unwrap();
    region.write_at(0, &numbered(1, 64)).unwrap();
    let sink = poisoned(&p.pool);
    let from = region.remote().slice(8, 20).unwrap().read();
    p.a.post_send(wr::RdmaRead::new(sink, from)).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    assert_eq!(sent.opcode, WcOpcode::RdmaRead);
    holds(sent.entry.unwrap(), &numbered(1, 64)[8..28]);
}

#[test]
fn reads_of_several_packets() {
    let wish = Wish { size: if cfg!(miri) { 1100 } else { 4096 }, buffers: 3, ..Wish::new() };
    let mut p = Pair::<Rc>::with(&wish);
    let len = p.pool.take().unwrap().capacity();
    let region = p.pd.register::<RemoteRead>(len).unwrap();
    region.write_at(0, &numbered(4, len)).unwrap();
    let from = region.remote().read();
    let sink = || poisoned(&p.pool);
    post_send!(
        p.a,
        [
            wr::RdmaRead::new(sink(), from),
            wr::RdmaRead::new(sink(), from),
            wr::RdmaRead::new(sink(), from)
        ]
    )
    .unwrap();
    for sent in poll(&p.dev, &mut p.ca, 3) {
        holds(sent.sent().entry.unwrap(), &numbered(4, len));
    }
}

/// Proves R2.2.
#[test]
fn a_fenced_send_waits_for_the_read_before_it() {
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteRead>(8).unwrap();
    region.write_at(0, b"original").unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let read = wr::RdmaRead::new(poisoned(&p.pool), region.remote().read());
    post_send!(p.a, [read, wr::Send::inline(b"overwrite").fence()]).unwrap();
    let read = poll(&p.dev, &mut p.ca, 2).remove(0).sent();
    holds(read.entry.unwrap(), b"original");
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"overwrite");
}

/// Proves R3.4.
#[test]
fn a_read_of_no_bytes_needs_no_key() {
    fails_on!(IwarpOtherwise, "R24.18");
    let mut p = Pair::<Rc>::new();
    // R3.4: so it does not check rights.
    let nowhere = RemoteSlice::<RemoteRead>::from_parts(0, 0, 0);
    p.a.post_send(wr::RdmaRead::new(wr::Empty, nowhere.read())).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    assert_eq!((sent.opcode, sent.entry.is_none()), (WcOpcode::RdmaRead, true));
}

profile! { Writer { initiator: NoReads } }

/// Proves R4.6.
#[test]
fn a_queue_pair_without_reads_still_sends_and_writes() {
    let mut p = Pair::<Rc, Writer>::new();
    assert_eq!(p.a.query().unwrap().max_rd_atomic, 0);
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    post_send!(
        p.a,
        [wr::RdmaWrite::inline(&[9; 8], region.remote().write()), wr::Send::inline(b"x")]
    )
    .unwrap();
    poll(&p.dev, &mut p.ca, 2);
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"x");
    let mut bytes = [0; 8];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [9; 8]);
}

#[test]
fn a_remote_slice_travels_as_bytes_with_its_rights() {
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteReadWrite>(32).unwrap();
    region.write_at(16, b"here").unwrap();
    let wire = region.export::<RemoteRead>().to_bytes();
    assert!(RemoteSlice::<RemoteWrite>::from_bytes(&wire).is_none());
    let there = RemoteSlice::<RemoteRead>::from_bytes(&wire).unwrap();
    let sink = poisoned(&p.pool);
    p.a.post_send(wr::RdmaRead::new(sink, there.slice(16, 4).unwrap().read())).unwrap();
    holds(poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap(), b"here");
}

/// Proves R4.7.
#[test]
fn a_responder_that_serves_no_reads() {
    fails_on!(IwarpOtherwise, "R24.5");
    // R4.7: our depth must not exceed the peer's, which only the peer knows.
    let wish = Wish { responder_depth: 0, ..Wish::new() };
    let mut p = Pair::<Rc>::with(&wish);
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    let remote = region.remote();
    p.a.post_send(wr::RdmaRead::new(filled(&p.pool, &[1; 8]), remote.read())).unwrap();
    drop(poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RemInvReq));
}
