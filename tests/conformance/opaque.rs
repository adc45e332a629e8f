//! Memory that the program accesses while devices do: opaque regions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proverbs::completion::WcOpcode;
#[cfg(not(miri))]
use proverbs::ext::device_memory::DmaBuf;
use proverbs::ext::windows::{BindMw, Windowed};
#[cfg(not(miri))]
use proverbs::loopback::Personality;
#[cfg(not(miri))]
use proverbs::memory::MapOptions;
use proverbs::memory::{Access, LocalRead, OpenBuf};
use proverbs::prelude::*;

use self::words::{Words, register, words};
#[cfg(not(miri))]
use self::words::{dma_buf_of, register_file};
use crate::support::*;

profile! { Any { entry: AnyBuf } }

/// The program's allocation; the only unsafe code here.
#[allow(unsafe_code)]
mod words {
    use super::*;
    use proverbs::memory::{Opaque, ReadOnly, RegistersAs};
    #[cfg(not(miri))]
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::ptr::NonNull;

    /// Words that the program and devices access at any time, always with atomics.
    pub type Words = Arc<[AtomicU64]>;

    pub fn words(count: usize) -> Words {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    /// A keeper of words, and a value that shows whether it was dropped.
    pub type Kept = (Words, Arc<()>);

    /// The words from `first` on, as a region.
    pub fn register<A: Access>(
        pd: &ProtectionDomain,
        words: &Words,
        first: usize,
        token: &Arc<()>,
    ) -> MemoryRegion<A, Opaque<Kept>> {
        let part = &words[first..];
        let keeper = (words.clone(), token.clone());
        // SAFETY: the words live in the keeper, and all code accesses them with 8-byte atomics.
        let region =
            unsafe { pd.region().opaque(NonNull::from(part).cast(), 8 * part.len(), keeper) };
        region.map_err(|refused| refused.error).unwrap()
    }

    /// The same, but no device may write it.
    pub fn register_read_only<A: Access>(
        pd: &ProtectionDomain,
        words: &Words,
    ) -> MemoryRegion<A, Opaque<Words, ReadOnly>>
    where
        ReadOnly: RegistersAs<A>,
    {
        let base = NonNull::from(&words[..]).cast();
        // SAFETY: the words live in the keeper, and no code changes them while they are registered.
        let region = unsafe { pd.region().opaque_read_only(base, 8 * words.len(), words.clone()) };
        region.map_err(|refused| refused.error).unwrap()
    }

    /// Unmaps the memory that the program mapped.
    #[cfg(not(miri))]
    pub struct Mapping(NonNull<u8>, usize);

    // SAFETY: it is only unmapped, which any thread may do.
    #[cfg(not(miri))]
    unsafe impl Send for Mapping {}

    #[cfg(not(miri))]
    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: it is mapped, and no other code unmaps it.
            assert_eq!(unsafe { libc::munmap(self.0.as_ptr().cast(), self.1) }, 0);
        }
    }

    /// A file as a region, mapped as a C program maps it.
    #[cfg(not(miri))]
    pub fn register_file<A: Access>(
        pd: &ProtectionDomain,
        file: &OwnedFd,
        len: usize,
    ) -> MemoryRegion<A, Opaque<Mapping>> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let (flags, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a new mapping.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, 0) };
        assert_ne!(base, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let base = NonNull::new(base).unwrap().cast();
        // SAFETY: the keeper unmaps it, and all code here accesses it with atomics.
        let region = unsafe { pd.region().opaque(base, len, Mapping(base, len)) };
        region.map_err(|refused| refused.error).unwrap()
    }

    /// The whole pages of a sealed memfd as a dma-buf, if this kernel exports them.
    #[cfg(not(miri))]
    pub fn dma_buf_of(memfd: &OwnedFd, size: u64) -> Option<OwnedFd> {
        #[repr(C)]
        struct UdmabufCreate {
            memfd: u32,
            flags: u32,
            offset: u64,
            size: u64,
        }
        /// From linux/udmabuf.h.
        const UDMABUF_CREATE: libc::Ioctl = 0x4018_7542_u32 as libc::Ioctl;
        let device = std::fs::File::options().read(true).write(true).open("/dev/udmabuf").ok()?;
        let asked = UdmabufCreate { memfd: memfd.as_raw_fd() as u32, flags: 1, offset: 0, size };
        // SAFETY: udmabuf reads this struct.
        let fd = unsafe { libc::ioctl(device.as_raw_fd(), UDMABUF_CREATE, &asked) };
        assert!(fd >= 0, "UDMABUF_CREATE: {}", std::io::Error::last_os_error());
        // SAFETY: it is new.
        Some(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// A number in a buffer, as a peer writes it.
fn word(pool: &Pool, value: u64) -> Buf {
    filled(pool, &value.to_ne_bytes())
}

fn load(words: &Words, at: usize) -> u64 {
    words[at].load(Ordering::Relaxed)
}

/// One allocation of the program in overlapping regions of two contexts. All of them are written
/// and read while the program counts in it.
/// Proves R18.44.
#[test]
fn one_allocation_on_two_devices_while_the_program_uses_it() {
    fails_on!(KeptRegions);
    let words = words(512);
    let token = Arc::new(());
    let (mut p, mut q) = (Pair::<Rc, Any>::new(), Pair::<Rc, Any>::new());
    let whole = register::<RemoteReadWrite>(&p.pd, &words, 0, &token);
    let again = register::<RemoteReadWrite>(&p.pd, &words, 0, &token);
    let rest = register::<RemoteReadWrite>(&q.pd, &words, 8, &token);
    assert_eq!(whole.as_ptr(), again.as_ptr());
    assert_eq!(rest.as_ptr(), whole.as_ptr().wrapping_add(64));
    let rounds = if cfg!(miri) { 2 } else { 50 };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counter = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) || count == 0 {
                words[500].fetch_add(1, Ordering::Relaxed);
                assert!(load(&words, 10) <= rounds);
                count += 1;
                std::thread::yield_now();
            }
            count
        });
        for round in 1..=rounds {
            // A write through one device is visible to the program and through the others.
            let there = whole.remote().slice(80, 8).unwrap();
            p.a.post_send(wr::RdmaWrite::new(word(&p.pool, round), there.write())).unwrap();
            poll(&p.dev, &mut p.ca, 1).remove(0).sent();
            until(&p.dev, "the write", || load(&words, 10) == round);
            let there = again.remote().slice(80, 8).unwrap();
            p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), there.read())).unwrap();
            let there = rest.remote().slice(16, 8).unwrap();
            q.a.post_send(wr::RdmaRead::new(poisoned(&q.pool), there.read())).unwrap();
            let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
            holds(read.into_buf().unwrap(), &round.to_ne_bytes());
            let read = poll(&q.dev, &mut q.ca, 1).remove(0).sent().entry.unwrap();
            holds(read.into_buf().unwrap(), &round.to_ne_bytes());
            // A write by the program is read through the other device.
            words[20].store(round, Ordering::Release);
            let there = rest.remote().slice(8 * 12, 8).unwrap();
            q.a.post_send(wr::RdmaRead::new(poisoned(&q.pool), there.read())).unwrap();
            let read = poll(&q.dev, &mut q.ca, 1).remove(0).sent().entry.unwrap();
            holds(read.into_buf().unwrap(), &round.to_ne_bytes());
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(counter.join().unwrap(), load(&words, 500));
    });
    assert_eq!((Arc::strong_count(&token), Arc::strong_count(&words)), (4, 4));
    let (kept, _) = whole.destroy().map_err(|refused| refused.error).unwrap().into_keeper();
    assert!(Arc::ptr_eq(&kept, &words));
    drop((again, rest));
    assert_eq!(Arc::strong_count(&token), 1);
}

