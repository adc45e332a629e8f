//! The strict form, for a device whose provider is not known to keep its promises
//! (`docs/providers.md`). A stub reports such a provider; the device under test is not involved.

use proverbs::ErrorKind;
use proverbs::device::Provider;
use proverbs::loopback::{Fabric, Fault, Script, World};
use proverbs::memory::ReregError;
use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective } }
profile! { WritingRing { signaling: Selective, initiator: NoReads } }

fn device(provider: Provider) -> Device {
    let world = World::ipv4().provider(provider).personality(Device::personality());
    Device::loopback(&Fabric::with(world))
}

fn is_refused(error: &proverbs::Error, words: &[&str]) {
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
    let text = error.to_string();
    for words in words {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_context_reports_its_provider() {
    for provider in [Provider::Unknown, Provider::Mlx5, Provider::Siw] {
        assert_eq!(device(provider).ctx.provider(), provider);
    }
    assert_eq!(Provider::Unknown.to_string(), "an unknown provider");
    let dev = Device::open();
    match dev.kind {
        Kind::Rxe => assert_eq!(dev.ctx.provider(), Provider::Rxe),
        Kind::Siw => assert_eq!(dev.ctx.provider(), Provider::Siw),
        Kind::Loopback => assert_eq!(dev.ctx.provider() == Provider::Siw, dev.is_iwarp()),
        Kind::Hardware => println!("{}", dev.ctx.provider()),
    }
}

#[test]
fn a_ring_is_rejected_where_completions_may_not_cover_unsignaled_sends() {
    let depth = Depth { send: 4, recv: 4 };
    for (provider, is_trusted) in [(Provider::Unknown, false), (Provider::Mlx5, true)] {
        let ctx = device(provider).ctx;
        let (pd, cq) = (ctx.alloc_pd().unwrap(), ctx.create_cq(40).unwrap());
        let rings = [
            pd.create_qp::<Rc, Ring>(&cq, &cq, depth).map(drop),
            pd.create_qp::<Rc, WritingRing>(&cq, &cq, depth).map(drop),
            pd.create_qp::<Uc, WritingRing>(&cq, &cq, depth).map(drop),
        ];
        for made in rings {
            assert_eq!(made.is_ok(), is_trusted);
            let words = ["has an unknown provider", "unsignaled sends", "`signaling: SignalAll`"];
            made.err().iter().for_each(|error| is_refused(error, &words));
        }
        assert_eq!(cq.unbooked(), cq.capacity());
        pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    }
}

/// Memory that peers could reach is not returned, whatever rights the region has by then.
#[test]
fn a_region_that_peers_could_reach_keeps_its_memory() {
    let pd = device(Provider::Unknown).ctx.alloc_pd().unwrap();
    let words = ["uses an unknown provider", "64 bytes", "after deregistration", "drop the region"];
    let region = pd.region::<RemoteRead>().create_in(vec![7u8; 64]).unwrap();
    let (region, error) = region.destroy().unwrap_err().into_parts();
    is_refused(&error, &words);
    // It is unchanged.
    let mut bytes = [0; 64];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 64]);
    let ReregError::Unchanged(refused) = region.rereg_memory(vec![8u8; 64]).unwrap_err() else {
        panic!("nothing was changed")
    };
    let ((region, other), error) = refused.into_parts();
    is_refused(&error, &words);
    assert_eq!(other, [8; 64]);
    if let Ok(region) = region.rereg_access::<LocalWrite>() {
        is_refused(&region.destroy().unwrap_err().error, &words);
    }
    // The same holds for pages of this crate, and for memory that a window could open.
    let pages = pd.register::<RemoteWrite>(64).unwrap();
    is_refused(&pages.destroy().unwrap_err().error, &words);
    let windowed = pd.register::<proverbs::ext::windows::Windowed<LocalWrite>>(64).unwrap();
    is_refused(&windowed.destroy().unwrap_err().error, &words);
}

/// Memory that no peer could reach is returned: only work requests accessed it.
#[test]
fn an_unknown_provider_returns_local_memory() {
    let pd = device(Provider::Unknown).ctx.alloc_pd().unwrap();
    let local = pd.region::<LocalWrite>().create_in(vec![7u8; 64]).unwrap();
    assert_eq!(local.destroy().unwrap(), [7; 64]);
    let pool = pd.pool(8).create_in(vec![7u8; 64]).unwrap();
    assert_eq!(pool.destroy().unwrap().len(), 64);
}

