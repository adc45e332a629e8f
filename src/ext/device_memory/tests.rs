//! Memory whose bytes the processor cannot access, on the loopback device.

use std::os::fd::OwnedFd;

use crate::device::DeviceMemory;
use crate::ext::device_memory::{Dm, DmaBuf};
use crate::loopback::{self, Fabric, Fault, Pair, Personality, Script};
use crate::memory::{MapOptions, OpenBuf};
use crate::prelude::*;

profile! { Mixed { entry: AnyBuf } }

/// The personalities that support it.
fn able() -> impl Iterator<Item = Personality> {
    [Personality::Plain, Personality::Mlx5].into_iter().chain((0..4).map(Personality::worst))
}

fn dm(context: &Context, len: usize) -> Dm {
    let can = context.abilities().unwrap().can::<DeviceMemory>().unwrap();
    context.alloc_dm(&can, len, 3).unwrap()
}

/// Posts a piece as the destination of a READ, and as the source of a WRITE and a SEND, between 8
/// bytes of the region and a table at the peer.
fn all_that_a_piece_is_for(pair: &mut Pair<Mixed>, piece: impl Fn() -> OpenBuf) {
    let Pair { pd, a, b, cq, pool, .. } = pair;
    let table = pd.register::<RemoteAll>(64).unwrap();
    table.write_at(8, b"at_first").unwrap();
    let at = |offset| table.remote().slice(offset, 8).unwrap();
    b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    a.post_send(wr::RdmaRead::new(piece(), at(8).read())).unwrap();
    loopback::poll(cq, 1).unwrap();
    a.post_send(wr::RdmaWrite::new(piece(), at(24).write())).unwrap();
    loopback::poll(cq, 1).unwrap();
    a.post_send(wr::Send::new(piece())).unwrap();
    let done = loopback::poll(cq, 2).unwrap().into_iter().flatten();
    let received = done.filter_map(AnyBuf::into_buf).next().unwrap();
    assert!(received.starts_with(b"at_first"));
    let mut bytes = [0; 8];
    table.read_at(24, &mut bytes).unwrap();
    assert_eq!(bytes, *b"at_first");
}

/// A peer writes, reads and adds at the offsets 0 and 8.
fn all_that_a_peer_does(pair: &mut Pair<Mixed>, at: RemoteSlice<RemoteAll>) {
    let Pair { a, cq, pool, .. } = pair;
    a.post_send(wr::RdmaWrite::inline(b"a peer's", at.write())).unwrap();
    loopback::poll(cq, 1).unwrap();
    a.post_send(wr::RdmaRead::new(pool.take().unwrap(), at.slice(2, 6).unwrap().read())).unwrap();
    let read = loopback::poll(cq, 1).unwrap().remove(0).and_then(AnyBuf::into_buf).unwrap();
    assert_eq!(&read[..], b"peer's");
    a.post_send(wr::FetchAndAdd::new(pool.take().unwrap(), at.atomic(8).unwrap(), 3)).unwrap();
    loopback::poll(cq, 1).unwrap();
    // A byte beyond it is not accessible.
    let beyond = RemoteSlice::<RemoteAll>::from_parts(at.addr() + at.len() - 7, 8, at.rkey());
    a.post_send(wr::RdmaRead::new(pool.take().unwrap(), beyond.read())).unwrap();
    assert!(loopback::poll(cq, 1).is_err());
}

/// Proves R6.14, R18.13.
#[test]
fn memory_of_the_devices_own() {
    for personality in able() {
        let mut pair = loopback::pair_on::<Mixed>(Fabric::with(personality)).unwrap();
        let memory = dm(&pair.context, 32);
        assert_eq!((memory.len(), memory.is_empty()), (32, false));
        memory.memcpy_to_dm(0, &[0; 32]).unwrap();
        let region = pair.pd.register_dm::<RemoteAll>(memory).unwrap();
        assert_eq!((region.len(), region.remote().addr()), (32, 0));
        all_that_a_piece_is_for(&mut pair, || region.piece(24, 8).unwrap());
        all_that_a_peer_does(&mut pair, region.remote());
        // While the device owns it, it cannot be destroyed.
        let piece = region.piece(0, 4).unwrap();
        let region = region.destroy().unwrap_err().into_object();
        drop(piece);
        let memory: Dm = region.destroy().unwrap();
        let mut bytes = [0; 32];
        memory.memcpy_from_dm(0, &mut bytes).unwrap();
        assert_eq!((&bytes[..8], bytes[8], &bytes[24..]), (&b"a peer's"[..], 3, &b"at_first"[..]));
        memory.destroy().unwrap();
    }
}

