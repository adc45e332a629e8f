//! Regions that change, or fail to.

use crate::counters::type_tag;
use crate::loopback::{self, Fabric, Fault, Pair, Personality, Script, World};
use crate::memory::header::Handle;
use crate::memory::{Pages, ReregError};
use crate::prelude::*;

/// The personalities that support the verb.
fn able() -> impl Iterator<Item = Personality> {
    [Personality::Plain, Personality::Mlx5].into_iter().chain((0..4).map(Personality::worst))
}

fn fails(fabric: &Fabric, code: i32) {
    fabric.inject(Script::default().with(Fault::Rereg { code }.nth(0)));
}

/// Proves R6.15.
#[test]
fn each_code_leaves_the_region_as_it_says() {
    for code in -5..0 {
        let Pair { pd, fabric, context, .. } = loopback::pair().unwrap();
        let register = || pd.region::<RemoteReadWrite>().create_in(vec![1u8; 64]).unwrap();
        fails(&fabric, code);
        let changed = register().rereg_access::<RemoteRead>();
        match (code, changed) {
            (-1 | -2, Err(ReregError::Unchanged(refused))) => {
                let text = refused.to_string();
                assert!(
                    text.contains("from RemoteReadWrite to RemoteRead; the region is unchanged")
                );
                let region: MemoryRegion<RemoteReadWrite, Vec<u8>> = refused.into_object();
                region.write_at(0, b"it").unwrap();
                assert_eq!(region.destroy().unwrap()[..3], *b"it\x01");
            }
            (-3, Ok(region)) => assert_eq!(region.destroy().unwrap(), [1; 64]),
            (-4 | -5, Err(ReregError::Unusable(refused))) => {
                let (region, error) = refused.into_parts();
                assert!(error.to_string().contains("; the region is unusable: deregister it"));
                assert_eq!(region.destroy().unwrap(), (vec![1; 64], ()));
            }
            (_, other) => panic!("{code}: {other:?}"),
        }
        fails(&fabric, code);
        let other = context.alloc_pd().unwrap();
        match (code, register().rereg_pd(&other)) {
            (-1 | -2, Err(ReregError::Unchanged(refused))) => {
                other.destroy().unwrap();
                refused.into_object().destroy().unwrap();
            }
            (-3, Ok(region)) => {
                let other = other.destroy().unwrap_err().into_object();
                region.destroy().unwrap();
                other.destroy().unwrap();
            }
            (-4 | -5, Err(ReregError::Unusable(refused))) => {
                // The device may already use it there.
                let other = other.destroy().unwrap_err().into_object();
                assert_eq!(refused.into_object().destroy().unwrap(), (vec![1; 64], ()));
                other.destroy().unwrap();
            }
            (_, other) => panic!("{code}: {other:?}"),
        }
        // With 0 bytes the device is not called, whatever it would return.
        fails(&fabric, code);
        let Err(ReregError::Unchanged(refused)) = register().rereg_memory(Vec::<u8>::new()) else {
            panic!("{code}: no bytes")
        };
        assert_eq!(refused.error.errno(), Some(libc::EINVAL));
        refused.into_object().0.destroy().unwrap();
        fails(&fabric, code);
        match (code, register().rereg_memory::<Box<[u64]>>(vec![2; 4].into())) {
            (-1 | -2, Err(ReregError::Unchanged(refused))) => {
                let (region, new) = refused.into_object();
                assert_eq!((region.destroy().unwrap(), new), (vec![1; 64], vec![2; 4].into()));
            }
            (-3, Ok((region, old))) => {
                assert_eq!((region.destroy().unwrap(), old), (vec![2; 4].into(), vec![1; 64]));
            }
            (-4 | -5, Err(ReregError::Unusable(refused))) => {
                assert_eq!(
                    refused.into_object().destroy().unwrap(),
                    (vec![1; 64], vec![2; 4].into())
                );
            }
            (_, other) => panic!("{code}: {other:?}"),
        }
    }
}

/// Memory whose drop can be seen.
#[derive(Debug)]
#[allow(dead_code)] // held, not read
struct Told(std::sync::Arc<()>, Box<[u8]>);
#[allow(unsafe_code)] // memory that reports when it is dropped
// SAFETY: the box owns the bytes.
unsafe impl crate::memory::Memory for Told {
    type Sharing = crate::memory::Private;
    type Protection = crate::memory::Writable;
    fn bytes(&mut self) -> std::ptr::NonNull<[u8]> {
        self.1.bytes()
    }
}

