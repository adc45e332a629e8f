//! Regions in memory that the processor cannot access, and regions that change.

use proverbs::completion::{Direction, WcStatus};
use proverbs::device::DeviceMemory;
use proverbs::ext::device_memory::Dm;
#[cfg(not(miri))]
use proverbs::ext::device_memory::DmaBuf;
use proverbs::loopback::Personality;
use proverbs::memory::ReregError;
#[cfg(not(miri))]
use proverbs::memory::{MapOptions, SharedMapping};
use proverbs::prelude::*;

use crate::support::*;

profile! { Any { entry: AnyBuf } }

/// Whether this device has the features that Soft-RoCE of Linux 6.1 and siw lack: device memory,
/// dma-buf, re-registration.
fn is_able(dev: &Device) -> bool {
    match dev.kind {
        Kind::Rxe | Kind::Siw => false,
        Kind::Loopback => Device::personality() != Personality::Rxe,
        Kind::Hardware => true,
    }
}

/// A peer WRITEs, and a SEND returns the bytes.
fn written_and_sent<M>(p: &mut Pair<Rc, Any>, region: &MemoryRegion<RemoteAll, M>)
where
    M: proverbs::memory::HasPieces,
{
    let at = region.remote().slice(8, 8).unwrap();
    p.a.post_send(wr::RdmaWrite::new(filled(&p.pool, b"8 bytes!"), at.write())).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(region.piece(8, 8).unwrap())).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
    holds(got.into_buf().unwrap(), b"8 bytes!");
}

/// Proves R18.14.
#[test]
fn device_memory() {
    fails_on!(Iwarp, "R24.4", Device::open().kind != Kind::Siw);
    let mut p = Pair::<Rc, Any>::new();
    let can = p.dev.ctx.abilities().unwrap().can::<DeviceMemory>();
    let Some(can) = can else {
        assert!(!is_able(&p.dev) || p.dev.kind == Kind::Hardware);
        return println!("R18.14: this device has no memory of its own");
    };
    let memory = p.dev.ctx.alloc_dm(&can, 64, 3).unwrap();
    memory.memcpy_to_dm(0, &[1; 64]).unwrap();
    let region: MemoryRegion<RemoteAll, Dm> = p.pd.register_dm(memory).unwrap();
    written_and_sent(&mut p, &region);
    let ticket = region.remote().atomic(0).unwrap();
    p.a.post_send(wr::FetchAndAdd::new(poisoned(&p.pool), ticket, 1)).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let mut there = [0; 20];
    region.memcpy_from_dm(0, &mut there).unwrap();
    assert_eq!((&there[8..16], &there[16..]), (&b"8 bytes!"[..], &[1; 4][..]));
    assert_eq!(there[..8].iter().map(|byte| u32::from(*byte)).sum::<u32>(), 9);
    let memory = region.destroy().unwrap();
    assert_eq!(memory.len(), 64);
    memory.destroy().unwrap();
}

/// Only the loopback device accepts a memfd as a dma-buf.
/// Proves R18.12, R18.17.
#[test]
#[cfg(not(miri))]
fn memory_behind_a_descriptor() {
    let mut p = Pair::<Rc, Any>::new();
    let (gpu, fd) = MapOptions::new().memfd("instead of a dma-buf", 8192).unwrap();
    let dmabuf = DmaBuf { fd, offset: 4104, len: 64, iova: 0x10_0008 };
    match p.pd.register_dmabuf::<RemoteAll>(dmabuf) {
        Ok(region) => {
            assert!(is_able(&p.dev) && p.dev.kind == Kind::Loopback);
            assert_eq!(region.remote().addr(), 0x10_0008);
            written_and_sent(&mut p, &region);
            let mut there = [0; 24];
            gpu.read_at(4096, &mut there).unwrap();
            assert_eq!((&there[..16], &there[16..]), (&[0; 16][..], &b"8 bytes!"[..]));
            assert_eq!(region.destroy().unwrap().offset, 4104);
        }
        Err(refused) if is_able(&p.dev) => {
            assert_eq!((p.dev.kind, refused.error.errno()), (Kind::Hardware, Some(22)));
        }
        Err(refused) => {
            let text = refused.to_string();
            assert!(matches!(refused.error.kind(), ErrorKind::Unsupported { .. }), "{text}");
            assert!(text.starts_with("ibv_reg_dmabuf_mr: EOPNOTSUPP: "), "{text}");
            assert!(text.contains(" does not support dma-bufs: copy through"), "{text}");
            let file = refused.into_object();
            assert_eq!((file.len, file.iova), (64, 0x10_0008));
        }
    }
}

/// Rights are removed, or the region can only be deregistered; its memory is returned in either
/// case.
/// Proves R6.15, R18.17.
#[test]
fn a_region_that_changes() {
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.region::<RemoteReadWrite>().create_in(vec![1u8; 64]).unwrap();
    let told = region.remote();
    match region.rereg_access::<RemoteRead>() {
        Ok(region) => {
            assert!(is_able(&p.dev));
            let at = region.remote().slice(0, 8).unwrap();
            p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), at.read())).unwrap();
            let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
            holds(read.into_buf().unwrap(), &[1; 8]);
            let larger: Box<[u64]> = vec![2; 64].into();
            let (region, old) = region.rereg_memory(larger).unwrap();
            assert_eq!(old, [1; 64]);
            let other = p.dev.ctx.alloc_pd().unwrap();
            let region = region.rereg_pd(&other).unwrap().rereg_pd(&p.pd).unwrap();
            other.destroy().unwrap();
            let at = region.remote().slice(504, 8).unwrap();
            p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), at.read())).unwrap();
            let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
            holds(read.into_buf().unwrap(), &2u64.to_ne_bytes());
            p.a.post_send(wr::RdmaWrite::inline(b"too late", told.slice(0, 8).unwrap().write()))
                .unwrap();
            let refused = poll(&p.dev, &mut p.ca, 1).remove(0);
            refused.failed(Direction::Send, WcStatus::RemAccess);
            assert_eq!(*region.destroy().unwrap(), [2; 64]);
        }
        Err(ReregError::Unusable(refused)) => {
            let (region, error) = refused.into_parts();
            assert!(!is_able(&p.dev), "{error}");
            assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
            assert_eq!(region.destroy().unwrap(), (vec![1; 64], ()));
        }
        Err(error) => panic!("{error}"),
    }
}

/// A region moves from memory of this process to memory that another process maps.
#[test]
#[cfg(not(miri))]
fn a_region_moves_into_shared_memory() {
    fails_on!(KeptRegions, "", Device::open().kind != Kind::Siw);
    let p = Pair::<Rc, Any>::new();
    if !is_able(&p.dev) {
        return println!("R6.15: this device changes no regions");
    }
    let region = p.pd.register::<RemoteRead>(64).unwrap();
    let (memory, _fd) = MapOptions::new().memfd("shared", 4096).unwrap();
    let (region, pages) = region.rereg_memory(memory).unwrap();
    let region: MemoryRegion<RemoteRead, SharedMapping> = region;
    assert_eq!((region.len(), pages.len()), (4096, 64));
}
