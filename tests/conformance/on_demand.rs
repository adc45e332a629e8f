//! On-demand paging, for the operations that the device reports.

use proverbs::completion::{WcOpcode, WcStatus};
use proverbs::device::{Can, OdpOps};
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::on_demand::{Advice, Implicit, ImplicitBuf, OnDemand, OnDemandRegion};
use proverbs::ext::persistence::Flushable;
use proverbs::memory;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::transport::Transport;

use crate::persistence;
use crate::support::*;

profile! { Pages { entry: ImplicitBuf<Rc, wr::Send> } }
profile! { Mixed { entry: AnyBuf } }
profile! { Persisting { posting: ExtendedPosting<(ext::persistence::Flush, ext::persistence::AtomicWrite)> } }

const ALL: [Advice; 3] = [Advice::Prefetch, Advice::PrefetchWrite, Advice::PrefetchNoFault];

fn can<T: Transport, A: memory::Remote>(dev: &Device) -> Option<Can<OnDemand<T, A>>> {
    dev.ctx.abilities().unwrap().can()
}

/// Whether the device supports these operations in on-demand memory, and does them correctly
/// (R20.5).
fn does(dev: &Device, needs: OdpOps) -> bool {
    let odp = dev.ctx.query_device_ex().unwrap().odp;
    let copies = needs.intersects(OdpOps::READ | OdpOps::WRITE);
    let is_right = by_rule!(dev, "R20.5", loopback: true, rxe: !copies);
    odp.is_supported && odp.rc.contains(needs) && is_right
}

/// A region of `A`, or why there is none.
fn region<A: memory::Remote>(
    p: &Pair<Rc, DefaultProfile>,
    needs: OdpOps,
) -> Option<OnDemandRegion<A, Vec<u8>>>
where
    memory::Writable: memory::RegistersAs<A>,
{
    let can = can::<Rc, A>(&p.dev);
    assert_eq!(can.is_some(), does(&p.dev, needs));
    let Some(can) = can else {
        println!("R20.1: not on this device: {needs:?} over RC");
        return None;
    };
    assert_eq!(format!("{can:?}"), "Can(on-demand paging)");
    Some(p.pd.region().on_demand(&can).create_in(vec![7u8; 8192]).unwrap())
}

/// Proves R20.1.
#[test]
fn peers_read_memory_on_demand() {
    fails_on!(KeptRegions, "", Device::open().kind != Kind::Siw);
    let mut p = Pair::<Rc, DefaultProfile>::new();
    let Some(region) = region::<RemoteRead>(&p, OdpOps::READ) else { return };
    for advice in ALL {
        region.prefetch(advice, 0, 4096).unwrap();
        region.prefetch(advice, 8000, 192).unwrap();
        region.prefetch(advice, 8192, 0).unwrap();
        region.start_prefetch(advice, 0, 8192).unwrap();
    }
    region.write_at(8184, b"8 bytes!").unwrap();
    let from = region.export::<RemoteRead>().slice(8184, 8).unwrap().read();
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), from)).unwrap();
    holds(poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap(), b"8 bytes!");
    assert_eq!((region.len(), region.is_empty()), (8192, false));
    assert_eq!(format!("{region:?}"), "OnDemandRegion(RemoteRead 8192 bytes)");
    assert!(region.destroy().unwrap().ends_with(b"\x078 bytes!"));
}

/// Proves R20.2, R20.5.
#[test]
fn peers_write_memory_on_demand() {
    let mut p = Pair::<Rc, DefaultProfile>::new();
    let Some(region) = region::<RemoteWrite>(&p, OdpOps::WRITE) else { return };
    region.prefetch(Advice::PrefetchWrite, 4096, 4096).unwrap();
    let to = region.remote().slice(4096, 8).unwrap().write();
    p.a.post_send(wr::RdmaWrite::new(filled(&p.pool, b"8 bytes!"), to)).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let mut there = [0; 10];
    region.read_at(4095, &mut there).unwrap();
    assert_eq!(&there, b"\x078 bytes!\x07");
}

