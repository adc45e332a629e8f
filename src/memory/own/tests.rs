//! Memory of the program, with keepers that record when they are dropped, and that misbehave.

#![allow(unsafe_code)] // keepers

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use crate::loopback::{self, Fabric, Fault, Pair, Personality, Script, World};
use crate::memory::own::{
    ExternalMemory, Memory, Private, Protection, ReadOnly, Shared, Sharing, Writable,
};
use crate::memory::{Access, LocalRead};
use crate::prelude::*;

/// The fate of a keeper.
#[derive(Default)]
struct Fate {
    drops: AtomicUsize,
    thread: Mutex<Option<ThreadId>>,
}

/// Owns aligned bytes, which it frees when it is dropped. Miri detects later accesses.
struct Keeper {
    words: *mut [u64],
    len: usize,
    fate: Arc<Fate>,
    panics: bool,
}

// SAFETY: it owns the bytes.
unsafe impl std::marker::Send for Keeper {}

impl Keeper {
    fn new(len: usize) -> (Self, Arc<Fate>) {
        let fate = Arc::new(Fate::default());
        let sevens = vec![u64::from_ne_bytes([7; 8]); len.div_ceil(8)];
        let words = Box::into_raw(sevens.into_boxed_slice());
        (Keeper { words, len, fate: fate.clone(), panics: false }, fate)
    }

