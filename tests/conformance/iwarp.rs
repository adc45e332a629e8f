//! The operations of iWARP, and those that it lacks: on the device under test if it is iWARP, and
//! otherwise on a loopback device that is.

use std::time::Duration;

use proverbs::ErrorKind;
use proverbs::cm::ConnParam;
use proverbs::completion::Direction;
use proverbs::device::{GlobalRoute, NodeType, Protocol, Provider, TransportType};
use proverbs::ext::windows::Revocable;
use proverbs::loopback::{Fabric, Fault, Script, World};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::rules::HasBothQueues;
use proverbs::state::QpState;

use crate::support::*;

profile! { Any { entry: AnyBuf } }

fn iwarp() -> Device {
    let dev = Device::open();
    match dev.ctx.protocol(1).unwrap() {
        Protocol::Iwarp => dev,
        _ => Device::loopback(&Fabric::with(World::iwarp().personality(Device::personality()))),
    }
}

/// Checks an error for a feature that the fabric lacks: verb, request, what is supported, and
/// advice.
fn is_refused(error: &proverbs::Error, verb: &str, words: &[&str]) {
    assert_eq!((error.verb(), error.errno()), (verb, Some(libc::EOPNOTSUPP)), "{error}");
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
    let text = error.to_string();
    for words in [&["speaks iWARP, which has"], words].concat() {
        assert!(text.contains(words), "{text}");
    }
}

/// Proves R24.1.
#[test]
fn each_port_reports_its_protocol() {
    let of = |world: World| Fabric::with(world).open_device().protocol(1).unwrap();
    let all = [World::ipv4(), World::ipv6(), World::infiniband(), World::iwarp()].map(of);
    assert_eq!(all, [Protocol::Roce, Protocol::Roce, Protocol::InfiniBand, Protocol::Iwarp]);
    let lacks = |protocol: Protocol| {
        let has = [protocol.has::<Rc>(), protocol.has::<Uc>(), protocol.has::<Ud>()];
        (has, protocol.has_immediates(), protocol.has_atomics(), protocol.has_address_vectors())
    };
    assert_eq!(lacks(Protocol::Roce), ([true; 3], true, true, true));
    assert_eq!(lacks(Protocol::InfiniBand), ([true; 3], true, true, true));
    assert_eq!(lacks(Protocol::Iwarp), ([true, false, false], false, false, false));
    let ctx = iwarp().ctx;
    assert_eq!((ctx.transport_type(), ctx.node_type()), (TransportType::Iwarp, NodeType::Rnic));
    assert_eq!(ctx.protocol(9).unwrap_err().errno(), Some(libc::EINVAL));
}

/// Proves R24.2.
#[test]
fn a_queue_pair_of_another_transport_is_refused_before_it_exists() {
    fn refused<T: HasBothQueues>(dev: &Device, asked: &str) {
        let (pd, cq) = (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_cq(9).unwrap());
        let depth = Depth { send: 4, recv: 4 };
        let error = pd.create_qp::<T, DefaultProfile>(&cq, &cq, depth).unwrap_err();
        is_refused(&error, "ibv_create_qp", &[asked, "which has RC alone", "CmId::create_qp"]);
        // It leaves nothing behind: there is room for a supported one.
        pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    }
    let dev = iwarp();
    refused::<Uc>(&dev, "a UC queue pair");
    refused::<Ud>(&dev, "a UD queue pair");
}

/// A READ fills one element; if the profile has no reads, a send gathers several.
/// Proves R24.4.
#[test]
fn a_read_into_several_elements_is_refused_at_creation() {
    profile! { Scatters { max_send_sge: 2 } }
    profile! { Gathers { max_send_sge: 2, initiator: NoReads } }
    let dev = iwarp();
    let (pd, cq) = (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_cq(9).unwrap());
    let depth = Depth { send: 4, recv: 4 };
    let error = pd.create_qp::<Rc, Scatters>(&cq, &cq, depth).unwrap_err();
    let words = ["READs with max_send_sge 2", "only READs into one element", "`NoReads`"];
    is_refused(&error, "ibv_create_qp", &words);
    pd.create_qp::<Rc, Gathers>(&cq, &cq, depth).unwrap();
}