/// On-demand and pinned memory in one list, in both directions.
#[test]
fn on_demand_memory_beside_pinned_memory() {
    let mut p = Pair::<Rc, DefaultProfile>::new();
    let needs = OdpOps::READ | OdpOps::WRITE;
    let Some(region) = region::<RemoteReadWrite>(&p, needs) else { return };
    let pinned = p.pd.register::<RemoteReadWrite>(8192).unwrap();
    let (one, two) = (region.remote(), pinned.remote());
    let at = |of: &RemoteSlice<RemoteReadWrite>| of.slice(4092, 8).unwrap();
    post_send!(
        p.a,
        [
            wr::RdmaWrite::inline(b"8 bytes!", at(&one).write()),
            wr::RdmaWrite::inline(b"and more", at(&two).write()),
            wr::RdmaRead::new(poisoned(&p.pool), at(&two).read()),
            wr::RdmaRead::new(poisoned(&p.pool), at(&one).read()),
        ]
    )
    .unwrap();
    let mut read = poll(&p.dev, &mut p.ca, 4).into_iter().filter_map(|done| done.sent().entry);
    holds(read.next().unwrap(), b"and more");
    holds(read.next().unwrap(), b"8 bytes!");
}

#[test]
fn peers_add_in_memory_on_demand() {
    fails_on!(Iwarp, "R24.4", Device::open().kind != Kind::Siw);
    let mut p = Pair::<Rc, DefaultProfile>::new();
    let Some(_) = region::<RemoteAtomic>(&p, OdpOps::ATOMIC) else { return };
    let can = can::<Rc, RemoteAtomic>(&p.dev).unwrap();
    let region = p.pd.region().on_demand(&can).create(64).unwrap();
    let ticket = region.remote().atomic(8).unwrap();
    p.a.post_send(wr::FetchAndAdd::new(poisoned(&p.pool), ticket, 5)).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let cell = region.cell(8).unwrap();
    assert_eq!(cell.load(std::sync::atomic::Ordering::Relaxed), 5);
    assert!(region.cell(4).is_err() && region.cell(64).is_err());
}

/// A peer's FLUSH is a separate operation, on part of the region and on all of it (R20.1, R25.1).
/// Proves R20.1.
#[test]
fn peers_flush_memory_on_demand() {
    let dev = Device::open();
    let can = can::<Rc, Flushable<RemoteWrite>>(&dev);
    assert_eq!(can.is_some(), does(&dev, OdpOps::WRITE | OdpOps::FLUSH));
    let (Some(can), true) = (can, persistence::has_all(&dev)) else {
        return println!("R20.1: no FLUSH of memory on demand on this device");
    };
    let mut p = Pair::<Rc, Persisting>::on(dev, &persistence::wish());
    let region = p.pd.region().on_demand(&can).create_in(vec![7u8; 8192]).unwrap();
    let part = region.remote().slice(4096, 8).unwrap();
    let flush = part.flush_global().unwrap();
    let write = wr::RdmaWrite::inline(b"an entry", part.write());
    post_send!(
        p.a,
        [
            write,
            ext::persistence::Flush::new(flush),
            ext::persistence::Flush::new(flush.whole_region())
        ]
    )
    .unwrap();
    let opcodes = [WcOpcode::RdmaWrite, WcOpcode::Flush, WcOpcode::Flush];
    let done = poll(&p.dev, &mut p.ca, 3).into_iter().map(|done| done.sent().opcode);
    assert_eq!(done.collect::<Vec<_>>(), opcodes);
    let mut there = [0; 10];
    region.read_at(4095, &mut there).unwrap();
    assert_eq!(&there, b"\x07an entry\x07");
}