    /// The bytes without `skip` bytes at both ends.
    fn memory<S: Sharing, P: Protection>(self, skip: usize) -> ExternalMemory<Self, S, P> {
        let len = self.len - 2 * skip;
        // SAFETY: within the box, which the keeper frees when it is dropped, and not before.
        unsafe {
            let base = NonNull::new_unchecked(self.words.cast::<u8>().add(skip));
            ExternalMemory::new(base, len, self)
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and dropped once.
        drop(unsafe { Box::from_raw(self.words) });
        self.fate.drops.fetch_add(1, SeqCst);
        *self.fate.thread.lock().unwrap() = Some(thread::current().id());
        assert!(!self.panics, "a keeper that panics");
    }
}

/// Fills a buffer of `pool`, which moves through the device and back.
fn filled<M>(pair: &mut Pair, pool: &Pool<(), M>, bytes: &[u8]) -> Buf {
    pair.b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    let mut message = pair.pool.take().unwrap();
    message.copy_from(bytes).unwrap();
    pair.a.post_send(wr::Send::new(message)).unwrap();
    let mut received = None;
    for _ in 0..1000 {
        for completion in pair.cq.poll().unwrap() {
            match completion.outcome() {
                Outcome::Received(got) => received = got.entry,
                Outcome::Failed(failed) => panic!("{}", failed.error),
                _ => {}
            }
        }
        if received.is_some() {
            break;
        }
    }
    received.unwrap()
}

/// Creates a pool, receives a message from a peer, and checks the bytes and the type of the
/// returned memory.
fn goes_and_comes_back<M: Memory<Sharing = Private, Protection = Writable>>(memory: M) -> M {
    let mut pair = loopback::pair().unwrap();
    let pool = pair.pd.pool(16).create_in(memory).unwrap();
    assert!(pool.count() >= 2);
    let (one, two) = (filled(&mut pair, &pool, b"one"), filled(&mut pair, &pool, b"the second"));
    assert_eq!((&one[..], &two[..]), (&b"one"[..], &b"the second"[..]));
    assert_eq!(one.capacity() % 8, 0);
    assert!(one.as_ptr().addr() % 8 == 0 && two.as_ptr().addr() % 8 == 0, "R4.1");
    let pool = pool.destroy().map(drop).unwrap_err().into_object();
    drop((one, two));
    let memory = pool.destroy().unwrap();

    let region = pair.pd.region::<RemoteAll>().create_in::<M>(memory).unwrap();
    let mut message = pair.pool.take().unwrap();
    message.copy_from(b"by a peer").unwrap();
    let at = region.remote().slice(0, 9).unwrap();
    pair.a.post_send(wr::RdmaWrite::new(message, at.write())).unwrap();
    loopback::poll(&mut pair.cq, 1).unwrap();
    let mut read = [0; 9];
    region.read_at(0, &mut read).unwrap();
    assert_eq!(&read, b"by a peer");
    region.write_at(1, b"_").unwrap();
    region.destroy().unwrap()
}

/// Proves R18.1, R18.3.
#[test]
fn what_programs_have() {
    let boxed = goes_and_comes_back::<Box<[u8]>>(vec![0; 50].into());
    assert!(boxed.starts_with(b"b_ a peer"));
    let words: Box<[u64]> = goes_and_comes_back(vec![0; 8].into());
    assert_eq!(words[0].to_ne_bytes(), *b"b_ a pee");
    let fixed: &'static mut [u8] = Box::leak(vec![0; 50].into());
    let fixed = goes_and_comes_back(fixed);
    assert!(fixed.starts_with(b"b_ a peer"));
    let mut pages =
        loopback::pair().unwrap().pd.register::<RemoteRead>(64).unwrap().destroy().unwrap();
    pages[60] = 1;
    let pages = goes_and_comes_back(pages);
    assert_eq!((&pages[..9], pages[60]), (&b"b_ a peer"[..], 1));
}

/// Proves R18.1.
#[test]
fn a_vector_keeps_its_capacity_and_only_its_length_is_registered() {
    let mut vector: Vec<u8> = Vec::with_capacity(1000);
    vector.extend([1; 40]);
    let (at, capacity) = (vector.as_ptr().addr(), vector.capacity());
    let mut vector = goes_and_comes_back(vector);
    assert_eq!((vector.as_ptr().addr(), vector.len(), vector.capacity()), (at, 40, capacity));
    assert!(vector.starts_with(b"b_ a peer"));
    // The program owns it again, so it may move.
    vector.extend([2; 2000]);
    let vector = goes_and_comes_back(vector);
    assert_eq!((vector.len(), vector[2039]), (2040, 2));
    let pd = loopback::pair().unwrap().pd;
    let region = pd.region::<RemoteRead>().create_in(vector).unwrap();
    assert_eq!(region.len(), 2040);
}

/// Proves R18.5.
#[test]
fn buffers_are_aligned_wherever_the_memory_begins() {
    // Miri takes long for each.
    for skip in (0..9).step_by(if cfg!(miri) { 4 } else { 1 }) {
        let (keeper, fate) = Keeper::new(100);
        let memory = goes_and_comes_back::<ExternalMemory<_>>(keeper.memory(skip));
        assert_eq!(fate.drops.load(SeqCst), 0);
        drop(memory.into_keeper());
        assert_eq!(fate.drops.load(SeqCst), 1);
    }
}

/// Proves R18.5.
#[test]
fn a_cell_is_aligned_by_its_address() {
    let pd = loopback::pair().unwrap().pd;
    let (keeper, _fate) = Keeper::new(100);
    let region: MemoryRegion<RemoteAtomic, ExternalMemory<_>> =
        pd.region().create_in(keeper.memory::<Private, Writable>(3)).unwrap();
    assert!(region.cell(0).unwrap_err().misaligned);
    region.cell(5).unwrap().store(u64::from_ne_bytes(*b"eight by"), SeqCst);
    let mut read = [0; 10];
    region.read_at(4, &mut read).unwrap();
    assert_eq!(&read, b"\x07eight by\x07");
    assert!(region.remote().atomic(5).is_ok() && region.remote().atomic(0).is_err());
}

/// Proves R6.4, R18.6.
#[test]
fn memory_of_no_bytes_comes_back() {
    let pd = loopback::pair().unwrap().pd;
    let refused = pd.region::<RemoteRead>().create_in(Vec::<u8>::with_capacity(8)).unwrap_err();
    assert_eq!(refused.error.errno(), Some(22));
    assert_eq!(refused.into_object().capacity(), 8);
    let refused = pd.pool(8).create_in(Box::<[u8]>::default()).unwrap_err();
    assert_eq!(refused.error.errno(), Some(22));
    assert!(refused.into_object().is_empty());
    let refused = pd.pool(24).create_in(vec![1u8; 23]).unwrap_err();
    let text = refused.to_string();
    assert!(text.ends_with("(a buffer of 24 bytes in 23 bytes)"), "{text}");
    assert_eq!(refused.into_object(), [1; 23]);
    let refused = pd.pool(1 << 31).create_in(vec![1u8; 23]).unwrap_err();
    assert!(matches!(refused.error.kind(), ErrorKind::Limit { .. }));
    // Memory that is returned and dropped is freed.
    let (keeper, fate) = Keeper::new(100);
    drop(pd.pool(101).create_in(keeper.memory::<Private, Writable>(0)).unwrap_err());
    assert_eq!(fate.drops.load(SeqCst), 1);
}

/// Offsets and lengths of buffers have 32 bits, and the number of buffers has fewer. (The memory
/// does not exist, and is not accessed.)
#[test]
#[cfg_attr(miri, ignore = "has no memory of this size")]
fn memory_of_more_than_a_buffer_can_be() {
    let pd = loopback::pair().unwrap().pd;
    let of_len = |len| {
        // SAFETY: no byte of it is read or written.
        unsafe {
            ExternalMemory::<(), Private, Writable>::new(NonNull::<u64>::dangling().cast(), len, ())
        }
    };
    let limit = |error: &crate::Error| matches!(error.kind(), ErrorKind::Limit { .. });
    let refused = pd.pool(64).create_in(of_len(1 << 40)).unwrap_err();
    assert!(limit(&refused.error), "{}", refused.error);
    let refused = pd.arena(1 << 31).create_in(of_len(1 << 40)).unwrap_err();
    assert!(limit(&refused.error), "{}", refused.error);
    let arena = pd.arena(2).create_in(of_len(1 << 33)).unwrap();
    let longest = arena.longest();
    assert!(longest < 1 << 32 && arena.available() > longest);
    assert!(arena.take(longest + 1).is_none());
    let buf = arena.take(longest).unwrap();
    assert_eq!((buf.capacity(), buf.len()), (longest, longest));
    let region = pd.region::<RemoteRead>().create_in(of_len(1 << 33)).unwrap();
    let error = wr::Piece::new(&region, 1..1 << 33).err().unwrap();
    assert_eq!((error.len, error.misaligned), ((1 << 33) - 1, false));
    assert!(wr::Piece::new(&region, 1..1 << 32).is_ok());
}

/// The maximum length that the device registers, and one byte more, for each caller.
#[test]
fn memory_of_more_than_a_region_can_be() {
    const MOST: usize = 1 << 12;
    let pd = Fabric::with(World::ipv4().regions(MOST as u64)).open_device().alloc_pd().unwrap();
    let limit = ErrorKind::Limit { what: "length", asked: MOST as u64 + 1, max: MOST as u64 };
    let region = pd.region::<RemoteRead>().create_in(vec![1u8; MOST]).unwrap();
    let refused = pd.region::<RemoteRead>().create_in(vec![1u8; MOST + 1]).unwrap_err();
    let (memory, error) = refused.into_parts();
    assert_eq!((error.kind(), memory.len()), (&limit, MOST + 1));
    assert_eq!(pd.create_pool(65, 64).unwrap_err().verb(), "ibv_reg_mr");
    let Err(crate::memory::ReregError::Unchanged(refused)) = region.rereg_memory(memory) else {
        panic!("it is too long")
    };
    assert_eq!((refused.error.kind(), refused.error.verb()), (&limit, "ibv_rereg_mr"));
    let (region, _) = refused.into_object().0.rereg_memory(vec![2u8; MOST]).unwrap();
    drop(region);
    // With this length, it failed for another reason.
    let why = |len| crate::memory::registered::why_not("a verb", &pd, len, String::new(), 22);
    assert_eq!((why(MOST).errno(), why(MOST + 1).kind()), (Some(22), &limit));
    if cfg!(miri) {
        return; // locked memory is read from /proc
    }
    let faults = [libc::EFAULT, libc::ENOMEM].map(|errno| {
        crate::memory::registered::why_not("a verb", &pd, 1, "1 byte".into(), errno).to_string()
    });
    assert!(faults[0].contains("a page is beyond the end of its file"), "{}", faults[0]);
    assert!(faults[1].contains("ENOMEM"), "{}", faults[1]);
}

/// Registering memory that cannot be written does not request write access (EFAULT).
#[test]
fn read_only_memory_is_registered_for_reading() {
    use crate::memory::registered::{AccessFlags, granted};
    let asked = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ;
    assert_eq!(granted(asked, false), AccessFlags::REMOTE_READ);
    assert_eq!(granted(asked, true), asked);
}

#[test]
fn arenas_of_the_least() {
    let pd = loopback::pair().unwrap().pd;
    for (len, buffers) in [(0, 1), (63, 1), (64, 0), (1, 1)] {
        let memory = vec![0u64; 16];
        let lead = memory.as_ptr().addr().wrapping_neg() % 64;
        let memory = memory.into_iter().take((lead + len) / 8).collect::<Vec<_>>();
        let refused = pd.arena(buffers).create_in(memory).unwrap_err();
        assert_eq!(refused.error.errno(), Some(22), "{len} {buffers}");
        let text = refused.error.to_string();
        assert!(text.contains(&format!("an arena of {buffers} buffers in ")), "{text}");
    }
    let arena = pd.arena(1).create_in(vec![0u64; 16]).unwrap();
    assert_eq!((arena.count(), arena.take(1).map(|buf| buf.len())), (1, Some(1)));
}

/// The queue is destroyed last, so the device owns a buffer after all other objects are dropped.
/// Proves R18.4.
#[test]
fn memory_stays_while_the_device_has_a_buffer() {
    let others = [Personality::Plain, Personality::Rxe, Personality::Mlx5];
    // Miri takes long for each of them, and the worst has all habits.
    let (others, worst) = if cfg!(miri) { (&[][..], 1) } else { (&others[..], 4) };
    for personality in others.iter().copied().chain((0..worst).map(Personality::worst)) {
        let context = Fabric::with(World::ipv4().personality(personality)).open_device();
        let pd = context.alloc_pd().unwrap();
        let mut cq = context.create_cq::<Buf>(8).unwrap();
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 2, recv: 2 }).unwrap();
        let mut qp =
            qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() }).unwrap();
        let (keeper, fate) = Keeper::new(256);
        let pool = pd.pool(64).create_in(keeper.memory::<Private, Writable>(0)).unwrap();
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        drop((pool, pd, context));
        assert_eq!(fate.drops.load(SeqCst), 0, "{personality:?}");
        drop(qp);
        while cq.poll_one().unwrap().is_some() {}
        drop(cq);
        assert_eq!(fate.drops.load(SeqCst), 1, "{personality:?}");
    }
}