/// A ring returns buffers with a later completion. A READ completes when its response has arrived,
/// and a WRITE behind it before that; TCP may still send from the buffer of an unsignaled send.
///
/// IWARP rejects selective signaling.
/// IWARP rejects READs with selective signaling, because siw completes a later WRITE
/// Proves R24.13.
#[test]
fn rings_are_refused_at_creation() {
    profile! { Ring { signaling: Selective } }
    profile! { WritingRing { signaling: Selective, initiator: NoReads } }
    profile! { Shared { signaling: Selective, receive: SharedRq } }
    let dev = iwarp();
    let (pd, cq) = (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_cq(40).unwrap());
    let depth = Depth { send: 4, recv: 4 };
    let words = ["selective signaling", "earlier unsignaled sends", "`signaling: SignalAll`"];
    let error = pd.create_qp::<Rc, Ring>(&cq, &cq, depth).unwrap_err();
    is_refused(&error, "ibv_create_qp", &words);
    let error = pd.create_qp::<Rc, WritingRing>(&cq, &cq, depth).unwrap_err();
    is_refused(&error, "ibv_create_qp", &words);
    let srq: SharedReceiveQueue<Rc> = pd.create_srq(&pd.create_pool(4, 8).unwrap()).unwrap();
    let error = pd.create_qp::<Rc, Shared>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap_err();
    is_refused(&error, "ibv_create_qp", &words);
    assert_eq!(cq.unbooked(), cq.capacity());
}

/// Proves R24.3.
#[test]
fn an_address_handle_is_refused() {
    let dev = iwarp();
    let way = AddressVector::roce(1, dev.ctx.query_gid(1, 0).unwrap(), 0);
    assert_eq!(way.global.map(|route: GlobalRoute| route.sgid_index), Some(0));
    let error = dev.ctx.alloc_pd().unwrap().create_ah(way).map(drop).unwrap_err();
    is_refused(&error, "ibv_create_ah", &["no address vectors", "rdma_cm"]);
}

/// Proves R24.4.
#[test]
fn memory_for_atomics_is_refused() {
    let pd = iwarp().ctx.alloc_pd().unwrap();
    let error = pd.register::<RemoteAtomic>(64).map(drop).unwrap_err();
    is_refused(&error, "ibv_reg_mr", &["64 bytes", "REMOTE_ATOMIC", "no atomics"]);
    pd.register::<RemoteWrite>(64).unwrap();
}

