//! Registration with each set of rights, and windows on such regions: each pair is tried on the
//! device, and then the accesses by peers.
//!
//! The tables contain the expected results and the reasons. The kernel pins pages for writing if
//! one of the rights writes (`ib_access_writable` of include/rdma/ib_verbs.h): LOCAL_WRITE,
//! REMOTE_WRITE, REMOTE_ATOMIC, and MW_BIND, since a window may permit more than the region. The
//! types allow no such right for read-only memory, so no registration fails for it.

#[cfg(not(miri))]
use std::fs::File;
use std::sync::Arc;

use proverbs::completion::WcStatus;
use proverbs::ext::windows::{BindsTo, BindsWindows, Windowed};
#[cfg(not(miri))]
use proverbs::memory::MapOptions;
use proverbs::memory::{
    Access, LocalRead, Mapping, Memory, ReadOnly, ReadOnlyBuf, RegistersAs, Relaxed, Remote,
    ReregError,
};
use proverbs::prelude::*;

use crate::support::*;

profile! { Any { entry: AnyBuf } }

/// The result of a registration.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    Registers,
    /// The kernel pins it for writing whatever the rights, and a file that was opened for reading
    /// cannot be pinned so: `ib_umem_get` of drivers/infiniband/core/umem.c had FOLL_FORCE with
    /// FOLL_WRITE until Linux 6.2 removed it ("remove FOLL_FORCE usage"). So had `siw_umem_get` of
    /// drivers/infiniband/sw/siw/siw_mem.c.
    PinnedToWrite,
}

use Expected::{PinnedToWrite, Registers};

/// The access of peers by the key of a region or a window (ibv_reg_mr(3), ibv_bind_mw(3)).
#[derive(Clone, Copy)]
struct Grants {
    read: bool,
    write: bool,
    atomic: bool,
}

const NONE: Grants = Grants { read: false, write: false, atomic: false };
const READ: Grants = Grants { read: true, ..NONE };
const WRITE: Grants = Grants { write: true, ..NONE };
const ATOMIC: Grants = Grants { atomic: true, ..NONE };
const READ_WRITE: Grants = Grants { atomic: false, ..ALL };
const ALL: Grants = Grants { read: true, write: true, atomic: true };

static TABLE: [u64; 1024] = [7; 1024];

/// Registers memory and checks the expected result.
fn register<A: Access, M: Memory>(
    p: &Pair<Rc, Any>,
    cell: &str,
    memory: M,
    expected: Expected,
) -> Option<MemoryRegion<A, M>>
where
    M::Protection: RegistersAs<A>,
{
    let refuses = expected == PinnedToWrite
        && match p.dev.kind {
            Kind::Siw => linux() < (6, 2),
            _ => by_rule!(p.dev, "R18.6", loopback: false, rxe before (6, 2): true),
        };
    match p.pd.region::<A>().create_in::<M>(memory) {
        Ok(region) => {
            assert!(!refuses, "{cell}: it is registered");
            Some(region)
        }
        Err(refused) => {
            assert!(refuses, "{cell}: {}", refused.error);
            assert_eq!(refused.error.errno(), Some(14), "{cell}: {}", refused.error);
            None
        }
    }
}