/// Memory of the caller stays allocated while the device has it registered.
/// Proves R18.4.
#[test]
fn memory_that_the_device_does_not_give_up_is_not_freed() {
    let fabric = Fabric::new();
    let context = fabric.open_device();
    let pd = context.alloc_pd().unwrap();
    let (keeper, fate) = Keeper::new(64);
    let memory = keeper.memory::<Private, Writable>(0);
    let region = pd.region::<RemoteRead>().create_in(memory).unwrap();
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    let region = region.destroy().unwrap_err().into_object(); // reports the error
    let mut seven = [0; 1];
    region.read_at(63, &mut seven).unwrap();
    assert_eq!((seven, fate.drops.load(SeqCst)), ([7], 0));
    fabric.inject(Script::default().with(Fault::Busy.always()));
    drop(region); // cannot report it
    assert_eq!(fate.drops.load(SeqCst), 0);
}

/// Memory that the device deregisters on the second try is freed.
#[test]
fn memory_that_the_device_gives_up_when_it_is_asked_again_is_freed() {
    let fabric = Fabric::new();
    let pd = fabric.open_device().alloc_pd().unwrap();
    let (keeper, fate) = Keeper::new(64);
    let region =
        pd.region::<RemoteRead>().create_in(keeper.memory::<Private, Writable>(0)).unwrap();
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    drop(region);
    assert_eq!((fabric.injected().busy, fate.drops.load(SeqCst)), (1, 1));
    pd.destroy().unwrap();
}