/// ATOMIC_WRITE needs the right of a WRITE. The device reports whether it may access on-demand
/// memory.
/// Proves R20.1.
#[test]
fn peers_write_a_word_atomically_in_memory_on_demand() {
    let dev = Device::open();
    let odp = dev.ctx.query_device_ex().unwrap().odp;
    let (Some(can), true) = (can::<Rc, RemoteWrite>(&dev), persistence::has_all(&dev)) else {
        return println!("R20.1: no ATOMIC_WRITE to memory on demand on this device");
    };
    let mut p = Pair::<Rc, Persisting>::on(dev, &persistence::wish());
    let region = p.pd.region().on_demand(&can).create_in(vec![7u64; 8]).unwrap();
    let word = region.remote().write_cell(8).unwrap();
    p.a.post_send(ext::persistence::AtomicWrite::new(word, *b"8 bytes!")).unwrap();
    let mut there = [0; 8];
    match poll(&p.dev, &mut p.ca, 1).remove(0) {
        Done::Sent(sent) => {
            assert!(odp.rc.contains(OdpOps::ATOMIC_WRITE));
            assert_eq!(sent.opcode, WcOpcode::AtomicWrite);
            region.read_at(8, &mut there).unwrap();
            assert_eq!(&there, b"8 bytes!");
        }
        Done::Failed(failed) => {
            assert!(!odp.rc.contains(OdpOps::ATOMIC_WRITE));
            assert_eq!(failed.error.status, WcStatus::RemAccess);
            region.read_at(8, &mut there).unwrap();
            assert_eq!(there, 7u64.to_ne_bytes());
        }
        other => panic!("{other:?} is no send"),
    }
}

/// A range outside the region, or one that cannot be written, is not prefetched.
/// Proves R20.3, R20.4.
#[test]
fn invalid_prefetches_are_refused() {
    let p = Pair::<Rc, DefaultProfile>::new();
    let Some(writable) = region::<RemoteRead>(&p, OdpOps::READ) else { return };
    let error = writable.prefetch(Advice::Prefetch, 8000, 193).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { asked: 8193, max: 8192, .. }), "{error}");
    assert!(said(&error).starts_with("ibv_advise_mr: "), "{error}");
    let error = writable.start_prefetch(Advice::Prefetch, 2, usize::MAX).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { max: 8192, .. }), "{error}");
    let can = can::<Rc, RemoteRead>(&p.dev).unwrap();
    let constant = p.pd.region().on_demand(&can).create_in(&[1u8; 64][..]).unwrap();
    constant.prefetch(Advice::Prefetch, 0, 64).unwrap();
    let error = constant.prefetch(Advice::PrefetchWrite, 0, 64).unwrap_err();
    assert_eq!(error.errno(), Some(1), "{error}");
    assert!(error.to_string().ends_with("; the region is read-only)"), "{error}");
    let refused = p.pd.region().on_demand(&can).create_in(Vec::<u8>::new()).unwrap_err();
    assert_eq!(refused.error.errno(), Some(22));
    assert!(refused.into_object().is_empty());
}

/// A proof belongs to its context.
/// Proves R20.1.
#[test]
fn a_proof_of_another_device_is_refused() {
    let p = Pair::<Rc, DefaultProfile>::new();
    let other = Device::open();
    let Some(can) = can::<Rc, RemoteRead>(&other) else { return };
    let refused = p.pd.region().on_demand(&can).create_in(vec![3u8; 64]).unwrap_err();
    assert!(matches!(refused.error.kind(), ErrorKind::ContextMismatch { .. }), "{refused}");
    assert_eq!(refused.into_object(), [3; 64]);
}