/// Pieces are sources and sinks like those of other regions, but give no access to bytes.
/// Proves R18.44.
#[test]
fn pieces_are_sent_and_filled() {
    let words = words(64);
    let mut p = Pair::<Rc, Any>::new();
    let region = register::<LocalWrite>(&p.pd, &words, 0, &Arc::new(()));
    let theirs = p.pd.register::<RemoteReadWrite>(64).unwrap();
    theirs.write_at(0, b"from the peer...").unwrap();
    let mut piece: OpenBuf = region.piece(16, 16).unwrap();
    piece.set_id(3);
    assert_eq!(piece.as_ptr(), region.as_ptr().wrapping_add(16));
    let told = theirs.remote().slice(0, 16).unwrap();
    p.a.post_send(wr::RdmaRead::new(piece, told.read())).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    let Some(AnyBuf::Open(mut piece)) = sent.entry else { panic!("its own entry") };
    assert_eq!((sent.opcode, piece.id(), piece.len()), (WcOpcode::RdmaRead, 3, 16));
    assert_eq!(load(&words, 2).to_ne_bytes(), *b"from the");
    // Unchanged, and narrowed to another range.
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(piece.clone())).unwrap();
    piece.set_range(24, 3).unwrap();
    p.a.post_send(wr::Send::new(piece)).unwrap();
    let got = poll(&p.dev, &mut p.cb, 2).into_iter().map(Done::received);
    let got: Vec<Vec<u8>> = got.map(|got| got.data().to_vec()).collect();
    assert_eq!(got, [&b"from the peer..."[..], b" pe"]);
    poll(&p.dev, &mut p.ca, 2);
    // As a prepared work request, posted repeatedly.
    let there = theirs.remote().slice(32, 8).unwrap().write();
    let mut ready = wr::RdmaWrite::new(wr::Placeholder, there).prepare();
    let mut piece = region.piece(0, 8).unwrap();
    for value in [5u64, 6] {
        words[0].store(value, Ordering::Relaxed);
        p.a.post_prepared(&mut ready, piece).unwrap();
        let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        let Some(AnyBuf::Open(again)) = sent.entry else { panic!("its own entry") };
        piece = again;
        let mut there = [0; 8];
        theirs.read_at(32, &mut there).unwrap();
        assert_eq!(there, value.to_ne_bytes());
    }
    assert!(region.piece(505, 8).is_err());
}