/// A region without rights for peers does not have a key that a peer could guess.
#[test]
fn local_rights_make_no_key_for_peers() {
    fn rkey<A: Access>(pd: &ProtectionDomain) -> u32 {
        pd.register::<A>(8).unwrap().registered().rkey()
    }
    let pd = Fabric::new().open_device().alloc_pd().unwrap();
    assert_eq!([rkey::<LocalRead>(&pd), rkey::<LocalWrite>(&pd)], [0, 0]);
    assert!([rkey::<RemoteRead>(&pd), rkey::<RemoteWrite>(&pd)].iter().all(|&rkey| rkey != 0));
}

/// Proves R18.4.
#[test]
fn a_keeper_may_panic_when_it_is_dropped() {
    let pair = loopback::pair().unwrap();
    let panicking = || {
        let (mut keeper, fate) = Keeper::new(64);
        keeper.panics = true;
        (keeper.memory::<Private, Writable>(0), fate)
    };
    let (memory, fate) = panicking();
    let pool = pair.pd.pool(64).create_in(memory).unwrap();
    let buf = pool.take().unwrap();
    drop(pool);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(buf))).is_err());
    assert_eq!(fate.drops.load(SeqCst), 1);
    let (memory, fate) = panicking();
    let region = pair.pd.region::<RemoteRead>().create_in(memory).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(region))).is_err());
    assert_eq!(fate.drops.load(SeqCst), 1);
    // The device no longer owns any of them.
    let Pair { pd, pool, cq, a, b, .. } = pair;
    drop((a, b, cq, pool));
    pd.destroy().unwrap();
}