/// Checks the second end's result for a READ, a WRITE and an atomic by this key. Each uses its own
/// pair, which `with` prepares, since a refusal ends the pair.
fn check_grants<K>(
    cell: &str,
    grants: Grants,
    mut with: impl FnMut(&mut Pair<Rc, Any>) -> Option<(RemoteSlice<RemoteAll>, K)>,
) {
    for (op, is_granted) in
        [("READ", grants.read), ("WRITE", grants.write), ("atomic", grants.atomic)]
    {
        let mut p = Pair::<Rc, Any>::new();
        if op == "atomic" && !p.dev.ctx.protocol(1).unwrap().has_atomics() {
            continue;
        }
        let Some((at, keep)) = with(&mut p) else { return };
        let part = at.slice(0, 8).unwrap();
        match op {
            "READ" => p.b.post_send(wr::RdmaRead::new(poisoned(&p.pool), part.read())).unwrap(),
            "WRITE" => p.b.post_send(wr::RdmaWrite::inline(b"8 bytes!", part.write())).unwrap(),
            _ => {
                let cell = at.atomic(0).unwrap();
                p.b.post_send(wr::FetchAndAdd::new(poisoned(&p.pool), cell, 1)).unwrap();
            }
        }
        let refused = match op {
            "WRITE" if p.dev.is_iwarp() => Ok(()), // R24.12
            _ => Err(WcStatus::RemAccess),
        };
        let expected = if is_granted { Ok(()) } else { refused };
        let mut said = None;
        until(&p.dev, cell, || {
            said = p.cb.poll_one().unwrap().map(|c| c.status().map_err(|error| error.status));
            said.is_some()
        });
        assert_eq!(said, Some(expected), "{cell}: {op}");
        drop(keep);
    }
}

/// The same key with all rights; the device decides whether it works.
fn forged<A: Remote>(slice: RemoteSlice<A>) -> RemoteSlice<RemoteAll> {
    RemoteSlice::from_parts(slice.addr(), slice.len(), slice.rkey())
}

/// Rows of memory, each with rights that have no key.
macro_rules! registers {
    ($($name:literal, $memory:expr => $($right:ty: $expected:ident),+;)+) => {$($({
        let cell = concat!($name, " with ", stringify!($right));
        let p = Pair::<Rc, Any>::new();
        drop(register::<$right, _>(&p, cell, $memory, $expected));
    })+)+};
}

/// Rows of memory, each with rights that have a key and what it grants.
macro_rules! grants {
    ($($name:literal, $memory:expr => $($right:ty: $expected:ident $grants:ident),+;)+) => {$($({
        let cell = concat!($name, " with ", stringify!($right));
        check_grants(cell, $grants, |p| {
            let region = register::<$right, _>(p, cell, $memory, $expected)?;
            Some((forged(region.remote()), region))
        });
    })+)+};
}

/// Writable memory has every right (ibv_reg_mr(3)), and a key grants exactly its rights.
#[test]
fn writable_memory() {
    fails_on!(Iwarp, "R24.4");
    registers! {
        "a vector", vec![0u64; 1024] =>
            LocalWrite: Registers, LocalRead: Registers, Relaxed<LocalWrite>: Registers,
            Windowed<LocalWrite>: Registers, Windowed<LocalRead>: Registers;
        "a mapping", Mapping::new(8192).unwrap() =>
            LocalWrite: Registers, LocalRead: Registers, Windowed<LocalWrite>: Registers;
    }
    grants! {
        "a vector", vec![0u64; 1024] =>
            RemoteRead: Registers READ, RemoteWrite: Registers WRITE,
            RemoteReadWrite: Registers READ_WRITE, RemoteAtomic: Registers ATOMIC,
            RemoteAll: Registers ALL, Relaxed<RemoteRead>: Registers READ,
            Relaxed<RemoteWrite>: Registers WRITE, Relaxed<RemoteReadWrite>: Registers READ_WRITE,
            Windowed<RemoteRead>: Registers READ, Windowed<RemoteAll>: Registers ALL,
            Windowed<Relaxed<RemoteWrite>>: Registers WRITE, Relaxed<RemoteAll>: Registers ALL;
        "a mapping", Mapping::new(8192).unwrap() =>
            RemoteRead: Registers READ, RemoteWrite: Registers WRITE, RemoteAll: Registers ALL,
            Relaxed<RemoteWrite>: Registers WRITE, Windowed<RemoteAll>: Registers ALL;
    }
}