/// Messages arrive at chosen places, in order. A WRITE with an immediate consumes a piece and
/// leaves its bytes unchanged. Unused receives come back with the queue.
/// Proves R6.12, R18.44.
#[test]
fn messages_are_received_at_chosen_places() {
    let (words, token) = (words(64), Arc::new(()));
    let mut p = Pair::<Rc, Any>::new();
    let region = register::<LocalWrite>(&p.pd, &words, 0, &token);
    for (at, len) in [(8, 16), (256, 5), (9, 1)] {
        let mut piece = region.piece(at, len).unwrap();
        piece.set_id(at as u64);
        p.b.post_recv(wr::Recv::at(piece).unwrap()).unwrap();
    }
    p.a.post_send(wr::Send::new(filled(&p.pool, b"at first"))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"then!"))).unwrap();
    p.a.post_send(wr::Send::new(wr::Empty)).unwrap();
    for (len, id, capacity) in [(8, 8, 16), (5, 256, 5), (0, 9, 1)] {
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
        assert_eq!((got.byte_len, got.data().len(), got.segments().count()), (len, 0, 0));
        let Some(AnyBuf::Open(piece)) = got.entry else { panic!("its own entry") };
        assert_eq!((piece.id(), piece.len()), (id, capacity));
    }
    assert_eq!(load(&words, 1).to_ne_bytes(), *b"at first");
    assert_eq!(load(&words, 32).to_ne_bytes(), *b"then!\0\0\0");
    assert_eq!([0, 2, 33].map(|at| load(&words, at)), [0; 3]);
    poll(&p.dev, &mut p.ca, 3);
    let refused = wr::Recv::at(region.piece(9, 0).unwrap()).unwrap_err();
    assert!(said(&refused.error).contains("wr::Recv::empty()"), "{refused}");
    drop(refused);
    // Unused receives are flushed.
    for at in [0, 64] {
        p.b.post_recv(wr::Recv::at(region.piece(at, 64).unwrap()).unwrap()).unwrap();
    }
    drop((region, p.a));
    let Pair { b, mut cb, dev, .. } = p;
    let b = b.to_error().unwrap();
    let flushed = poll(&dev, &mut cb, 2);
    for failed in flushed {
        let failed = failed.failed(proverbs::completion::Direction::Receive, WcStatus::WrFlush);
        assert!(matches!(failed.entry, Some(AnyBuf::Open(_))));
    }
    assert_eq!(Arc::strong_count(&token), 1);
    assert_eq!(b.recvs_outstanding(), 0);
}