/// A region that peers could reach at any time keeps its memory when it is dropped, if the provider
/// does not promise that deregistration ends their access.
#[test]
#[cfg_attr(miri, ignore = "leaks memory on purpose")]
fn memory_that_peers_may_still_reach_is_not_dropped() {
    use crate::device::Provider;
    for (provider, leaks) in [(Provider::Unknown, 1), (Provider::Mlx5, 0)] {
        let world = World::ipv4().provider(provider).personality(Personality::Mlx5);
        let pd = Fabric::with(world).open_device().alloc_pd().unwrap();
        let kept = std::sync::Arc::new(());
        let told = || Told(kept.clone(), vec![0; 8].into());
        let leaked = || std::sync::Arc::strong_count(&kept) - 1;
        drop(pd.region::<LocalWrite>().create_in(told()).unwrap());
        assert_eq!(leaked(), 0, "{provider}");
        drop(pd.region::<RemoteRead>().create_in(told()).unwrap());
        assert_eq!(leaked(), leaks, "{provider}");
        let closed = pd.region::<RemoteRead>().create_in(told()).unwrap();
        drop(closed.rereg_access::<LocalWrite>().unwrap());
        assert_eq!(leaked(), 2 * leaks, "{provider}");
        let opened = pd.region::<LocalWrite>().create_in(told()).unwrap();
        drop(opened.rereg_access::<RemoteRead>().unwrap());
        assert_eq!(leaked(), 3 * leaks, "{provider}");
    }
}

/// If the device refuses to deregister a region in an unknown state, the region leaks, with all
/// memory that it may cover.
///
/// Memory that the device deregisters on the second try is freed.
/// Proves R6.15.
#[test]
fn an_unusable_region_leaks_if_it_is_not_deregistered() {
    let Pair { pd, fabric, .. } = loopback::pair().unwrap();
    let kept = std::sync::Arc::new(());
    let told = || Told(kept.clone(), vec![0; 8].into());
    let unusable = || {
        fails(&fabric, -4);
        match pd.region::<RemoteRead>().create_in(told()).unwrap().rereg_memory(told()) {
            Err(ReregError::Unusable(refused)) => refused.into_object(),
            other => panic!("{other:?}"),
        }
    };
    let region = unusable();
    assert_eq!(std::sync::Arc::strong_count(&kept), 3);
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    let region = region.destroy().unwrap_err().into_object();
    assert_eq!(std::sync::Arc::strong_count(&kept), 3);
    drop(region);
    assert_eq!(std::sync::Arc::strong_count(&kept), 1);
    let region = unusable();
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    drop(region);
    assert_eq!(std::sync::Arc::strong_count(&kept), 1, "it is deregistered on the second try");
    let region = unusable();
    fabric.inject(Script::default().with(Fault::Busy.always()));
    drop(region);
    assert_eq!(std::sync::Arc::strong_count(&kept), 3);
}

/// Proves R6.15.
#[test]
fn rights_are_taken_back_from_peers() {
    for personality in able() {
        let Pair { pd, mut a, b: _b, mut cq, pool, .. } =
            loopback::pair_on::<DefaultProfile>(Fabric::with(personality)).unwrap();
        let region = pd.register::<RemoteReadWrite>(64).unwrap();
        let told = region.remote();
        a.post_send(wr::RdmaWrite::inline(b"before", told.write())).unwrap();
        loopback::poll(&mut cq, 1).unwrap();
        let region: MemoryRegion<RemoteRead> = region.rereg_access().unwrap();
        // The rights that the new one grants work.
        a.post_send(wr::RdmaRead::new(
            pool.take().unwrap(),
            region.remote().slice(0, 6).unwrap().read(),
        ))
        .unwrap();
        let read = loopback::poll(&mut cq, 1).unwrap().remove(0).unwrap();
        assert_eq!(&read[..], b"before");
        a.post_send(wr::RdmaWrite::inline(b"after!", told.write())).unwrap();
        assert!(loopback::poll(&mut cq, 1).is_err(), "{personality:?}");
        let memory: Pages = region.destroy().unwrap();
        assert_eq!(&memory[..6], b"before");
    }
}

