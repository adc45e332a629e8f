//! Opaque memory on the loopback device: keepers, and regions that C registered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::loopback::{self, Fabric, Fault, LOOPBACK, Pair, Script};
use crate::memory::OpenBuf;
#[cfg(not(miri))]
use crate::memory::{MapOptions, Memory};
use crate::prelude::*;
use crate::raw::{AsRaw, ibv_pd};

profile! { Mixed { entry: AnyBuf } }

/// The events, in order.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<&'static str>>>);

impl Notes {
    fn add(&self, note: &'static str) {
        self.0.lock().unwrap().push(note);
    }

    #[track_caller]
    fn are(&self, notes: &[&str]) {
        assert_eq!(*self.0.lock().unwrap(), notes);
    }
}

/// Records that it was dropped.
struct Keeper(Notes, &'static str);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// A peer writes 8 bytes at offset 8 and reads them. This program reads the peer's bytes into the
/// same place, and writes them to offset 16.
fn used_by_both<M: HasPieces>(pair: &mut Pair<Mixed>, region: &MemoryRegion<RemoteReadWrite, M>) {
    let Pair { pd, a, cq, pool, .. } = pair;
    let there = |offset| region.remote().slice(offset, 8).unwrap();
    a.post_send(wr::RdmaWrite::inline(b"a peer's", there(8).write())).unwrap();
    a.post_send(wr::RdmaRead::new(pool.take().unwrap(), there(8).read())).unwrap();
    let read = loopback::poll(cq, 2).unwrap().into_iter().flatten().find_map(AnyBuf::into_buf);
    assert_eq!(&read.unwrap()[..], b"a peer's");
    let table = pd.register::<RemoteReadWrite>(8).unwrap();
    table.write_at(0, b"from far").unwrap();
    let piece: OpenBuf = region.piece(8, 8).unwrap();
    assert_eq!(piece.as_ptr(), region.as_ptr().wrapping_add(8));
    a.post_send(wr::RdmaRead::new(piece, table.remote().read())).unwrap();
    let Some(AnyBuf::Open(piece)) = loopback::poll(cq, 1).unwrap().remove(0) else {
        panic!("its own entry")
    };
    a.post_send(wr::RdmaWrite::new(piece, there(16).write())).unwrap();
    loopback::poll(cq, 1).unwrap();
}

/// The bytes are in a box, a vector or an `Arc`, which is moved into the region and out of it.
/// Proves R18.44.
#[test]
fn a_keeper_that_owns_the_bytes_comes_back_with_them() {
    let mut pair = loopback::pair_of::<Mixed>().unwrap();
    let expected = b"\x01\x01\x01\x01\x01\x01\x01\x01from farfrom far\x01";
    let pd = pair.pd.clone();
    let build = || pd.region::<RemoteReadWrite>();

    let bytes: Box<[u8]> = vec![1; 64].into();
    // SAFETY: the box owns the bytes, which no other code accesses.
    let region = unsafe { build().opaque_in(bytes, |bytes| NonNull::from(&mut bytes[..])) };
    let region = region.unwrap();
    used_by_both(&mut pair, &region);
    let mut bytes = region.destroy().unwrap().into_keeper();
    assert_eq!(bytes[..25], *expected);
    bytes[0] = 2;

    // SAFETY: the vector owns the bytes, which no other code accesses.
    let region = unsafe { build().opaque_in(bytes.into_vec(), |v| NonNull::from(&mut v[..])) };
    let region = region.unwrap();
    used_by_both(&mut pair, &region);
    assert_eq!(region.destroy().unwrap().into_keeper()[..9], *b"\x02\x01\x01\x01\x01\x01\x01\x01f");

    let words: Arc<[AtomicU64]> = (0..8).map(|_| AtomicU64::new(0x0101_0101_0101_0101)).collect();
    let base = NonNull::from(&words[..]).cast();
    // SAFETY: the words live in the keeper, and are accessed as atomics.
    let region = unsafe { build().opaque(base, 64, words.clone()) }.unwrap();
    used_by_both(&mut pair, &region);
    words[0].fetch_add(1, Ordering::Relaxed);
    drop(region.destroy().unwrap().into_keeper());
    assert_eq!(words[1].load(Ordering::Relaxed).to_ne_bytes(), *b"from far");
    assert_eq!(Arc::strong_count(&words), 1);
}

/// A 4-byte flag is one store for the program's 4-byte atomic, and the program may access the bytes
/// next to the peer's.
/// Proves R18.44.
#[test]
fn transfers_touch_the_bytes_that_are_meant() {
    use std::sync::atomic::AtomicU32;
    let Pair { mut a, b: _b, mut cq, pd, .. } = loopback::pair_of::<Mixed>().unwrap();
    #[repr(align(8))]
    struct Words([AtomicU32; 4]);
    let words = Arc::new(Words([const { AtomicU32::new(0) }; 4]));
    let base = NonNull::from(&*words).cast();
    // SAFETY: the words live in the keeper, and are accessed as atomics of the size that the peer
    // writes.
    let region = unsafe { pd.region::<RemoteWrite>().opaque(base, 16, words.clone()) }.unwrap();
    let told = region.remote();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                words.0[3].fetch_add(1, Ordering::Relaxed);
                assert!([0, 7].contains(&words.0[2].load(Ordering::Relaxed)));
            }
        });
        for _ in 0..3 {
            let bytes = 7u32.to_ne_bytes();
            let at = told.slice(8, 4).unwrap();
            a.post_send(wr::RdmaWrite::inline(&bytes, at.write())).unwrap();
            loopback::poll(&mut cq, 1).unwrap();
        }
    });
    let words = words.0.each_ref().map(|word| word.load(Ordering::Relaxed));
    assert_eq!(words, [0, 0, 7, 100]);
}