/// An iWARP queue pair cannot be reset, so buffers that its device still writes are not
/// returned.
/// Proves R24.5, R24.6.
#[test]
fn only_rdma_cm_moves_a_queue_pair() {
    let dev = iwarp();
    let (pd, cq) = (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_cq(9).unwrap());
    let depth = Depth { send: 4, recv: 4 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let refused = qp.modify(init).map(drop).unwrap_err();
    is_refused(&refused.error, "ibv_modify_qp", &["to INIT", "CmId::create_qp"]);
    // It is unchanged: an id moves it.
    let (_channel, _listening, id) = ends(&dev);
    let qp = id.init_qp(&pd, refused.into_object()).unwrap();
    let refused = qp.reset().map(drop).unwrap_err();
    is_refused(&refused.error, "ibv_modify_qp", &["to RESET", "destroy the queue pair"]);
    let pending = id.connect(refused.into_object(), &ConnParam::default());
    drop(pending.unwrap());
}

/// TCP has the message. The sender's completion does not show what happens to it at the peer.
/// Proves R24.12.
#[test]
fn a_success_does_not_cover_the_peer() {
    let mut p = Pair::<Rc>::on(iwarp(), &Wish::new());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let nowhere = RemoteSlice::<RemoteWrite>::from_parts(4096, 8, 0xdead_0000);
    p.a.post_send(wr::RdmaWrite::inline(b"8 bytes!", nowhere.write())).unwrap();
    drop(poll(&p.dev, &mut p.ca, 1).remove(0).sent());
    // It ends the connection.
    untouched(poll(&p.dev, &mut p.cb, 1).remove(0).flushed(Direction::Receive).unwrap());
}

/// siw accepts no READ with a fence, which is rejected before it stops the send queue.
/// Proves R24.14.
#[test]
fn a_fenced_read_is_rejected() {
    let mut p = Pair::<Rc>::on(iwarp(), &Wish::new());
    let there = p.pd.register::<RemoteRead>(8).unwrap();
    let read = wr::RdmaRead::new(poisoned(&p.pool), there.remote().read());
    let error = p.a.post_send(read.fence()).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (PostErrorKind::FencedReadOnSiw, 0));
    assert!(error.to_string().contains("support a READ with a fence"), "{error}");
    drop(error);
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), there.remote().read())).unwrap();
    drop(poll(&p.dev, &mut p.ca, 1).remove(0).sent());
}

/// Another iWARP device may reject the same work requests for its own reasons.
#[test]
fn siws_reasons_are_given_only_on_siw() {
    profile! { Short { entry: AnyBuf, max_inline: 8 } }
    for (provider, is_siw) in [(Provider::Irdma, false), (Provider::Siw, true)] {
        let fabric = Fabric::with(World::iwarp().provider(provider));
        let mut p = Pair::<Rc, Short>::on(Device::loopback(&fabric), &Wish::new());
        let there = p.pd.register::<RemoteRead>(8).unwrap();
        let key = Revocable::new(p.pd.register::<RemoteWrite>(8).unwrap().remote());
        let kind = |siw| if is_siw { siw } else { PostErrorKind::Refused { errno: libc::EINVAL } };
        let read = wr::RdmaRead::new(poisoned(&p.pool), there.remote().read());
        let error = p.a.post_send(read.fence()).unwrap_err();
        assert_eq!(error.kind(), kind(PostErrorKind::FencedReadOnSiw));
        let error = p.a.post_send(ext::windows::SendWithInv::inline(b"a key", key)).unwrap_err();
        assert_eq!(error.kind(), kind(PostErrorKind::InlineInvOnSiw));
        // The protocol itself has no immediates.
        let error = p.a.post_send(wr::SendWithImm::inline(b"data", 7)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::NotOnIwarp);
    }
}

/// siw sends SEND_WITH_INV only from buffers. With inline data it is rejected before it stops the
/// send queue, and the work requests before it are posted.
#[test]
fn an_inline_send_with_inv_is_rejected() {
    profile! { Short { entry: AnyBuf, max_inline: 8 } }
    let mut p = Pair::<Rc, Short>::on(iwarp(), &Wish::new());
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    let key = Revocable::new(region.remote());
    for _ in 0..2 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let first = wr::Send::inline(b"first");
    let error =
        post_send!(p.a, [first, ext::windows::SendWithInv::inline(b"second", key)]).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (PostErrorKind::InlineInvOnSiw, 1));
    assert!(error.to_string().contains("send from a buffer"), "{error}");
    drop(error);
    p.a.post_send(wr::Send::inline(b"third")).unwrap();
    for sent in poll(&p.dev, &mut p.ca, 2) {
        drop(sent.sent());
    }
    for message in [&b"first"[..], b"third"] {
        assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), message);
    }
}