/// Proves R18.4.
#[test]
fn a_context_that_panics_leaves_nothing_registered() {
    let Pair { pd, pool, cq, a, b, .. } = loopback::pair().unwrap();
    drop((a, b, cq, pool));
    let (keeper, fate) = Keeper::new(64);
    let memory = keeper.memory::<Private, Writable>(0);
    let made = catch_unwind(AssertUnwindSafe(|| {
        pd.pool(16).contexts(|index| assert!(index < 2)).create_in(memory).map(drop).map_err(drop)
    }));
    assert!(made.is_err());
    assert_eq!(fate.drops.load(SeqCst), 1);
    pd.destroy().unwrap();
}

/// Proves R18.4.
#[test]
fn the_last_buffer_may_go_on_another_thread() {
    let pair = loopback::pair().unwrap();
    let (keeper, fate) = Keeper::new(64);
    let pool = pair.pd.pool(64).create_in(keeper.memory::<Private, Writable>(0)).unwrap();
    let buf = pool.take().unwrap();
    drop(pool);
    let there = thread::spawn(move || {
        drop(buf);
        thread::current().id()
    });
    assert_eq!(Some(there.join().unwrap()), *fate.thread.lock().unwrap());
}

/// Read-only memory that others read at the same time: a peer, and the program through references.
/// Proves R6.3.
#[test]
fn read_only_memory_is_read() {
    fn by_a_peer<M: Memory<Protection = ReadOnly>>(memory: M, expected: &[u8]) -> M {
        let Pair { pd, mut a, b: _b, mut cq, pool, .. } = loopback::pair().unwrap();
        let region: MemoryRegion<RemoteRead, M> = pd.region().create_in(memory).unwrap();
        a.post_send(wr::RdmaRead::new(pool.take().unwrap(), region.remote().read())).unwrap();
        let read = loopback::poll(&mut cq, 1).unwrap().remove(0).unwrap();
        assert_eq!(&read[..], expected);
        for (from, len) in [(0, expected.len()), (1, 9), (3, 2), (expected.len(), 0)] {
            let mut own = vec![0; len];
            region.read_at(from, &mut own).unwrap();
            assert_eq!(own, expected[from..from + len]);
        }
        region.destroy().unwrap()
    }
    const TABLE: &[u8] = b"in the program's text, and not to be written";
    by_a_peer(TABLE, TABLE);
    let shared: Arc<[u8]> = TABLE.into();
    let other = shared.clone();
    let reader = thread::spawn(move || assert_eq!(&other[..], TABLE));
    by_a_peer(shared, TABLE);
    reader.join().unwrap();
    let (keeper, fate) = Keeper::new(40);
    by_a_peer(keeper.memory::<Shared, ReadOnly>(3), &[7; 34]);
    assert_eq!(fate.drops.load(SeqCst), 1);
}

/// A peer cannot write memory that was registered for reading, whatever key it uses. A part of a
/// table is sent on many queue pairs, is read at the same time, and keeps the table.
#[test]
fn a_part_of_read_only_memory_is_sent() {
    crate::profile! { Fanout { entry: SharedBuf } }
    let mut pair = loopback::pair_of::<Fanout>().unwrap();
    let there = pair.pd.register::<RemoteWrite>(64).unwrap();
    let at = there.remote().write();
    let table: Arc<[u8]> = (0..64).collect();
    let region = pair.pd.region::<RemoteRead>().create_in(table.clone()).unwrap();
    assert!(region.share(60, 5).is_err() && region.share(0, 0).unwrap().is_empty());
    let mut part = region.share(3, 40).unwrap();
    part.set_id(1 << 40);
    assert_eq!((&part[..], part.handles()), (&table[3..43], 2));
    for _ in 0..3 {
        pair.a.post_send(wr::RdmaWrite::new(part.clone(), at)).unwrap();
    }
    assert_eq!(part.handles(), 5);
    let other = part.clone();
    thread::spawn(move || assert_eq!(other[39], 42)).join().unwrap();
    let returned = loopback::poll(&mut pair.cq, 3).unwrap();
    assert!(returned.iter().flatten().all(|part| part.id() == 1 << 40));
    let mut out = [0; 40];
    there.read_at(0, &mut out).unwrap();
    assert_eq!(out[..], table[3..43]);
    drop(returned);
    let part = part.thaw::<()>().unwrap_err();
    let region = region.destroy().unwrap_err().into_object();
    drop(part);
    let back: Arc<[u8]> = region.destroy().unwrap();
    assert!(Arc::ptr_eq(&back, &table));
}