/// The keeper is dropped after `ibv_dereg_mr` and all uses of the region, and before the domain is
/// freed.
/// Proves R18.44.
#[test]
fn the_keeper_goes_once_between_the_region_and_its_domain() {
    /// Deallocates C's domain, in which no region may be left.
    struct Last(Notes, NonNull<ibv_pd>);
    // SAFETY: verbs may be called from any thread.
    unsafe impl std::marker::Send for Last {}
    impl Drop for Last {
        fn drop(&mut self) {
            // SAFETY: the domain is not used any more.
            assert_eq!(unsafe { (LOOPBACK.dealloc_pd)(self.1.as_ptr()) }, Ok(()), "it has regions");
            self.0.add("region");
        }
    }
    let notes = Notes::default();
    let bytes: &'static [AtomicU64] = Vec::from_iter((0..8).map(AtomicU64::new)).leak();
    let base = NonNull::from(bytes).cast();
    let context = Fabric::new().open_device();
    // SAFETY: the domain is live until the keeper of the region deallocates it. The bytes stay, and
    // are not accessed.
    let region = unsafe {
        let raw = (LOOPBACK.alloc_pd)(context.as_raw()).unwrap();
        let keep = Keeper(notes.clone(), "domain");
        let pd = ProtectionDomain::from_raw(&context, raw, keep).unwrap();
        let keeper = Last(notes.clone(), raw);
        pd.region::<RemoteAll>().opaque(base, 64, keeper).unwrap()
    };
    let piece = region.piece(0, 8).unwrap();
    let region = region.destroy().unwrap_err().into_object();
    drop(region);
    notes.are(&[]);
    drop(piece);
    notes.are(&["region", "domain"]);
}

/// Queue pairs, queues and domains are dropped while the device owns a piece.
/// Proves R18.44.
#[test]
fn work_in_flight_holds_the_keeper() {
    for drops_queue_first in [false, true] {
        let Pair { mut a, b, cq, pd, .. } = loopback::pair_of::<Mixed>().unwrap();
        let notes = Notes::default();
        let words: Box<[AtomicU64]> = (0..8).map(AtomicU64::new).collect();
        let base = NonNull::from(Box::leak(words)).cast();
        // SAFETY: the words stay, and no other code accesses them.
        let region = unsafe {
            let keeper = Keeper(notes.clone(), "gone");
            pd.region::<LocalWrite>().opaque(base, 64, keeper).unwrap()
        };
        a.post_send(wr::Send::new(region.piece(0, 64).unwrap())).unwrap(); // there is no receive
        drop((region, pd, b));
        notes.are(&[]);
        if drops_queue_first {
            drop(cq);
            notes.are(&[]);
            drop(a);
        } else {
            drop(a);
            drop(cq);
        }
        notes.are(&["gone"]);
    }
}