/// So do datagrams, after their GRH.
/// Proves R5.8, R18.44.
#[test]
fn datagrams_are_received_at_chosen_places() {
    fails_on!(Iwarp, "R24.2");
    let words = words(64);
    let mut p = Pair::<Ud, Any>::new();
    let region = register::<LocalWrite>(&p.pd, &words, 0, &Arc::new(()));
    p.b.post_recv(wr::Recv::at(region.piece(64, 128).unwrap()).unwrap()).unwrap();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    p.a.post_send(wr::Send::new(filled(&p.pool, b"datagram")).to(to)).unwrap();
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
    assert_eq!(got.byte_len, 48);
    assert!(matches!(got.entry, Some(AnyBuf::Open(_))));
    assert_eq!(load(&words, 13).to_ne_bytes(), *b"datagram");
}

/// Dropping a queue pair returns its outstanding receives, with their keepers.
/// Proves R18.44.
#[test]
fn receives_in_flight_hold_the_keeper() {
    let (words, token) = (words(8), Arc::new(()));
    let Pair { a, mut b, ca, cb, pool, pd, dev } = Pair::<Rc, Any>::new();
    let region = register::<LocalWrite>(&pd, &words, 0, &token);
    b.post_recv(wr::Recv::at(region.piece(0, 64).unwrap()).unwrap()).unwrap();
    drop((region, pd, pool));
    assert_eq!(Arc::strong_count(&token), 2);
    drop((a, b));
    drop((ca, cb, dev));
    assert_eq!(Arc::strong_count(&token), 1);
}

/// A window opens a part of the memory to a peer, while the program uses the words beside it. The
/// window keeps the region, and with it the keeper.
/// Proves R6.11, R18.44.
#[test]
fn a_window_to_a_part_of_it() {
    fails_on!(Siw, "R18.17");
    fails_on!(KeptRegions);
    let (words, token) = (words(8), Arc::new(()));
    let mut p = Pair::<Rc, Any>::new();
    let region = register::<Windowed<LocalWrite>>(&p.pd, &words, 0, &token);
    let window = p.a.alloc_mw().unwrap();
    p.a.post_send(BindMw::<RemoteWrite>::new(window, &region, 16..24).unwrap()).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    let Some(AnyBuf::Window(window)) = sent.entry else { panic!("the window") };
    let bound = window.into_bound::<RemoteWrite>().unwrap();
    assert_eq!(bound.remote().addr(), region.as_ptr().addr() as u64 + 16);
    let region = region.destroy().map(drop).unwrap_err().into_object();
    for value in [7u64, 8] {
        words[3].fetch_add(1, Ordering::Relaxed);
        let there = bound.remote().write();
        p.b.post_send(wr::RdmaWrite::inline(&value.to_ne_bytes(), there)).unwrap();
        poll(&p.dev, &mut p.cb, 1).remove(0).sent();
        // On iWARP the completion may come before the word. (The loopback works in a poll.)
        until(&p.dev, "the peer's word", || {
            assert!(p.ca.poll_one().unwrap().is_none());
            load(&words, 2) == value
        });
    }
    assert_eq!([0, 1, 2, 3].map(|at| load(&words, at)), [0, 0, 8, 2]);
    bound.destroy().unwrap();
    assert_eq!(Arc::strong_count(&token), 2);
    drop(region.destroy().map_err(|refused| refused.error).unwrap());
    assert_eq!(Arc::strong_count(&token), 1);
}

/// A peer's atomics, if the fabric has them, and the program's own at the same time.
/// Proves R18.44.
#[test]
fn atomics_of_peers() {
    fails_on!(Iwarp, "R24.4");
    let words = words(8);
    let mut p = Pair::<Rc, Any>::new();
    let region = register::<RemoteAll>(&p.pd, &words, 0, &Arc::new(()));
    for _ in 0..3 {
        let cell = region.remote().atomic(8).unwrap();
        p.a.post_send(wr::FetchAndAdd::new(poisoned(&p.pool), cell, 2)).unwrap();
        words[2].fetch_add(1, Ordering::Relaxed);
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    }
    assert_eq!([0, 1, 2, 3].map(|at| load(&words, at)), [0, 6, 3, 0]);
}

/// Proves R6.3, R18.44.
#[test]
fn a_read_only_region_is_read_by_peers_and_is_a_source() {
    let words = words(8);
    words[3].store(7, Ordering::Relaxed);
    let mut p = Pair::<Rc, Any>::new();
    let local = self::words::register_read_only::<LocalRead>(&p.pd, &words);
    let region = self::words::register_read_only::<RemoteRead>(&p.pd, &words);
    let there = region.remote().slice(24, 8).unwrap();
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), there.read())).unwrap();
    let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    holds(read.into_buf().unwrap(), &7u64.to_ne_bytes());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(local.source(24, 8).unwrap())).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    assert!(matches!(sent.entry, Some(AnyBuf::ReadOnlyPiece(_))));
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    assert_eq!(&got.data()[..], &7u64.to_ne_bytes());
}