/// Proves R18.14, R18.16.
#[test]
fn memory_of_a_device_is_bounded_and_its_copies_are_checked() {
    let fabric = Fabric::new();
    let context = fabric.open_device();
    let most = context.query_device_ex().unwrap().max_dm_size as usize;
    let can = context.abilities().unwrap().can::<DeviceMemory>().unwrap();
    let all = context.alloc_dm(&can, most, 0).unwrap();
    let error = context.alloc_dm(&can, 1, 0).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ENOMEM), "{error}");
    let error = context.alloc_dm(&can, most + 1, 0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
    assert_eq!(context.alloc_dm(&can, 0, 0).unwrap_err().errno(), Some(libc::EINVAL));
    for (offset, len) in [(most, 1), (most - 1, 2), (usize::MAX, 1), (1, most)] {
        let error = all.memcpy_to_dm(offset, &vec![0; len]).unwrap_err();
        let (what, asked) = ("end of the range", offset.saturating_add(len) as u64);
        assert_eq!(*error.kind(), ErrorKind::Limit { what, asked, max: most as u64 });
        all.memcpy_from_dm(offset, &mut vec![0; len]).unwrap_err();
    }
    all.memcpy_to_dm(most, &[]).unwrap();
    // A proof belongs to one context, and so does a domain.
    let other = fabric.open_device();
    let error = other.alloc_dm(&can, 8, 0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ContextMismatch { .. }), "{error}");
    let refused = other.alloc_pd().unwrap().register_dm::<RemoteRead>(all).unwrap_err();
    assert!(matches!(refused.error.kind(), ErrorKind::ContextMismatch { .. }), "{refused}");
    drop(refused);
    context.alloc_dm(&can, most, 0).unwrap(); // it was freed
    assert!(
        Fabric::with(Personality::Rxe)
            .open_device()
            .abilities()
            .unwrap()
            .can::<DeviceMemory>()
            .is_none()
    );
}

/// Proves R18.16.
#[test]
fn a_device_may_copy_words_only() {
    let context = Fabric::with(Personality::Mlx5).open_device();
    let memory = dm(&context, 8);
    let error = memory.memcpy_to_dm(2, &[0; 4]).unwrap_err().to_string();
    assert!(
        error.ends_with("(4 bytes at offset 2; some devices copy whole words of 4 bytes)"),
        "{error}"
    );
    memory.memcpy_from_dm(4, &mut [0; 3]).unwrap_err();
    let memory = dm(&Fabric::new().open_device(), 8);
    memory.memcpy_to_dm(3, b"abc").unwrap();
    let mut there = [0; 3];
    memory.memcpy_from_dm(3, &mut there).unwrap();
    assert_eq!(&there, b"abc");
}

/// Memory, region, domain and context are dropped in any order, and an object that the device
/// refuses to destroy stays.
/// Proves R18.15.
#[test]
fn device_memory_stays_while_it_is_registered() {
    let fabric = Fabric::new();
    let context = fabric.open_device();
    let pd = context.alloc_pd().unwrap();
    let region = pd.register_dm::<RemoteRead>(dm(&context, 8)).unwrap();
    let piece = region.piece(0, 8).unwrap();
    drop((region, pd));
    let context = context.destroy().unwrap_err().into_object();
    drop(piece);
    let memory = dm(&context, 8);
    let context = context.destroy().unwrap_err().into_object();
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    let memory = memory.destroy().unwrap_err().into_object();
    memory.destroy().unwrap();
    context.destroy().unwrap();
}

fn part(fd: OwnedFd, offset: u64, len: usize, iova: u64) -> DmaBuf {
    DmaBuf { fd, offset, len, iova }
}