/// Proves R6.15.
#[test]
fn a_region_moves_to_other_memory_and_back() {
    for personality in able() {
        let Pair { pd, mut a, b: _b, mut cq, .. } =
            loopback::pair_on::<DefaultProfile>(Fabric::with(personality)).unwrap();
        let region = pd.region::<RemoteWrite>().create_in(vec![0u8; 16]).unwrap();
        let (region, old) = region.rereg_memory::<Box<[u64]>>(vec![0; 4].into()).unwrap();
        assert_eq!((region.len(), &old), (32, &vec![0; 16]));
        let at = region.remote().slice(16, 8).unwrap();
        a.post_send(wr::RdmaWrite::inline(b"8 bytes!", at.write())).unwrap();
        loopback::poll(&mut cq, 1).unwrap();
        let (region, words) = region.rereg_memory(old).unwrap();
        assert_eq!(words[2].to_ne_bytes(), *b"8 bytes!");
        drop(words); // it is not accessible any more
        let piece = region.piece(0, 8).unwrap();
        let Err(ReregError::Unchanged(refused)) = region.rereg_memory(vec![0u8; 1]) else {
            panic!("a piece exists")
        };
        assert_eq!(refused.error.errno(), Some(libc::EBUSY));
        drop(piece);
        let (region, new) = refused.into_object();
        assert_eq!(new, [0]);
        let Err(ReregError::Unchanged(refused)) = region.rereg_memory(Vec::<u8>::new()) else {
            panic!("no bytes")
        };
        assert_eq!(refused.error.errno(), Some(libc::EINVAL));
        refused.into_object().0.destroy().unwrap();
    }
}

/// Read-only and writable memory can replace each other for readers.
#[test]
fn read_only_memory_takes_the_place_of_other() {
    let Pair { pd, .. } = loopback::pair().unwrap();
    let region = pd.region::<RemoteRead>().create_in(vec![0u8; 16]).unwrap();
    let (region, _) = region.rereg_memory(&b"in the text"[..]).unwrap();
    let mut read = [0; 4];
    region.read_at(7, &mut read).unwrap();
    assert_eq!(&read, b"text");
    let (region, text) = region.rereg_memory(vec![0u8; 4]).unwrap();
    region.write_at(1, b"abc").unwrap();
    let piece = region.piece(0, 4).unwrap();
    drop(piece);
    assert_eq!((region.destroy().unwrap(), text), (b"\0abc".to_vec(), &b"in the text"[..]));
}

/// Proves R6.15.
#[test]
fn a_region_goes_to_another_domain() {
    for personality in able() {
        let Pair { pd, mut a, b: _b, mut cq, pool, context, .. } =
            loopback::pair_on::<DefaultProfile>(Fabric::with(personality)).unwrap();
        let elsewhere = context.alloc_pd().unwrap();
        let region = elsewhere.register::<RemoteRead>(8).unwrap();
        // Only now can the queue pair and its peer access it.
        let region = region.rereg_pd(&pd).unwrap();
        elsewhere.destroy().unwrap();
        a.post_send(wr::RdmaRead::new(pool.take().unwrap(), region.remote().read())).unwrap();
        loopback::poll(&mut cq, 1).unwrap();
        // So can its pieces, because they belong to that domain.
        let piece = region.piece(0, 8).unwrap();
        let of = (piece.header().pd(), piece.header().type_tag());
        assert_eq!(of, (pd.id(), type_tag::of(pd.id(), type_tag::NO_POOL, 8)));
        drop(piece);
        let other = Fabric::new().open_device().alloc_pd().unwrap();
        let Err(ReregError::Unchanged(refused)) = region.rereg_pd(&other) else {
            panic!("another context")
        };
        assert!(matches!(refused.error.kind(), ErrorKind::ContextMismatch { .. }));
        refused.into_object().destroy().unwrap();
    }
}

/// Proves R18.17.
#[test]
fn a_device_without_the_verb_says_so() {
    let fabric = Fabric::with(Personality::Rxe);
    let pd = fabric.open_device().alloc_pd().unwrap();
    let region = pd.register::<RemoteWrite>(8).unwrap();
    let Err(ReregError::Unusable(refused)) = region.rereg_access::<LocalWrite>() else {
        panic!("Soft-RoCE of Linux 6.1 has no such verb")
    };
    let (region, error) = refused.into_parts();
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }));
    let text = error.to_string();
    assert!(text.contains("; loop0 does not support it: deregister the region"), "{text}");
    assert_eq!(region.destroy().unwrap().0.len(), 8);
}
