//! Memory outside the processor's: descriptors that are closed, duplicated, of another kind or
//! invalid; ranges beyond the memory; device memory of other objects; regions that change while
//! peers have a key.

#[cfg(not(miri))]
use std::fs::File;
#[cfg(not(miri))]
use std::os::fd::{AsRawFd, OwnedFd};

use proverbs::device::DeviceMemory;
use proverbs::ext::device_memory::Dm;
#[cfg(not(miri))]
use proverbs::ext::device_memory::DmaBuf;
use proverbs::loopback::{Fabric, Fault, Personality, Script};
#[cfg(not(miri))]
use proverbs::memory::MapOptions;
use proverbs::memory::{OpenBuf, ReregError};
use proverbs::prelude::*;

use crate::support::*;

profile! { Any { entry: AnyBuf } }

fn device_memory(context: &Context, len: usize) -> Option<Dm> {
    let can = context.abilities().unwrap().can::<DeviceMemory>()?;
    Some(context.alloc_dm(&can, len, 0).unwrap())
}

/// A registration stays, whatever happens to the descriptor and its number.
#[test]
#[cfg(not(miri))]
fn a_descriptor_whose_number_is_reused() {
    let proverbs::loopback::Pair { pd, mut a, b: _b, mut cq, .. } =
        proverbs::loopback::pair().unwrap();
    let (gpu, fd) = MapOptions::new().memfd("one", 4096).unwrap();
    let number = fd.as_raw_fd();
    let kept = fd.try_clone().unwrap();
    let region =
        pd.register_dmabuf::<RemoteWrite>(DmaBuf { fd, offset: 0, len: 4096, iova: 0 }).unwrap();
    let at = region.remote();
    let DmaBuf { fd, .. } = region.destroy().unwrap();
    drop(fd);
    let (other, again) = MapOptions::new().memfd("two", 4096).unwrap();
    println!("{number} was the first descriptor, {} is the second", again.as_raw_fd());
    let second = DmaBuf { fd: again, offset: 0, len: 4096, iova: 0 };
    let second = pd.register_dmabuf::<RemoteWrite>(second).unwrap();
    a.post_send(wr::RdmaWrite::inline(b"to the second", second.remote().write())).unwrap();
    proverbs::loopback::poll(&mut cq, 1).unwrap();
    // The first key gives no access, and the second key no access to the first file.
    a.post_send(wr::RdmaWrite::inline(b"to the first", at.write())).unwrap();
    assert!(proverbs::loopback::poll(&mut cq, 1).is_err());
    let (mut one, mut two) = ([0; 13], [0; 13]);
    gpu.read_at(0, &mut one).unwrap();
    other.read_at(0, &mut two).unwrap();
    assert_eq!((&one, &two), (&[0; 13], b"to the second"));
    drop(kept);
}