/// A file that was opened for writing is writable memory.
#[test]
#[cfg(not(miri))]
fn writable_files() {
    fails_on!(Iwarp, "R24.4");
    let memory = || MapOptions::new().memfd("rights", 8192).unwrap().0;
    registers! {
        "a file", memory() =>
            LocalWrite: Registers, LocalRead: Registers, Windowed<LocalWrite>: Registers;
    }
    grants! {
        "a file", memory() =>
            RemoteRead: Registers READ, RemoteWrite: Registers WRITE, RemoteAtomic: Registers ATOMIC,
            RemoteAll: Registers ALL, Relaxed<RemoteRead>: Registers READ,
            Windowed<RemoteAll>: Registers ALL;
    }
}

/// Read-only memory has only the rights that do not write: none for peers, and remote read.
#[test]
fn read_only_memory() {
    let arc = || Arc::<[u64]>::from(vec![7; 1024]);
    registers! {
        "an Arc", arc() => LocalRead: Registers;
        "a static", &TABLE[..] => LocalRead: Registers;
    }
    grants! {
        "an Arc", arc() => RemoteRead: Registers READ, Relaxed<RemoteRead>: Registers READ;
        "a static", &TABLE[..] => RemoteRead: Registers READ, Relaxed<RemoteRead>: Registers READ;
    }
    assert_eq!(TABLE, [7; 1024]);
}

/// A file that was opened for reading, with some pages mapped.
#[cfg(not(miri))]
fn read_only_file(name: &str) -> proverbs::memory::SharedMapping<ReadOnly> {
    let path = format!("/dev/shm/proverbs-rights-{}-{name}", std::process::id());
    std::fs::write(&path, [7; 8192]).unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    MapOptions::new().file_read_only(&file, 0..8192).unwrap()
}

/// A file that was opened for reading has the same rights, if the kernel pins it.
#[test]
#[cfg(not(miri))]
fn read_only_files() {
    registers! {
        "a read-only file", read_only_file("mine") => LocalRead: PinnedToWrite;
    }
    grants! {
        "a read-only file", read_only_file("theirs") =>
            RemoteRead: PinnedToWrite READ, Relaxed<RemoteRead>: PinnedToWrite READ;
    }
}

/// Each right that a window may have, on each kind of region. The window's rights apply
/// (ibv_bind_mw(3)), even if the region's own key has fewer or more.
#[test]
fn windows_on_regions() {
    fn bound<R: BindsWindows, A: BindsTo<R>>(
        p: &mut Pair<Rc, Any>,
        cell: &str,
    ) -> Option<(RemoteSlice<RemoteAll>, impl Sized + use<R, A>)> {
        let region = p.pd.register::<R>(8192).unwrap();
        let window = p.a.alloc_mw().unwrap();
        p.a.post_send(ext::windows::BindMw::<A>::new(window, &region, 64..4096).unwrap()).unwrap();
        let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        let Some(AnyBuf::Window(window)) = sent.entry else { panic!("{cell}: no window") };
        let window = window.into_bound::<A>().unwrap();
        Some((forged(window.remote()), (window, region)))
    }
    macro_rules! binds {
        ($($region:ty => $($right:ty: $grants:ident),+;)+) => {$($({
            let cell = concat!("a window with ", stringify!($right), " on ", stringify!($region));
            check_grants(cell, $grants, |p| bound::<$region, $right>(p, cell));
        })+)+};
    }
    if Device::open().is_iwarp() {
        return println!("R24.6: iWARP of Linux has no windows");
    }
    binds! {
        Windowed<LocalWrite> =>
            RemoteRead: READ, RemoteWrite: WRITE, RemoteAtomic: ATOMIC, RemoteReadWrite: READ_WRITE,
            RemoteAll: ALL;
        Windowed<RemoteRead> =>
            RemoteRead: READ, RemoteWrite: WRITE, RemoteAtomic: ATOMIC, RemoteReadWrite: READ_WRITE,
            RemoteAll: ALL;
        Windowed<RemoteAll> => RemoteRead: READ, RemoteWrite: WRITE, RemoteAtomic: ATOMIC;
        Windowed<Relaxed<RemoteWrite>> =>
            RemoteRead: READ, RemoteWrite: WRITE, RemoteReadWrite: READ_WRITE,
            RemoteAtomic: ATOMIC;
    }
}