/// A memfd is registered where it is mapped, and as a dma-buf. It is the same memory. A kernel with
/// udmabuf exports a real dma-buf; the loopback device accepts the memfd itself.
/// Proves R18.12, R18.44.
#[test]
#[cfg(not(miri))]
fn a_memfd_is_mapped_and_a_dma_buf() {
    fails_on!(KeptRegions);
    let mut p = Pair::<Rc, Any>::new();
    let (other, fd) = MapOptions::new().memfd("mapped and exported", 8192).unwrap();
    let exported = dma_buf_of(&fd, 8192);
    let is_real = exported.is_some();
    println!("a real dma-buf: {is_real}");
    let mapped = register_file::<RemoteReadWrite>(&p.pd, &fd, 8192);
    let there = mapped.remote().slice(4104, 8).unwrap();
    p.a.post_send(wr::RdmaWrite::new(word(&p.pool, 7), there.write())).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    arrives(&p.dev, &7u64.to_ne_bytes(), |now| other.read_at(4104, now).unwrap());

    let dma_buf = DmaBuf { fd: exported.unwrap_or(fd), offset: 4096, len: 4096, iova: 0x7000_0000 };
    match p.pd.register_dmabuf::<RemoteReadWrite>(dma_buf) {
        Ok(half) => {
            // Each reads the bytes that the other wrote.
            let at = half.remote().slice(8, 8).unwrap();
            p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), at.read())).unwrap();
            let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
            holds(read.into_buf().unwrap(), &7u64.to_ne_bytes());
            p.a.post_send(wr::RdmaWrite::new(word(&p.pool, 8), at.write())).unwrap();
            poll(&p.dev, &mut p.ca, 1).remove(0).sent();
            p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), there.read())).unwrap();
            let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
            holds(read.into_buf().unwrap(), &8u64.to_ne_bytes());
            half.destroy().unwrap();
        }
        Err(refused) => {
            let is_soft = matches!(p.dev.kind, Kind::Rxe | Kind::Siw)
                || Device::personality() == Personality::Rxe;
            assert!(is_soft && matches!(refused.error.kind(), ErrorKind::Unsupported { .. }));
            assert_eq!(refused.into_object().iova, 0x7000_0000);
        }
    }
    drop(mapped.destroy().unwrap());
}

/// The keeper stays while the device owns a piece, and is dropped once, whatever is dropped first.
/// Proves R18.44.
#[test]
fn the_keeper_outlives_pieces_in_flight() {
    for drops_queues_first in [false, true] {
        let (words, token) = (words(8), Arc::new(()));
        let Pair { mut a, b, ca, cb, pool, pd, dev } = Pair::<Rc, Any>::new();
        let region = register::<LocalWrite>(&pd, &words, 0, &token);
        // There is no receive, so it stays with the device for a while. (On iWARP it completes.)
        a.post_send(wr::Send::new(region.piece(0, 64).unwrap())).unwrap();
        let region = region.destroy().map(drop).unwrap_err().into_object();
        drop((region, pd, pool));
        assert_eq!(Arc::strong_count(&token), 2);
        if drops_queues_first {
            drop((ca, cb));
            let count = Arc::strong_count(&token);
            assert!(count == 2 || dev.is_iwarp() && count == 1, "{count}"); // R24.12
            drop((a, b));
        } else {
            drop((a, b));
            drop((ca, cb));
        }
        drop(dev);
        assert_eq!(Arc::strong_count(&token), 1, "queues first: {drops_queues_first}");
    }
}

/// The memory of a region that peers had rights to is kept if they may access it later.
/// Proves R18.44.
#[test]
fn regions_that_peers_reach_return_their_keeper() {
    fails_on!(KeptRegions);
    let (words, token) = (words(8), Arc::new(()));
    let p = Pair::<Rc, Any>::new();
    let region = register::<RemoteWrite>(&p.pd, &words, 0, &token);
    region.destroy().map(drop).map_err(|refused| refused.error).unwrap();
    drop(register::<RemoteWrite>(&p.pd, &words, 0, &token));
    assert_eq!(Arc::strong_count(&token), 1);
}
