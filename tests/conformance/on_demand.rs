//! Regions on demand, by what the device says that it can do in them.

use proverbs::completion::{WcOpcode, WcStatus};
use proverbs::device::{Can, OdpOps};
use proverbs::memory;
use proverbs::memory::{Advice, Flushable, OnDemand, OnDemandRegion};
use proverbs::prelude::*;
use proverbs::transport::Transport;

use crate::persistence;
use crate::support::*;

profile! { Persisting { posting: ExtendedPosting<(wr::Flush, wr::AtomicWrite)> } }

const ALL: [Advice; 3] = [Advice::Prefetch, Advice::PrefetchWrite, Advice::PrefetchNoFault];

fn can<T: Transport, A: memory::Remote>(dev: &Device) -> Option<Can<OnDemand<T, A>>> {
    dev.ctx.abilities().unwrap().can()
}

/// Whether the device does these in memory on demand, and does them right (R20.5).
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
    memory::Writable: memory::Allows<A>,
{
    let can = can::<Rc, A>(&p.dev);
    assert_eq!(can.is_some(), does(&p.dev, needs));
    let Some(can) = can else {
        println!("R20.1: not on this device: {needs:?} over RC");
        return None;
    };
    assert_eq!(format!("{can:?}"), "Can(on-demand paging)");
    Some(p.pd.register_on_demand(&can, vec![7u8; 8192]).unwrap())
}

#[test]
fn peers_read_memory_on_demand() {
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

/// Memory on demand and memory that is pinned, by one list, both ways.
#[test]
fn memory_on_demand_beside_other() {
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
    let mut p = Pair::<Rc, DefaultProfile>::new();
    let Some(_) = region::<RemoteAtomic>(&p, OdpOps::ATOMIC) else { return };
    let can = can::<Rc, RemoteAtomic>(&p.dev).unwrap();
    let region = p.pd.register_on_demand(&can, vec![0u64; 8]).unwrap();
    let ticket = region.remote().atomic(8).unwrap();
    p.a.post_send(wr::FetchAndAdd::new(poisoned(&p.pool), ticket, 5)).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let cell = region.cell(8).unwrap();
    assert_eq!(cell.load(std::sync::atomic::Ordering::Relaxed), 5);
    assert!(region.cell(4).is_err() && region.cell(64).is_err());
}

/// A peer's FLUSH is an operation of its own, on a part of the region and on all of it (R20.1,
/// R25.1).
#[test]
fn peers_flush_memory_on_demand() {
    let dev = Device::open();
    let can = can::<Rc, Flushable<RemoteWrite>>(&dev);
    assert_eq!(can.is_some(), does(&dev, OdpOps::WRITE | OdpOps::FLUSH));
    let (Some(can), true) = (can, persistence::has_all(&dev)) else {
        return println!("R20.1: no FLUSH of memory on demand on this device");
    };
    let mut p = Pair::<Rc, Persisting>::on(dev, &persistence::wish());
    let region = p.pd.register_on_demand(&can, vec![7u8; 8192]).unwrap();
    let part = region.remote().slice(4096, 8).unwrap();
    let flush = part.flush_global().unwrap();
    let write = wr::RdmaWrite::inline(b"an entry", part.write());
    post_send!(p.a, [write, wr::Flush::new(flush), wr::Flush::new(flush.whole_region())]).unwrap();
    let opcodes = [WcOpcode::RdmaWrite, WcOpcode::Flush, WcOpcode::Flush];
    let done = poll(&p.dev, &mut p.ca, 3).into_iter().map(|done| done.sent().opcode);
    assert_eq!(done.collect::<Vec<_>>(), opcodes);
    let mut there = [0; 10];
    region.read_at(4095, &mut there).unwrap();
    assert_eq!(&there, b"\x07an entry\x07");
}

/// ATOMIC_WRITE has the right of a WRITE; whether it may go to memory on demand, the device says
/// (R20.1).
#[test]
fn peers_write_a_word_at_once_in_memory_on_demand() {
    let dev = Device::open();
    let odp = dev.ctx.query_device_ex().unwrap().odp;
    let (Some(can), true) = (can::<Rc, RemoteWrite>(&dev), persistence::has_all(&dev)) else {
        return println!("R20.1: no ATOMIC_WRITE to memory on demand on this device");
    };
    let mut p = Pair::<Rc, Persisting>::on(dev, &persistence::wish());
    let region = p.pd.register_on_demand(&can, vec![7u64; 8]).unwrap();
    let word = region.remote().write_cell(8).unwrap();
    p.a.post_send(wr::AtomicWrite::new(word, *b"8 bytes!")).unwrap();
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

/// What is no part of the region, or cannot be written, is not fetched (R20.3, R20.4).
#[test]
fn what_cannot_be_fetched_is_refused() {
    let p = Pair::<Rc, DefaultProfile>::new();
    let Some(writable) = region::<RemoteRead>(&p, OdpOps::READ) else { return };
    let error = writable.prefetch(Advice::Prefetch, 8000, 193).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { asked: 8193, max: 8192, .. }), "{error}");
    assert!(said(&error).starts_with("ibv_advise_mr: "), "{error}");
    let error = writable.start_prefetch(Advice::Prefetch, 2, usize::MAX).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { max: 8192, .. }), "{error}");
    let can = can::<Rc, RemoteRead>(&p.dev).unwrap();
    let constant = p.pd.register_on_demand(&can, &[1u8; 64][..]).unwrap();
    constant.prefetch(Advice::Prefetch, 0, 64).unwrap();
    let error = constant.prefetch(Advice::PrefetchWrite, 0, 64).unwrap_err();
    assert_eq!(error.errno(), Some(1), "{error}");
    assert!(error.to_string().ends_with("; the region is read-only)"), "{error}");
    let refused = p.pd.register_on_demand(&can, Vec::<u8>::new()).unwrap_err();
    assert_eq!(refused.error.errno(), Some(22));
    assert!(refused.into_object().is_empty());
}

/// A proof is of its context (R20.1).
#[test]
fn a_proof_of_another_device_is_refused() {
    let p = Pair::<Rc, DefaultProfile>::new();
    let other = Device::open();
    let Some(can) = can::<Rc, RemoteRead>(&other) else { return };
    let refused = p.pd.register_on_demand(&can, vec![3u8; 64]).unwrap_err();
    assert!(matches!(refused.error.kind(), ErrorKind::ContextMismatch { .. }), "{refused}");
    assert_eq!(refused.into_object(), [3; 64]);
}

/// Over another transport than that of the proof, the device decides (R20.1).
#[test]
fn the_proof_is_for_one_transport() {
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
    let region = p.pd.register_on_demand(&can, vec![7u8; 64]).unwrap();
    p.a.post_send(wr::RdmaWrite::inline(b"8 bytes!", region.remote().write())).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let mut there = [0; 8];
    region.read_at(0, &mut there).unwrap();
    let expected = if odp.uc.contains(OdpOps::WRITE) { b"8 bytes!" } else { &[7; 8] };
    assert_eq!(&there, expected);
}