/// A SEND and a WRITE from a region in read-only memory without remote rights.
fn sends_and_writes<M: Memory<Protection = ReadOnly>>(memory: M, expected: Expected) {
    let mut p = Pair::<Rc, Any>::new();
    let Some(region) = register::<LocalRead, M>(&p, "a source", memory, expected) else { return };
    let theirs = p.pd.register::<RemoteWrite>(64).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let mut piece: ReadOnlyBuf = region.source(16, 8).unwrap();
    piece.set_id(5);
    p.a.post_send(wr::Send::new(piece.clone())).unwrap();
    p.a.post_send(wr::RdmaWrite::new(piece, theirs.remote().slice(8, 8).unwrap().write())).unwrap();
    for sent in poll(&p.dev, &mut p.ca, 2) {
        let Some(AnyBuf::ReadOnlyPiece(piece)) = sent.sent().entry else { panic!("its own entry") };
        assert_eq!((piece.len(), piece.id()), (8, 5));
    }
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    assert_eq!(&got.data()[..], &7u64.to_ne_bytes());
    let mut there = [0; 24];
    theirs.read_at(0, &mut there).unwrap();
    assert_eq!(there[8..16], 7u64.to_ne_bytes());
    assert_eq!((&there[..8], &there[16..]), (&[0; 8][..], &[0; 8][..]));
    assert!(region.source(8185, 8).is_err());
    let piece = region.source(0, 8192).unwrap();
    let region = region.destroy().map(drop).unwrap_err().into_object();
    drop(piece);
    region.destroy().map(drop).map_err(|refused| refused.error).unwrap();
}

/// Read-only memory is a source of SENDs and WRITEs, without a right for peers.
#[test]
fn read_only_memory_is_a_source() {
    sends_and_writes(Arc::<[u64]>::from(vec![7; 1024]), Registers);
    sends_and_writes(&TABLE[..], Registers);
}

/// So is a file that was opened for reading.
#[test]
#[cfg(not(miri))]
fn a_read_only_file_is_a_source() {
    let path = format!("/dev/shm/proverbs-rights-{}-source", std::process::id());
    let bytes: Vec<u8> = TABLE.iter().flat_map(|word| word.to_ne_bytes()).collect();
    std::fs::write(&path, bytes).unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    sends_and_writes(MapOptions::new().file_read_only(&file, 0..8192).unwrap(), PinnedToWrite);
}

/// The peers' read right is removed, and the memory is still a source.
#[test]
fn rights_on_read_only_memory_can_be_removed() {
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.region::<RemoteRead>().create_in(&TABLE[..]).unwrap();
    let told = region.remote();
    let region = match region.rereg_access::<LocalRead>() {
        Ok(region) => region,
        // Soft-RoCE's provider has no ibv_rereg_mr (R6.15).
        Err(ReregError::Unusable(refused)) => {
            assert!(p.dev.is_soft_roce() || p.dev.is_iwarp(), "{}", refused.error);
            assert!(matches!(refused.error.kind(), proverbs::ErrorKind::Unsupported { .. }));
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(!p.dev.is_soft_roce());
    let theirs = p.pd.register::<RemoteWrite>(64).unwrap();
    let piece = region.source(0, 8).unwrap();
    assert_eq!((piece.len(), piece.is_empty()), (8, false));
    p.a.post_send(wr::RdmaWrite::new(piece, theirs.remote().write())).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    p.b.post_send(wr::RdmaRead::new(poisoned(&p.pool), told.slice(0, 8).unwrap().read())).unwrap();
    let refused = poll(&p.dev, &mut p.cb, 1).remove(0);
    refused.failed(proverbs::completion::Direction::Send, WcStatus::RemAccess);
}