/// The device does not accept a file that can shrink, and a file that it accepted cannot.
#[test]
#[cfg(not(miri))]
fn a_file_that_shrinks_while_registered() {
    let dev = Device::loopback(&Device::fabric());
    let pd = dev.ctx.alloc_pd().unwrap();
    let path = std::env::temp_dir().join(format!("proverbs-dmabuf-{}", std::process::id()));
    std::fs::write(&path, [0; 8192]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let fd: OwnedFd = file.into();
    let part = DmaBuf { fd, offset: 0, len: 8192, iova: 0 };
    pd.register_dmabuf::<RemoteWrite>(part).unwrap_err();
    let (_memory, fd) = MapOptions::new().memfd("sealed", 8192).unwrap();
    let file = File::from(fd.try_clone().unwrap());
    let region = pd.register_dmabuf::<RemoteWrite>(DmaBuf { fd, offset: 0, len: 8192, iova: 0 });
    file.set_len(0).unwrap_err();
    drop(region);
    file.set_len(0).unwrap_err();
}

/// A descriptor that was opened for reading grants no right to write.
#[test]
#[cfg(not(miri))]
fn a_descriptor_for_reading() {
    let dev = Device::loopback(&Device::fabric());
    let pd = dev.ctx.alloc_pd().unwrap();
    let (_memory, fd) = MapOptions::new().memfd("read", 4096).unwrap();
    let read_only = File::open(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
    let part = DmaBuf { fd: read_only.into(), offset: 0, len: 4096, iova: 0 };
    let refused = pd.register_dmabuf::<RemoteWrite>(part).unwrap_err();
    assert!(refused.error.errno().is_some(), "{refused}");
}

/// All boundary values: accepted ranges are inside the memory, and nothing else is accessed.
#[test]
#[cfg(not(miri))]
fn numbers_out_of_range() {
    let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair().unwrap();
    let (_memory, fd) = MapOptions::new().memfd("numbers", 8192).unwrap();
    let big = [0, 1, 8, 4095, 4096, 8191, 8192, 1 << 32, 1 << 52, u64::MAX - 4096, u64::MAX];
    let (mut taken, mut refused) = (0, 0);
    for offset in big {
        for len in big.map(|len| len as usize) {
            for iova in big {
                let fd = fd.try_clone().unwrap();
                match pd.register_dmabuf::<RemoteRead>(DmaBuf { fd, offset, len, iova }) {
                    Ok(region) => {
                        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= 8192);
                        assert!(fits && len > 0 && offset % 4096 == iova % 4096);
                        assert_eq!((region.len(), region.remote().addr()), (len, iova));
                        assert!(region.piece(len, 1).is_err() && region.piece(0, len).is_ok());
                        taken += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.into_object().iova, iova);
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(taken > 20 && refused > 1000, "{taken} and {refused}");
    // The device must reject the last page, which ends where the address space does.
    for (iova, who) in [(u64::MAX - 4095, "the dma-buf"), (u64::MAX - 4094, "the page size")] {
        let part = DmaBuf { fd: fd.try_clone().unwrap(), offset: 0, len: 4096, iova };
        let refused = pd.register_dmabuf::<RemoteRead>(part).unwrap_err();
        assert!(refused.to_string().contains(who), "{refused}");
    }
}

/// Device memory belongs to one context, and so does its proof. Its bounds are checked everywhere.
#[test]
fn device_memory_of_another_context() {
    let fabric = Device::fabric();
    let (dev, other) = (Device::loopback(&fabric), Device::loopback(&fabric));
    let Some(memory) = device_memory(&dev.ctx, 16) else { return };
    let refused = other.ctx.alloc_pd().unwrap().register_dm::<RemoteAll>(memory).unwrap_err();
    let text = "ibv_reg_dm_mr: the device memory and the protection domain belong to different contexts: create both from one";
    assert_eq!(refused.to_string(), text);
    let can = other.ctx.abilities().unwrap().can::<DeviceMemory>().unwrap();
    dev.ctx.alloc_dm(&can, 16, 0).unwrap_err();
    let pd = dev.ctx.alloc_pd().unwrap();
    let region = pd.register_dm::<RemoteAll>(refused.into_object()).unwrap();
    for (offset, len) in [(16, 4), (12, 8), (usize::MAX, 4), (usize::MAX - 3, 8), (0, 20)] {
        region.memcpy_to_dm(offset, &vec![0; len]).unwrap_err();
        region.memcpy_from_dm(offset, &mut vec![0; len]).unwrap_err();
        assert!(region.piece(offset, len).is_err());
    }
    // Two threads copy at once: each byte comes from one of them.
    std::thread::scope(|scope| {
        for byte in [1, 2] {
            let region = &region;
            scope.spawn(move || (0..50).for_each(|_| region.memcpy_to_dm(0, &[byte; 16]).unwrap()));
        }
    });
    let mut there = [0; 16];
    region.memcpy_from_dm(0, &mut there).unwrap();
    assert!(there.iter().all(|byte| [1, 2].contains(byte)), "{there:?}");
}

/// A key to a changed region gives access to the new memory within its rights, or to nothing; never
/// to the old memory.
#[test]
fn a_key_to_memory_that_was_returned() {
    let able =
        [Personality::Plain, Personality::Mlx5, Personality::worst(1), Personality::worst(2)];
    for personality in able {
        let dev = Device::loopback(&Fabric::with(personality));
        let mut p = Pair::<Rc, Any>::on(dev, &Wish::new());
        let region = p.pd.region::<RemoteWrite>().create_in(vec![7u8; 64]).unwrap();
        let told = region.remote();
        let Ok((region, old)) = region.rereg_memory::<Vec<u8>>(vec![8; 32]) else {
            panic!("{personality} changes regions")
        };
        p.a.post_send(wr::RdmaWrite::inline(b"late", told.write())).unwrap();
        let late = poll(&p.dev, &mut p.ca, 1).remove(0);
        assert!(matches!(late, Done::Failed(_)), "{personality}");
        assert_eq!((old, region.destroy().unwrap()), (vec![7; 64], vec![8; 32]));
    }
}

/// A device that fails in the middle keeps the memory that it may use; safe code drops and forgets
/// the rest.
#[test]
fn a_region_that_is_left_unusable() {
    for code in [-4, -5] {
        let fabric = Fabric::new();
        let pd = Device::loopback(&fabric).ctx.alloc_pd().unwrap();
        let mut left = Vec::new();
        for _ in 0..3 {
            fabric.inject(Script::default().with(Fault::Rereg { code }.nth(0)));
            let region = pd.region::<RemoteAll>().create_in(vec![0u8; 64]).unwrap();
            match region.rereg_memory(vec![1u8; 64].into_boxed_slice()) {
                Err(ReregError::Unusable(refused)) => left.push(refused.into_object()),
                other => panic!("{other:?}"),
            }
        }
        let (old, new) = left.pop().unwrap().destroy().unwrap();
        assert_eq!((old[0], new[0]), (0, 1));
        drop(left);
        pd.destroy().unwrap();
    }
}

profile! { Open { entry: OpenBuf } }

// If all sends are signaled, a provider may deliver the bytes of a short READ with its completion,
// and copy them to the element's address when it is polled. Device memory has no address in the
// program, so its READs request their completions individually (R18.18; the
/// loopback device checks this). Covers each way to post them, and the requests posted with them.
macro_rules! short_reads {
    ($profile:ty) => {{
        let mut p = Pair::<Rc, $profile>::on(Device::loopback(&Device::fabric()), &Wish::new());
        let Some(memory) = device_memory(&p.dev.ctx, 64) else { return };
        let sink = p.pd.register_dm::<LocalWrite>(memory).unwrap();
        let source = p.pd.register::<RemoteReadWrite>(64).unwrap();
        source.write_at(0, &[7; 64]).unwrap();
        let from = |len: usize| source.remote().slice(0, len as u64).unwrap().read();
        let read = |at, len| wr::RdmaRead::new(sink.piece(at, len).unwrap(), from(len));
        let inline = || wr::RdmaWrite::inline(&[8], source.remote().slice(63, 1).unwrap().write());
        p.a.post_send(read(0, 8)).unwrap();
        post_send!(p.a, [read(8, 4), inline(), read(12, 4)]).unwrap();
        let mut done = poll(&p.dev, &mut p.ca, 4);
        let mut slots = SendSlots::<5>::new();
        let mut list = p.a.send_list(&mut slots);
        list.push(read(16, 4)).unwrap();
        list.extend([inline(), inline()]).unwrap();
        list.extend([read(20, 4), read(24, 8)]).unwrap();
        list.post().unwrap();
        let mut prepared = wr::RdmaRead::new(wr::Placeholder, from(8)).prepare();
        p.a.post_prepared(&mut prepared, sink.piece(32, 8).unwrap()).unwrap();
        let mut prepared = inline().prepare();
        p.a.post_prepared_inline(&mut prepared).unwrap();
        done.extend(poll(&p.dev, &mut p.ca, 7));
        assert_eq!(done.into_iter().filter_map(|done| done.sent().entry).count(), 7);
        let mut read = [0; 40];
        sink.memcpy_from_dm(0, &mut read).unwrap();
        assert_eq!((read, p.a.sends_outstanding()), ([7; 40], 0));
    }};
}

/// Mlx5 never copies a short READ into a dma-buf or device memory by the CPU.
/// Proves R18.18.
#[test]
fn short_reads_into_device_memory() {
    short_reads!(Any);
    short_reads!(Open);
}

/// One prepared work request, posted unsignaled on one queue pair and then on another that signals
/// everything.
/// Proves R18.18.
#[test]
fn a_prepared_read_on_queue_pairs_with_different_signaling() {
    fails_on!(NoRings, "", Device::open().kind != Kind::Siw);
    profile! { Chosen { entry: AnyBuf, signaling: Selective } }
    let mut one = Pair::<Rc, Chosen>::on(Device::loopback(&Device::fabric()), &Wish::new());
    let mut two = Pair::<Rc, Any>::on(Device::loopback(&Device::fabric()), &Wish::new());
    let region = one.pd.register::<RemoteRead>(8).unwrap();
    let theirs = two.pd.register::<RemoteRead>(8).unwrap();
    let mut prepared = wr::RdmaRead::new(wr::Placeholder, region.remote().read()).prepare();
    let _later = one.a.post_prepared_unsignaled(&mut prepared, one.pool.take().unwrap()).unwrap();
    prepared.refill(wr::RdmaRead::new(wr::Placeholder, theirs.remote().read()));
    let _later = one.a.post_prepared_unsignaled(&mut prepared, one.pool.take().unwrap()).unwrap();
    two.a.post_prepared(&mut prepared, two.pool.take().unwrap()).unwrap();
    assert_eq!(poll(&two.dev, &mut two.ca, 1).len(), 1);
}