/// Proves R18.44.
#[test]
fn a_device_that_keeps_the_region_keeps_the_keeper() {
    let fabric = Fabric::new();
    let pd = fabric.open_device().alloc_pd().unwrap();
    let notes = Notes::default();
    let base = NonNull::from(Box::leak(Box::new(AtomicU64::new(0)))).cast();
    // SAFETY: the word stays, and is not accessed.
    let register = || unsafe {
        pd.region::<RemoteRead>().opaque(base, 8, Keeper(notes.clone(), "gone")).unwrap()
    };
    let region = register();
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    let region = region.destroy().unwrap_err().into_object();
    notes.are(&[]);
    drop(region.destroy().unwrap());
    notes.are(&["gone"]);
    let region = register();
    fabric.inject(Script::default().with(Fault::Busy.always()));
    drop(region);
    notes.are(&["gone"]);
}

/// A failure returns the keeper, whose drop may panic like any other.
/// Proves R18.44.
#[test]
fn refusals_and_panics() {
    let pd = Fabric::new().open_device().alloc_pd().unwrap();
    let build = || pd.region::<RemoteRead>();
    let base = NonNull::from(Box::leak(Box::new(AtomicU64::new(0)))).cast();
    // SAFETY: the word stays. (Registering 0 bytes fails.)
    let refused = unsafe { build().opaque(base, 0, "a keeper") }.unwrap_err();
    assert_eq!((refused.error.errno(), refused.into_object()), (Some(22), "a keeper"));
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("a keeper may")
        }
    }
    // SAFETY: as above.
    let region = unsafe { build().opaque(base, 8, Panics) }.unwrap();
    catch_unwind(AssertUnwindSafe(|| drop(region))).unwrap_err();
    // SAFETY: as above. No range is returned.
    let told = catch_unwind(AssertUnwindSafe(|| unsafe {
        build().opaque_in((), |()| panic!("so may its range")).map(drop).ok()
    }));
    told.unwrap_err();
    pd.destroy().unwrap();
}

/// Proves R6.3, R18.44.
#[test]
fn what_no_device_writes_may_be_borrowed() {
    let mut pair = loopback::pair_of::<Mixed>().unwrap();
    let table: Arc<[u8]> = Arc::from(*b"at the beginning, then the rest.");
    let view = &table[..];
    let base = NonNull::from(view).cast();
    // SAFETY: the keeper keeps the bytes, which do not change.
    let region = unsafe {
        pair.pd.region::<RemoteRead>().opaque_read_only(base, 32, table.clone()).unwrap()
    };
    let theirs = pair.pd.register::<RemoteWrite>(8).unwrap();
    let piece = region.source(3, 4).unwrap();
    pair.a
        .post_send(wr::RdmaWrite::new(piece, theirs.remote().slice(0, 4).unwrap().write()))
        .unwrap();
    let at = region.remote().slice(18, 4).unwrap();
    pair.a.post_send(wr::RdmaRead::new(pair.pool.take().unwrap(), at.read())).unwrap();
    let done = loopback::poll(&mut pair.cq, 2).unwrap();
    let read = done.into_iter().flatten().find_map(AnyBuf::into_buf).unwrap();
    let mut written = [0; 8];
    theirs.read_at(0, &mut written).unwrap();
    assert_eq!((&read[..], &written), (&b"then"[..], b"the \0\0\0\0"));
    assert!(view.starts_with(b"at the"));
    // It does not have LOCAL_WRITE: a peer that requests more is rejected.
    let told = region.remote();
    let claimed = RemoteSlice::<RemoteWrite>::from_parts(told.addr(), 8, told.rkey());
    pair.a.post_send(wr::RdmaWrite::inline(b"no right", claimed.write())).unwrap();
    assert!(loopback::poll(&mut pair.cq, 1).is_err());
    assert_eq!(region.destroy().unwrap().into_keeper()[..], *view);
}

/// A C library that owns a buffer, registers it, and uses it at any time.
mod c {
    use super::*;
    use crate::raw::ibv_mr;

    #[repr(C)]
    pub struct cache {
        pub bytes: *mut u8,
        pub mr: *mut ibv_mr,
    }

    pub extern "C" fn cache_new(pd: *mut ibv_pd) -> cache {
        let words: Box<[u64]> = vec![0; 8].into();
        let bytes = Box::into_raw(words).cast();
        // SAFETY: the domain is live, and the bytes live until `cache_free`.
        let mr = unsafe {
            (LOOPBACK.reg_mr)(pd, bytes, 64, RemoteReadWrite::FLAGS, Holds::Opaque).unwrap()
        };
        cache { bytes, mr: mr.as_ptr() }
    }