/// A region of each kind of memory works, and can be dropped.
#[test]
#[cfg_attr(miri, ignore = "leaks memory on purpose")]
fn regions_are_dropped_while_peers_may_still_reach_them() {
    let dev = device(Provider::Unknown);
    let mut p = Pair::<Rc>::on(dev, &Wish::new());
    for _ in 0..3 {
        let pages = p.pd.register::<RemoteWrite>(3 * 4096 + 8).unwrap();
        let vector = p.pd.region::<RemoteWrite>().create_in(vec![0u8; 8]).unwrap();
        for to in [pages.remote().slice(3 * 4096, 8).unwrap(), vector.remote()] {
            p.a.post_send(wr::RdmaWrite::inline(b"8 bytes!", to.write())).unwrap();
            drop(poll(&p.dev, &mut p.ca, 1).remove(0).sent());
        }
        arrives(&p.dev, b"8 bytes!", |now| pages.read_at(3 * 4096, now).unwrap());
        drop((pages, vector));
    }
}

/// A WRITE of 8 bytes from a pair's first queue pair to its second.
fn write(p: &mut Pair<Rc>, bytes: &[u8; 8], to: RemoteSlice<RemoteWrite>) {
    p.a.post_send(wr::RdmaWrite::inline(bytes, to.write())).unwrap();
    drop(poll(&p.dev, &mut p.ca, 1).remove(0).sent());
}

/// Soft-RoCE's deregistration waits for a peer's request, but returns 0 after some time even if the
/// request continues. Memory that the request may still write is not returned, and the returned
/// region has no key.
#[test]
#[cfg_attr(miri, ignore = "leaks memory on purpose, and reads the kernel's release")]
fn memory_is_not_returned_if_deregistration_gave_up() {
    let fabric = Fabric::with(World::ipv4().provider(Provider::Rxe));
    let mut p = Pair::<Rc>::on(Device::loopback(&fabric), &Wish::new());
    let quick = p.pd.region::<RemoteWrite>().create_in(vec![7u8; 8]).unwrap();
    write(&mut p, b"in time!", quick.remote());
    assert_eq!(quick.destroy().unwrap(), b"in time!");

    fabric.inject(Script::default().with(Fault::GivesUp.always()));
    let region = p.pd.region::<RemoteWrite>().create_in(vec![7u8; 8]).unwrap();
    let key = region.remote();
    let (region, error) = match region.destroy() {
        Ok(bytes) => {
            let before = bytes.clone();
            write(&mut p, b"too late", key);
            panic!("the memory came back with {before:?}, and a peer changed it to {bytes:?}");
        }
        Err(refused) => refused.into_parts(),
    };
    assert_eq!(error.errno(), Some(libc::ETIMEDOUT), "{error}");
    for words in ["8 bytes", "rxe", "is not reused", "docs/providers.md"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    write(&mut p, b"too late", key);
    let mut bytes = [0; 8];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"too late");
    assert_eq!(region.remote().rkey(), 0, "it is no longer registered");
    // A second call returns the same, at once; and the memory outlives the region.
    let (region, error) = region.destroy().unwrap_err().into_parts();
    assert_eq!((error.errno(), fabric.injected().gives_up), (Some(libc::ETIMEDOUT), 1));
    drop(region);
    write(&mut p, b"later on", key);
    // Nor is the memory of a dropped region.
    let pages = p.pd.register::<RemoteWrite>(8).unwrap();
    let key = pages.remote();
    drop(pages);
    assert_eq!(fabric.injected().gives_up, 2);
    write(&mut p, b"later on", key);
    // Local work is not waited for: the crate keeps regions while work requests name them.
    let local = p.pd.region::<LocalWrite>().create_in(vec![7u8; 8]).unwrap();
    assert_eq!(local.destroy().unwrap(), [7; 8]);
}

/// A peer's request that began before the region lost its remote rights may continue, so its memory
/// is not returned either.
#[test]
#[cfg_attr(miri, ignore = "leaks memory on purpose, and reads the kernel's release")]
fn removed_rights_count_if_deregistration_gave_up() {
    let fabric = Fabric::with(World::ipv4().provider(Provider::Rxe));
    let p = Pair::<Rc>::on(Device::loopback(&fabric), &Wish::new());
    fabric.inject(Script::default().with(Fault::GivesUp.always()));
    let region = p.pd.region::<RemoteWrite>().create_in(vec![7u8; 8]).unwrap();
    let region = region.rereg_access::<LocalWrite>().unwrap();
    let (region, error) = region.destroy().unwrap_err().into_parts();
    assert_eq!((error.errno(), fabric.injected().gives_up), (Some(libc::ETIMEDOUT), 1), "{error}");
    // It is no longer registered, so it cannot change.
    let refused = region.rereg_access::<RemoteWrite>().unwrap_err();
    assert!(matches!(refused, ReregError::Unchanged(_)), "{refused}");
    assert!(refused.to_string().contains("given up waiting for a peer's request"), "{refused}");
    assert_eq!(fabric.injected().gives_up, 1);
}