/// libsiw keeps the elements of a slot's earlier work request, and siw reads into the first of them
/// if a READ has none. The buffer is the program's again.
/// Proves R24.18.
#[test]
fn a_read_of_no_bytes_is_rejected() {
    let wish = Wish { depth: Depth { send: 4, recv: 4 }, ..Wish::new() };
    let mut p = Pair::<Rc>::on(iwarp(), &wish);
    let there = p.pd.register::<RemoteReadWrite>(64).unwrap();
    there.write_at(0, &[1; 64]).unwrap();
    let mut back = Vec::new();
    // Each slot of the queue had one.
    for _ in 0..8 {
        p.a.post_send(wr::RdmaWrite::new(filled(&p.pool, &[1; 64]), there.remote().write()))
            .unwrap();
        back.push(poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap());
    }
    for buf in &mut back {
        buf.fill(0);
    }
    let nothing = there.remote().slice(0, 0).unwrap().read();
    let of_no_buffer = p.a.post_send(wr::RdmaRead::new(wr::Empty, nothing));
    let of_a_buffer = p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), nothing));
    let posted = [of_no_buffer, of_a_buffer]
        .map(|posted| posted.map_err(|error| (error.kind(), error.accepted())));
    if posted.iter().any(Result::is_ok) {
        drop(poll(&p.dev, &mut p.ca, 1));
    }
    for buf in &back {
        assert!(buf.iter().all(|&byte| byte == 0), "{buf:?}");
    }
    assert_eq!(posted, [Err((PostErrorKind::EmptyReadOnSiw, 0)); 2]);
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), there.remote().read())).unwrap();
    holds(poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap(), &[1; 64]);
}

/// Proves R24.15.
#[test]
fn a_receive_without_a_buffer() {
    let mut p = Pair::<Rc>::on(iwarp(), &Wish::new());
    let refused = PostErrorKind::Refused { errno: libc::EINVAL };
    let error = p.b.post_recv(wr::Recv::empty()).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (refused, 0));
    drop(error);
    let [first, last] = [1, 2].map(|byte| wr::Recv::new(filled(&p.pool, &[byte])));
    let error = post_recv!(p.b, [first, wr::Recv::empty(), last]).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (refused, 1));
    // The buffer behind it is back, and the device owns the one before it.
    drop(error);
    assert_eq!((p.pool.available(), p.b.recvs_outstanding()), (39, 1));
    p.a.post_send(wr::Send::inline(b"")).unwrap();
    assert!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data().is_empty());
}

/// Requests posted before the error state are flushed, and those posted in it are not. `drain` says
/// so at its time limit, and the end of the queue pair returns the buffers.
/// Proves R24.7.
#[test]
fn a_post_in_the_error_state_is_not_flushed() {
    let mut p = Pair::<Rc>::on(iwarp(), &Wish::new());
    p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let mut dead = p.a.to_error().unwrap();
    dead.post_send(wr::Send::new(filled(&p.pool, &[1]))).unwrap();
    let flushed = poll(&p.dev, &mut p.ca, 1).remove(0);
    untouched(flushed.flushed(Direction::Receive).unwrap());
    let error = dead.drain_within(&mut p.ca, Duration::from_millis(10), |_| {}).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ETIMEDOUT), "{error}");
    assert_eq!((p.pool.available(), dead.sends_outstanding()), (39, 1));
    dead.destroy().unwrap();
    poll_empty(&mut p.ca);
    assert_eq!(p.pool.available(), 40);
}

/// Proves R24.16.
#[test]
fn a_query_on_siw_returns_no_state() {
    let p = Pair::<Rc>::on(iwarp(), &Wish::new());
    assert_eq!(p.a.query().unwrap().state, Some(QpState::Reset));
}