/// Proves R18.13.
#[test]
#[cfg_attr(miri, ignore = "maps files, which Miri does not support")]
fn memory_behind_a_descriptor() {
    for personality in able() {
        let mut pair = loopback::pair_on::<Mixed>(Fabric::with(personality)).unwrap();
        let (gpu, fd) = MapOptions::new().memfd("a GPU's", 3 * 4096).unwrap();
        let dmabuf = part(fd, 4096 + 16, 4096, 0x7000_0010);
        let region = pair.pd.register_dmabuf::<RemoteAll>(dmabuf).unwrap();
        assert_eq!((region.len(), region.remote().addr()), (4096, 0x7000_0010));
        all_that_a_piece_is_for(&mut pair, || region.piece(4088, 8).unwrap());
        all_that_a_peer_does(&mut pair, region.remote());
        let dmabuf = region.destroy().unwrap();
        assert_eq!((dmabuf.offset, dmabuf.len, dmabuf.iova), (4112, 4096, 0x7000_0010));
        let (mut first, mut last) = ([0; 24], [0; 9]);
        gpu.read_at(4112 - 8, &mut first).unwrap();
        gpu.read_at(4112 + 4088 - 1, &mut last).unwrap();
        assert_eq!((&first[8..16], first[16], first[7]), (&b"a peer's"[..], 3, 0));
        assert_eq!(&last, b"\0at_first");
    }
}

/// The region keeps the memory: the descriptor may be closed, and its number may be reused.
#[test]
#[cfg_attr(miri, ignore = "maps files, which Miri does not support")]
fn a_region_outlives_its_descriptor() {
    let Pair { pd, mut a, b: _b, mut cq, .. } = loopback::pair().unwrap();
    let (gpu, fd) = MapOptions::new().memfd("a GPU's", 4096).unwrap();
    let other = fd.try_clone().unwrap();
    let whole = pd.register_dmabuf::<RemoteWrite>(part(fd, 0, 4096, 0)).unwrap();
    let half = pd.register_dmabuf::<RemoteWrite>(part(other, 0, 2048, 0)).unwrap();
    drop(half.destroy().unwrap()); // closed
    a.post_send(wr::RdmaWrite::inline(b"there", whole.remote().write())).unwrap();
    loopback::poll(&mut cq, 1).unwrap();
    let mut there = [0; 5];
    gpu.read_at(0, &mut there).unwrap();
    assert_eq!(&there, b"there");
}

/// Proves R18.12.
#[test]
#[cfg_attr(miri, ignore = "maps files, which Miri does not support")]
fn what_is_no_dma_buf_comes_back() {
    let pd = loopback::pair().unwrap().pd;
    let memfd = |len| MapOptions::new().memfd("a GPU's", len).unwrap().1;
    let refused = |dmabuf, errno| {
        let refused = pd.register_dmabuf::<RemoteRead>(dmabuf).unwrap_err();
        assert_eq!(refused.error.errno(), Some(errno), "{refused}");
        refused.to_string()
    };
    let file = |name| std::fs::File::open(name).unwrap().into();
    // Beyond its end, by a byte and by the largest number.
    refused(part(memfd(4096), 0, 4097, 0), libc::EINVAL);
    refused(part(memfd(4096), 4096, 1, 0), libc::EINVAL);
    let text = refused(part(memfd(4096), 1 << 60, 1, 0), libc::EINVAL);
    assert!(
        text.ends_with("; the range exceeds the dma-buf, or the descriptor is not a dma-buf)"),
        "{text}"
    );
    let text = refused(part(memfd(4096), 8, 8, 16), libc::EINVAL);
    assert!(
        text.ends_with("; offset and iova differ modulo the page size of 4096 bytes)"),
        "{text}"
    );
    refused(part(memfd(4096), 0, 0, 0), libc::EINVAL);
    // Up to the last possible byte, which the device refuses, and one beyond.
    let text = refused(part(memfd(8192), 0, 4096, !4095), libc::EINVAL);
    assert!(!text.contains("address space"), "{text}");
    for (offset, iova) in [(1, !4094), (!4095, 0)] {
        let text = refused(part(memfd(8192), offset, 4096, iova), libc::EINVAL);
        assert!(text.ends_with("; it ends past the end of the address space)"), "{text}");
    }
    // Not dma-bufs: a file that may shrink, a directory, a pipe, a device.
    for name in ["/proc/self/exe", "/", "/dev/null", "/dev/zero"] {
        refused(part(file(name), 0, 1, 0), libc::EINVAL);
    }
    refused(part(std::io::pipe().unwrap().1.into(), 0, 1, 0), libc::EINVAL);
    let fabric = Fabric::with(Personality::Rxe);
    let pd = fabric.open_device().alloc_pd().unwrap();
    let error = pd.register_dmabuf::<RemoteRead>(part(memfd(8), 0, 8, 0)).unwrap_err().error;
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
}