/// Proves R6.3.
#[test]
fn read_only_memory_is_not_written_by_peers() {
    let Pair { pd, mut a, b: _b, mut cq, pool, .. } = loopback::pair().unwrap();
    let region: MemoryRegion<RemoteRead, &'static [u64]> =
        pd.region().create_in(&[1u64, 2][..]).unwrap();
    let key = region.remote();
    let forged = RemoteSlice::<RemoteWrite>::from_parts(key.addr, 16, key.rkey());
    a.post_send(wr::RdmaWrite::new(pool.take().unwrap(), forged.write())).unwrap_err();
    let mut short = pool.take().unwrap();
    short.set_len(16);
    a.post_send(wr::RdmaWrite::new(short, forged.write())).unwrap();
    assert!(loopback::poll(&mut cq, 1).is_err());
    assert_eq!(region.destroy().unwrap(), [1, 2]);
}

/// A length is in bytes, and the minimum is one.
#[test]
#[cfg_attr(miri, ignore = "maps files, which Miri does not support")]
fn mappings_have_the_length_that_was_asked_for() {
    use crate::memory::{MapOptions, Mapping};
    for len in [1, 5, 4096, 4097] {
        let mapping: Mapping = MapOptions::new().anonymous(len).unwrap();
        assert_eq!(mapping.len(), len);
        let (mapping, fd) = MapOptions::new().memfd("a test", len).unwrap();
        let size = std::fs::File::from(fd).metadata().unwrap().len();
        assert_eq!((mapping.len(), size), (len, len as u64));
    }
    assert!(MapOptions::new().anonymous(0).is_err());
}

/// A file in memory that can be truncated is not sealed, whatever other seals it has.
#[test]
#[cfg_attr(miri, ignore = "maps files, which Miri does not support")]
fn only_what_cannot_be_cut_off_is_sealed() {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use crate::memory::MapOptions;
    for (flags, seals, is_sealed) in [
        (0, 0, false), // F_SEAL_SEAL
        (libc::MFD_ALLOW_SEALING, 0, false),
        (libc::MFD_ALLOW_SEALING, libc::F_SEAL_GROW, false),
        (libc::MFD_ALLOW_SEALING, libc::F_SEAL_SHRINK, true),
    ] {
        // SAFETY: the name is a C string, and the descriptor has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"a test".as_ptr(), flags)) };
        let file = std::fs::File::from(fd);
        file.set_len(4096).unwrap();
        if seals != 0 {
            // SAFETY: the descriptor is open.
            assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
        }
        let mapping = MapOptions::new().file(&file, 0..4096).unwrap();
        assert_eq!(mapping.is_sealed(), is_sealed, "{flags} {seals}");
    }
}

/// The loopback device pins pages like the kernel: for writing, if one of the rights allows writes,
/// and MW_BIND counts as one (`ib_access_writable`). The types do not allow such a right for
/// read-only memory, so this test calls the functions below them.
#[test]
#[cfg(not(miri))]
fn read_only_pages_are_not_pinned_to_be_written() {
    use crate::memory::registered::{AccessFlags, Registered};
    static TABLE: [u64; 1024] = [7; 1024];
    let pd = loopback::pair().unwrap().pd;
    fn errno<M: Memory>(pd: &ProtectionDomain, memory: M, access: AccessFlags) -> Option<i32> {
        let made = Registered::all(pd, memory, access);
        made.err().map(|refused| refused.error.errno().unwrap())
    }
    let read = AccessFlags::REMOTE_READ;
    assert_eq!(errno(&pd, &TABLE[..], read), None);
    assert_eq!(errno(&pd, &TABLE[..], AccessFlags::empty()), None);
    assert_eq!(errno(&pd, &TABLE[..], read | AccessFlags::MW_BIND), Some(libc::EFAULT));
    assert_eq!(errno(&pd, vec![0u64; 1024], read | AccessFlags::MW_BIND), None);
    // If only its type is read-only, its pages are not.
    let arc = Arc::<[u64]>::from(vec![7; 1024]);
    assert_eq!(errno(&pd, arc, read | AccessFlags::MW_BIND), None);
}