    /// # Safety
    /// The byte is not written at the same time.
    pub unsafe extern "C" fn cache_get(cache: &cache, at: usize) -> u8 {
        // SAFETY: the buffer lives, and the caller orders accesses.
        unsafe { cache.bytes.add(at).read() }
    }

    /// # Safety
    /// The region is registered, and not used any more.
    pub unsafe extern "C" fn cache_dereg(cache: &cache) {
        // SAFETY: registered in `cache_new`.
        assert_eq!(unsafe { (LOOPBACK.dereg_mr)(cache.mr) }, Ok(()));
    }

    /// # Safety
    /// The region is deregistered, and the buffer not used any more.
    pub unsafe extern "C" fn cache_free(cache: &cache) {
        // SAFETY: allocated in `cache_new`, with 8 words.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(cache.bytes.cast::<u64>(), 8)) });
    }
}

/// A C program's buffer, whose region C keeps or gives away.
/// Proves R18.24.
#[test]
fn a_region_of_cs_is_used_by_both_and_ends_once() {
    struct Cache(c::cache, bool, Notes);
    // SAFETY: verbs may be called from any thread, and the bytes are freed with the value.
    unsafe impl std::marker::Send for Cache {}
    impl Drop for Cache {
        fn drop(&mut self) {
            self.2.add("freed");
            // SAFETY: no work request uses the region or its bytes any more.
            unsafe {
                if !self.1 {
                    c::cache_dereg(&self.0);
                }
                c::cache_free(&self.0);
            }
        }
    }
    let mut pair = loopback::pair_of::<Mixed>().unwrap();
    for is_ours in [false, true] {
        let notes = Notes::default();
        let cache = c::cache_new(pair.pd.as_raw());
        let (base, mr) = (cache.bytes, NonNull::new(cache.mr).unwrap());
        let look = |at| {
            // SAFETY: it is called while no transfer is in flight.
            unsafe { c::cache_get(&c::cache { bytes: base, mr: mr.as_ptr() }, at) }
        };
        let keeper = Cache(cache, is_ours, notes.clone());
        let pd = &pair.pd;
        // SAFETY: the region lives until the keeper is dropped, or is given away; the library's
        // accesses are ordered here.
        let region = unsafe {
            match is_ours {
                false => pd.region_from_raw::<RemoteReadWrite, _>(mr, base, 64, keeper),
                true => pd.owned_region_from_raw(mr, base, 64, keeper),
            }
        };
        let region = region.unwrap();
        assert_eq!((region.as_raw(), region.as_ptr(), region.len()), (mr.as_ptr(), base, 64));
        used_by_both(&mut pair, &region);
        assert_eq!((look(8), look(16), look(24)), (b'f', b'f', 0));
        let piece = region.piece(0, 64).unwrap();
        drop(region.destroy().unwrap_err());
        notes.are(&[]);
        drop(piece);
        notes.are(&["freed"]);
    }
    // C deregistered one of the regions, and the crate the other.
    let Pair { a, b, cq, pool, pd, .. } = pair;
    drop((a, b, cq, pool));
    pd.destroy().unwrap();
}

/// Proves R6.4, R6.8.
#[test]
fn a_region_of_another_domain_or_of_no_bytes_comes_back() {
    let Pair { pd, context, .. } = loopback::pair_of::<Mixed>().unwrap();
    let cache = c::cache_new(pd.as_raw());
    let mr = NonNull::new(cache.mr).unwrap();
    let other = context.alloc_pd().unwrap();
    // SAFETY: the region lives until it is deregistered, at the end, and is not used.
    unsafe {
        let refused = other.region_from_raw::<RemoteRead, _>(mr, cache.bytes, 64, 7).unwrap_err();
        assert!(matches!(refused.error.kind(), ErrorKind::PdMismatch { .. }), "{}", refused.error);
        assert_eq!(refused.into_object(), 7);
        let refused = pd.owned_region_from_raw::<RemoteRead, _>(mr, cache.bytes, 0, 7).unwrap_err();
        assert_eq!((refused.error.errno(), refused.into_object()), (Some(22), 7));
        c::cache_dereg(&cache);
        c::cache_free(&cache);
    }
}