/// A queue pair that only sends. siw's library needs a receive queue, so one entry is requested.
/// Proves R24.11.
#[test]
fn a_queue_pair_without_receives() {
    let depth = Depth { send: 4, recv: 0 };
    let mut p = Pair::<Rc>::on(iwarp(), &Wish { depth, ..Wish::new() });
    // The program cannot use it.
    assert_eq!(p.a.recv_room(), 0);
    assert_eq!(p.ca.capacity() - p.ca.unbooked(), 5);
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    p.a.post_send(wr::RdmaWrite::inline(b"8 bytes!", region.remote().write())).unwrap();
    assert!(poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.is_none());
    let refused = p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap_err();
    assert_eq!(refused.kind(), PostErrorKind::QueueFull { asked: 1, room: 0 });
}

/// The operations that iWARP supports: SEND, WRITE and READ on a connection of rdma_cm.
/// Proves R24.4, R24.5.
#[test]
fn a_connection_sends_writes_and_reads() {
    let dev = iwarp();
    let pair = Pair::<Rc>::on(dev.clone(), &Wish::new());
    let Pair { mut a, mut b, mut ca, mut cb, pool, pd, .. } = pair;
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    let (message, data) = (numbered(3, 100), numbered(7, 256));
    a.post_send(wr::Send::new(filled(&pool, &message))).unwrap();
    poll(&dev, &mut ca, 1).remove(0).sent();
    holds(poll(&dev, &mut cb, 1).remove(0).received().entry.unwrap(), &message);

    let region = pd.register::<RemoteAll>(256);
    is_refused(&region.map(drop).unwrap_err(), "ibv_reg_mr", &["no atomics"]);
    let region = pd.register::<RemoteReadWrite>(256).unwrap();
    let there = region.remote();
    a.post_send(wr::RdmaWrite::new(filled(&pool, &data), there.write())).unwrap();
    poll(&dev, &mut ca, 1).remove(0).sent();
    a.post_send(wr::RdmaRead::new(poisoned(&pool), there.read())).unwrap();
    holds(poll(&dev, &mut ca, 1).remove(0).sent().entry.unwrap(), &data);

    // An unsupported operation is returned with the reason.
    let error = a.post_send(wr::SendWithImm::new(filled(&pool, &message), 7)).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (PostErrorKind::NotOnIwarp, 0));
    assert!(error.to_string().contains("iWARP, which has neither immediates"), "{error}");
    let back: Vec<_> = error.into_rejected().map(|buf| holds(buf, &message)).collect();
    assert_eq!(back.len(), 1);
    drop(back);

    // Both ends and every buffer return.
    a.to_error().unwrap().drain(&mut ca, |_| {}).unwrap();
    b.to_error().unwrap().drain(&mut cb, |_| {}).unwrap();
    assert_eq!(pool.available(), 40);
}

/// A rejected operation that iWARP supports has the usual error.
#[test]
fn a_send_that_is_refused_for_another_reason() {
    let fabric = Fabric::with(World::iwarp());
    let Pair { mut a, pool, .. } = Pair::<Rc>::on(Device::loopback(&fabric), &Wish::new());
    fabric.inject(Script::default().with(Fault::Refuse { errno: libc::EINVAL }.nth(0)));
    let error = a.post_send(wr::Send::new(filled(&pool, &[1]))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::Refused { errno: libc::EINVAL });
    drop(error);
    assert_eq!(pool.available(), 40);
}

/// On adapters that require it, a READ's sink is open to remote writes.
/// Proves R24.8.
#[test]
fn a_read_fills_a_piece_of_a_region_open_to_writes() {
    let mut p = Pair::<Rc, Any>::on(iwarp(), &Wish::new());
    let there = p.pd.register::<RemoteRead>(64).unwrap();
    let here = p.pd.register::<RemoteWrite>(64).unwrap();
    there.write_at(0, b"read by the peer").unwrap();
    let source = there.remote().slice(0, 16).unwrap();
    p.a.post_send(wr::RdmaRead::new(here.piece(8, 16).unwrap(), source.read())).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    let mut bytes = [0; 18];
    here.read_at(7, &mut bytes).unwrap();
    assert_eq!(&bytes, b"\0read by the peer\0");
}