/// If the transport is not the ability's, the device decides.
/// Proves R20.1.
#[test]
fn the_proof_is_for_one_transport() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Uc, DefaultProfile>::new();
    let odp = p.dev.ctx.query_device_ex().unwrap().odp;
    assert_eq!(
        can::<Uc, RemoteWrite>(&p.dev).is_some(),
        odp.is_supported && odp.uc.contains(OdpOps::WRITE)
    );
    assert!(can::<Ud, RemoteRead>(&p.dev).is_none() || odp.ud.contains(OdpOps::READ));
    let Some(can) = can::<Rc, RemoteWrite>(&p.dev) else { return };
    if p.dev.kind != Kind::Loopback {
        return println!("R20.1: what a device does then is its own");
    }
    let region = p.pd.region().on_demand(&can).create_in(vec![7u8; 64]).unwrap();
    p.a.post_send(wr::RdmaWrite::inline(b"8 bytes!", region.remote().write())).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let mut there = [0; 8];
    region.read_at(0, &mut there).unwrap();
    let expected = if odp.uc.contains(OdpOps::WRITE) { b"8 bytes!" } else { &[7; 8] };
    assert_eq!(&there, expected);
}

/// The proof for these operations. It exists exactly if the device reports them.
fn implicit<O: ext::on_demand::PagedOps>(
    dev: &Device,
    needs: OdpOps,
) -> Option<Can<Implicit<Rc, O>>> {
    let odp = dev.ctx.query_device_ex().unwrap().odp;
    let can = dev.ctx.abilities().unwrap().can();
    let is_right = by_rule!(dev, "R20.5", loopback: true, rxe: false);
    let has = odp.is_supported && odp.is_implicit && odp.rc.contains(needs) && is_right;
    assert_eq!(can.is_some(), has);
    if can.is_none() {
        println!("R20.6: no implicit region on this device, or not {needs:?} over RC");
    }
    can
}

/// The program's own memory is sent with the single key of the implicit region, and comes back
/// (R20.6, R20.7).
///
/// Memory of an implicit region stays with the device until its last handle was sent.
/// Proves R20.6.
#[test]
fn memory_is_sent_through_the_implicit_region() {
    fails_on!(Iwarp, "R24.4", Device::open().kind != Kind::Siw);
    let mut p = Pair::<Rc, Mixed>::new();
    let Some(can) = implicit::<wr::Send>(&p.dev, OdpOps::SEND) else { return };
    let all = p.pd.register_implicit(&can).unwrap();
    let (one, two) = (all.adopt(vec![7u8; 100]).unwrap(), all.adopt(&b"constant"[..]).unwrap());
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let mut part = one.part(90..).unwrap();
    part.set_id(5);
    let beside = wr::Send::new(filled(&p.pool, b"of a pool"));
    post_send!(p.a, [wr::Send::paged(part), wr::SendWithImm::paged(two, 9), beside]).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 3).into_iter().map(|done| done.sent().entry.unwrap());
    let mut received = poll(&p.dev, &mut p.cb, 3).into_iter().map(|done| {
        let received = done.received();
        let bytes = received.entry.unwrap().into_buf().unwrap()[..].to_vec();
        (bytes, received.imm_data)
    });
    assert_eq!(received.next(), Some((vec![7; 10], None)));
    assert_eq!(received.next(), Some((b"constant".to_vec(), Some(9))));
    assert_eq!(received.next(), Some((b"of a pool".to_vec(), None)));
    let implicit = |entry| match entry {
        AnyBuf::Implicit(buf) => Some(all.recognize(buf).unwrap()),
        other => {
            assert_eq!(&other.into_buf().unwrap()[..], b"of a pool");
            None
        }
    };
    let [part, two] = sent.filter_map(implicit).collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((part.id(), one.handles()), (5, 2));
    assert_eq!(two.into_memory::<&[u8]>().unwrap(), b"constant");
    let one = one.into_memory::<Vec<u8>>().unwrap_err(); // `part` still exists
    drop(part);
    assert_eq!(one.into_memory::<Vec<u8>>().unwrap(), [7; 100]);
    all.destroy().unwrap();
}