/// A region that C registered with `mlx5dv_reg_dmabuf_mr`, for which only the iova is known. A
/// memfd replaces the dma-buf. The program also accesses the memory through an opaque mapping.
/// Proves R18.13, R18.24.
#[test]
#[cfg(not(miri))]
fn memory_without_bytes_and_its_mapping() {
    use crate::sys::memory::DmabufPart;
    use std::os::fd::AsRawFd;
    let mut pair = loopback::pair_of::<Mixed>().unwrap();
    let (mut mapping, fd) = MapOptions::new().memfd("in a dma-buf's place", 8192).unwrap();
    let bytes = mapping.bytes();
    let part = DmabufPart { fd: fd.as_raw_fd(), offset: 4096, length: 64, iova: 0x7000_0000 };
    let base = ptr::without_provenance_mut(0x7000_0000);
    let (pd, access) = (&pair.pd, RemoteReadWrite::FLAGS);
    // SAFETY: the domain is live, and the region is given away. The mapping is kept by `Arc`, and
    // is read when no transfer is in flight.
    let (region, same) = unsafe {
        let mr = (LOOPBACK.reg_dmabuf_mr)(pd.as_raw(), part, access).unwrap();
        let region = pd.owned_region_from_raw::<RemoteReadWrite, _>(mr, base, 64, fd).unwrap();
        let same =
            pd.region::<RemoteReadWrite>().opaque(bytes.cast().add(4096 + 8), 8, Arc::new(mapping));
        (region, same.unwrap())
    };
    assert_eq!((region.as_ptr(), region.remote().addr()), (base, 0x7000_0000));
    used_by_both(&mut pair, &region);
    let at = same.remote();
    pair.a.post_send(wr::RdmaRead::new(pair.pool.take().unwrap(), at.read())).unwrap();
    let read = loopback::poll(&mut pair.cq, 1).unwrap().remove(0).and_then(AnyBuf::into_buf);
    assert_eq!(&read.unwrap()[..], b"from far");
    // SAFETY: the bytes are mapped while the keeper of `same` lives, and no transfer is in flight.
    let there = unsafe { same.as_ptr().cast::<[u8; 16]>().read() };
    assert_eq!(&there, b"from farfrom far");
    // A provider may copy short messages with the processor, which cannot access these bytes.
    let refused = wr::Recv::at(region.piece(0, 8).unwrap()).unwrap_err();
    assert!(matches!(refused.error.kind(), ErrorKind::Unsupported { .. }), "{refused}");
    assert_eq!(refused.into_object().len(), 8);
    drop(wr::Recv::at(same.piece(0, 8).unwrap()).unwrap());
    drop(region.destroy().unwrap().into_keeper());
    drop(same.destroy().unwrap().into_keeper());
}

/// One allocation on two devices, whose queues are used by two threads, while the program counts in
/// it.
/// Proves R18.44.
#[test]
fn two_devices_and_the_program_at_once() {
    let words: Arc<[AtomicU64]> = (0..16).map(|_| AtomicU64::new(0)).collect();
    let rounds = if cfg!(miri) { 8 } else { 200 };
    std::thread::scope(|scope| {
        for device in 0..2 {
            let words = words.clone();
            scope.spawn(move || {
                let Pair { mut a, b: _b, mut cq, pool, pd, .. } =
                    loopback::pair_of::<Mixed>().unwrap();
                // The registrations overlap.
                let (base, len) = (NonNull::from(&words[device..]).cast(), 64 - 8 * device);
                // SAFETY: the words live in the keeper, and are accessed as 8-byte atomics.
                let region = unsafe { pd.region::<RemoteAll>().opaque(base, len, words) }.unwrap();
                for _ in 0..rounds {
                    // The same word through both, as an atomic, and one that both write.
                    let at = region.remote();
                    let shared = 24 - 8 * device as u64;
                    let cell = at.atomic(shared).unwrap();
                    a.post_send(wr::FetchAndAdd::new(pool.take().unwrap(), cell, 1)).unwrap();
                    let value = (device as u64 + 1).to_ne_bytes();
                    let there = at.slice(shared + 8, 8).unwrap();
                    a.post_send(wr::RdmaWrite::inline(&value, there.write())).unwrap();
                    loopback::poll(&mut cq, 2).unwrap();
                }
            });
        }
        for _ in 0..rounds {
            words[3].fetch_add(1, Ordering::Relaxed);
            assert!(words[4].load(Ordering::Relaxed) <= 2);
            words[5].fetch_add(1, Ordering::Relaxed);
        }
    });
    let words = [&words[3], &words[5]].map(|word| word.load(Ordering::Relaxed));
    assert_eq!(words, [3 * rounds, rounds]);
}