/// WRITEs end at the end of their slices, like those of other memory (R6.7).
/// Proves R20.6.
#[test]
fn memory_is_written_through_the_implicit_region() {
    fails_on!(IwarpOtherwise, "R24.15", Device::open().kind != Kind::Siw);
    let mut p = Pair::<Rc, Mixed>::new();
    type Both = (wr::Send, wr::RdmaWrite);
    let needs = OdpOps::SEND | OdpOps::WRITE;
    let Some(can) = implicit::<Both>(&p.dev, needs) else { return };
    let all = p.pd.register_implicit(&can).unwrap();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let buf = all.adopt(b"12 bytes are".to_vec()).unwrap();
    let to = region.remote().slice(4, 8).unwrap().write();
    let error = p.a.post_send(wr::RdmaWrite::paged(buf, to)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ExceedsSlice { asked: 12, max: 8 });
    let Some(AnyBuf::Implicit(buf)) = error.into_rejected().next() else { panic!("it is back") };
    let eight = all.recognize(buf).unwrap().part(..8).unwrap();
    let none = eight.part(8..).unwrap();
    p.b.post_recv(wr::Recv::empty()).unwrap();
    let told = wr::RdmaWriteWithImm::paged(none, to, 3);
    post_send!(p.a, [wr::RdmaWrite::paged(eight, to), told]).unwrap();
    poll(&p.dev, &mut p.ca, 2);
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().imm_data, Some(3));
    let mut there = [1; 10];
    region.read_at(3, &mut there).unwrap();
    assert_eq!(&there, b"\x0012 bytes\x00");
}

/// The ring of a selectively signaled queue pair returns it unchanged, one by one and at the end.
///
/// A selectively signaled queue pair returns memory of an implicit region by the right
/// handle.
/// Proves R20.7.
#[test]
fn memory_of_a_ring_through_the_implicit_region() {
    fails_on!(NoRings);
    profile! {
        RingOfPages {
            entry: ImplicitBuf<Rc, wr::RdmaWrite>, signaling: Selective, initiator: NoReads
        }
    }
    let mut p = Pair::<Rc, RingOfPages>::new();
    let Some(can) = implicit::<wr::RdmaWrite>(&p.dev, OdpOps::WRITE) else { return };
    let all = p.pd.register_implicit(&can).unwrap();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let to = region.remote().slice(0, 8).unwrap().write();
    let bufs = || all.adopt(b"ring".to_vec()).unwrap();
    p.a.post_send(wr::RdmaWrite::paged(bufs(), to)).unwrap();
    let Outcome::Selective(one) = p.ca.poll_one().unwrap().unwrap().outcome() else {
        panic!("of a ring")
    };
    let mut released = p.a.complete(one).unwrap().released;
    let buf = released.next().unwrap();
    assert_eq!((buf.len(), released.count()), (4, 0));
    assert_eq!(buf.into_memory::<Vec<u8>>().unwrap(), b"ring");
    for i in 0..3 {
        let buf = bufs().part(i..).unwrap();
        p.a.post_send(wr::RdmaWrite::paged(buf, to)).unwrap();
    }
    p.a.destroy().unwrap();
    all.destroy().unwrap();
}

/// Memory with the device is kept, with its region, until it returns, even from a queue pair that
/// is gone.
/// Proves R20.7.
#[test]
fn memory_of_a_destroyed_queue_pair_returns() {
    let Pair { dev, pd, mut a, b, mut ca, .. } = Pair::<Rc, Pages>::new();
    let Some(can) = implicit::<wr::Send>(&dev, OdpOps::SEND) else { return };
    let all = pd.register_implicit(&can).unwrap();
    let buf = all.adopt(vec![7u8; 100]).unwrap();
    a.post_send(wr::Send::paged(buf.clone())).unwrap(); // no receive is posted
    assert_eq!(buf.handles(), 2);
    let all = all.destroy().unwrap_err().into_object();
    drop((a, b));
    let deadline = std::time::Instant::now() + long();
    while buf.handles() != 1 {
        assert!(std::time::Instant::now() < deadline, "it has not returned");
        ca.poll().unwrap().for_each(drop);
    }
    assert_eq!(buf.into_memory::<Vec<u8>>().unwrap(), [7; 100]);
    all.destroy().unwrap();
}
