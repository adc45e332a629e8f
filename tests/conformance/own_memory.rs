//! Pools and regions in each kind of memory that the program already has.

use proverbs::completion::WcOpcode;
#[cfg(not(miri))]
use proverbs::memory::{HugePage, MapOptions, ReadOnly, SharedMapping};
use proverbs::memory::{Mapping, Memory, Private, Writable};
use proverbs::prelude::*;

use crate::support::*;

#[cfg(not(miri))]
const PAGE: u64 = 4096;

/// Receives and sends a message with a pool in this memory. Returns the memory.
fn as_pool<M: Memory<Sharing = Private, Protection = Writable>>(memory: M) -> M {
    as_pool_of(memory, 64)
}

/// The same with buffers of `size` bytes.
fn as_pool_of<M: Memory<Sharing = Private, Protection = Writable>>(memory: M, size: usize) -> M {
    let mut p = Pair::<Rc>::new();
    let pool = p.pd.pool(size).contexts(|_| ()).create_in(memory).unwrap();
    p.b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    p.a.post_send(wr::Send::new(filled(&pool, b"in own memory"))).unwrap();
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    assert_eq!(got.data(), b"in own memory");
    let pool = pool.destroy().map(drop).unwrap_err().into_object();
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    drop((got, sent));
    pool.destroy().map_err(|refused| refused.error).unwrap()
}

/// A peer's WRITE and, if the fabric has them, an atomic, into a region in this memory, then a READ
/// of them. Returns the memory.
fn as_region<M: Memory<Protection = Writable>>(memory: M) -> M {
    profile! { Any { entry: AnyBuf } }
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.region::<RemoteReadWrite>().create_in::<M>(memory).unwrap();
    let at = region.remote();
    region.write_at(64, &[0; 32]).unwrap();
    p.a.post_send(wr::RdmaWrite::new(
        filled(&p.pool, b"by a peer"),
        at.slice(64, 9).unwrap().write(),
    ))
    .unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let mut read = [0; 9];
    region.read_at(64, &mut read).unwrap();
    assert_eq!(&read, b"by a peer");
    // The region is dropped while the device uses it, so the memory stays.
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), at.slice(64, 9).unwrap().read())).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(region.piece(64, 9).unwrap())).unwrap();
    let region = region.destroy().map(drop).unwrap_err().into_object();
    let mut sent: Vec<_> = poll(&p.dev, &mut p.ca, 2).into_iter().map(Done::sent).collect();
    // On siw the READ may complete last (R24.13).
    sent.sort_by_key(|sent| sent.opcode != WcOpcode::RdmaRead);
    let read = sent.remove(0).entry.unwrap().into_buf().unwrap();
    assert_eq!(&read[..], b"by a peer");
    drop(sent);
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
    holds(got.into_buf().unwrap(), b"by a peer");
    let memory = region.destroy().map_err(|refused| refused.error).unwrap();
    if !p.dev.ctx.protocol(1).unwrap().has_atomics() {
        return memory;
    }
    let region = p.pd.region::<RemoteAll>().create_in::<M>(memory).unwrap();
    // The bytes of a vector may begin at any address.
    let cell = (80..88).find_map(|offset| region.remote().atomic(offset).ok()).unwrap();
    p.a.post_send(wr::FetchAndAdd::new(poisoned(&p.pool), cell, 1)).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let mut read = [0; 23];
    region.read_at(73, &mut read).unwrap();
    assert_eq!(read.iter().filter(|byte| **byte != 0).sum::<u8>(), 1);
    region.destroy().map_err(|refused| refused.error).unwrap()
}

/// Proves R18.1.
#[test]
fn vectors_and_boxes() {
    fails_on!(KeptRegions);
    let vector = as_region(as_pool(vec![1u8; 1000]));
    assert_eq!((&vector[64..73], vector[999]), (&b"by a peer"[..], 1));
    let words: Box<[u64]> = as_region(as_pool(vec![1; 125].into()));
    assert_eq!((words[8].to_ne_bytes(), words[124]), (*b"by a pee", 1));
}

/// Proves R18.1.
#[test]
fn anonymous_mappings() {
    fails_on!(KeptRegions);
    let mut memory = Mapping::new(10_000).unwrap();
    assert!(memory.iter().all(|byte| *byte == 0));
    memory[9_999] = 1;
    let memory = as_region(as_pool(memory));
    assert_eq!((memory.len(), &memory[64..73], memory[9_999]), (10_000, &b"by a peer"[..], 1));
}

/// Proves R18.6.
#[test]
#[cfg_attr(miri, ignore = "Miri aborts if it cannot allocate this size")]
fn a_mapping_of_no_bytes_or_of_too_many() {
    for (len, errno) in [(0, 22), (usize::MAX, 12), (isize::MAX as usize, 12)] {
        let error = Mapping::new(len).unwrap_err();
        assert_eq!((error.verb(), error.errno()), ("mmap", Some(errno)), "{len}");
    }
    assert_eq!(said(&Mapping::new(0).unwrap_err()), "mmap: EINVAL: Invalid argument (0 bytes)");
}

/// A buffer is in flight while all objects of the program are dropped: the mapping is dropped last.
/// Proves R18.4.
#[test]
fn a_mapping_stays_while_the_device_has_a_buffer() {
    let Pair { a, mut b, ca, cb, pool: other, pd, dev } = Pair::<Rc>::new();
    let pool = pd.pool(64).create_in(Mapping::new(4096).unwrap()).unwrap();
    b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    drop((pool, pd));
    let mut a = a;
    a.post_send(wr::Send::new(filled(&other, b"into an object without a handle"))).unwrap();
    let mut cb = cb;
    let got = poll(&dev, &mut cb, 1).remove(0).received();
    drop((a, b, ca, cb, other));
    assert_eq!(got.data(), b"into an object without a handle");
}

/// Proves R18.11.
#[test]
#[cfg(not(miri))]
fn a_mapping_that_is_populated_locked_and_not_inherited() {
    fails_on!(KeptRegions);
    // Populated memory has pages of its own instead of the shared zero page.
    for locked in [false, true] {
        let options = MapOptions::new().populate().dontfork();
        let options = if locked { options.locked() } else { options };
        let memory = options.anonymous(8192).unwrap();
        let place = memory.as_ptr().addr();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let of_it = maps.split("VmFlags:").find(|map| map.lines().any(|line| covers(line, place)));
        let of_it = of_it.expect("the mapping is listed");
        // Its own flags follow its name; the lines of the next mapping follow them.
        let flags = maps.split_once(of_it).unwrap().1.lines().next().unwrap().to_owned();
        assert_eq!((flags.contains(" lo"), flags.contains(" dc")), (locked, true), "{flags}");
        assert!(
            of_it.lines().any(|line| line.starts_with("Rss:") && line.contains(" 8 kB")),
            "{of_it}"
        );
        as_region(as_pool(memory));
    }
}

/// Whether a line of /proc/self/smaps begins a mapping that contains this address.
#[cfg(not(miri))]
fn covers(line: &str, place: usize) -> bool {
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let number = |text| usize::from_str_radix(text, 16).ok();
    range
        .and_then(|(from, to)| Some(number(from)? <= place && place < number(to)?))
        .unwrap_or(false)
}

/// Proves R18.8.
#[test]
#[cfg(not(miri))]
fn a_missing_node_is_reported() {
    let error = MapOptions::new().node(1000).anonymous(8192).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("mbind", Some(22)));
    let text = error.to_string();
    assert!(text.contains("(node 1000, online nodes: 0"), "{text}");
    let error = MapOptions::new().node(1024).anonymous(8192).unwrap_err();
    assert_eq!(error.to_string(), "mbind: node 1024 exceeds 1023");
}

/// Proves R18.8.
#[test]
#[cfg(not(miri))]
fn more_huge_pages_than_there_are() {
    for huge in [HugePage::MiB2, HugePage::GiB1] {
        let pages = 1 << 20;
        let error = MapOptions::new().huge(huge).anonymous(pages * huge.size()).unwrap_err();
        let ErrorKind::HugePages { asked, page, free, node } = *error.kind() else {
            panic!("{error}")
        };
        assert_eq!((asked, page, node), (pages as u64, huge.size() as u64, None));
        assert!(free < asked);
        assert_eq!(error.errno(), Some(12));
        let text = error.to_string();
        assert!(text.contains("sysctl vm.nr_hugepages"), "{text}");
    }
}

/// In a guest with huge pages of both sizes on each of `PROVERBS_NUMA_NODES` nodes.
/// Proves R18.8.
#[test]
#[cfg(not(miri))]
fn huge_pages_of_both_sizes_on_each_node() {
    let Ok(nodes) = std::env::var("PROVERBS_NUMA_NODES") else {
        println!(
            "skipped: no huge pages are reserved here (`cargo xtask soft-roce --numa` reserves \
             some)"
        );
        return;
    };
    let nodes: u32 = nodes.parse().expect("PROVERBS_NUMA_NODES must be a number");
    assert!(nodes > 1);
    for huge in [HugePage::MiB2, HugePage::GiB1] {
        for node in 0..nodes {
            let options = MapOptions::new().huge(huge).node(node);
            let memory = options.locked().anonymous(huge.size()).unwrap();
            let line = numa_map(memory.as_ptr().addr());
            let page = format!("kernelpagesize_kB={}", huge.size() / 1024);
            let whose = format!(" bind:{node} ");
            for expected in [&whose, &format!(" N{node}=1"), &page] {
                assert!(line.contains(expected.as_str()), "{expected:?} is not in {line}");
            }
            let memory = as_region(as_pool_of(memory, huge.size() / 4));
            assert_eq!((memory.len(), &memory[64..73]), (huge.size(), &b"by a peer"[..]));
            drop(memory);

            // Pages that exist, but not on this node.
            let more = free_on(node, huge) + 1;
            let error = options.anonymous(more * huge.size()).unwrap_err();
            let ErrorKind::HugePages { asked, free, node: at, .. } = *error.kind() else {
                panic!("{error}")
            };
            assert_eq!((asked, free, at), (more as u64, more as u64 - 1, Some(node)), "{error}");
        }
        // On any node, and not populated: no page yet.
        let memory = MapOptions::new().huge(huge).anonymous(1).unwrap();
        assert!(!numa_map(memory.as_ptr().addr()).contains(" N0="));
        drop(memory);
        let (memory, fd) = MapOptions::new().huge(huge).memfd("huge", huge.size()).unwrap();
        let memory = as_region(memory);
        assert!(memory.is_sealed());
        drop((memory, fd));
    }
}

/// The line of /proc/self/numa_maps for the mapping that begins at `place`.
#[cfg(not(miri))]
fn numa_map(place: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap();
    let start = format!("{place:x} ");
    let line = maps.lines().find(|line| line.trim_start_matches('0').starts_with(&start));
    format!("{} ", line.expect("the mapping is there"))
}

/// The free huge pages of a node.
#[cfg(not(miri))]
fn free_on(node: u32, huge: HugePage) -> usize {
    let kilobytes = huge.size() / 1024;
    let name = format!("hugepages/hugepages-{kilobytes}kB/free_hugepages");
    let path = format!("/sys/devices/system/node/node{node}/{name}");
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// Proves R18.2, R18.9, R18.10.
#[test]
#[cfg(not(miri))]
fn a_memfd() {
    fails_on!(KeptRegions);
    let (memory, fd) = MapOptions::new().memfd("proverbs", 10_000).unwrap();
    assert!(memory.is_sealed());
    // Another process would map it from the descriptor in the same way.
    let other = MapOptions::new().file(&fd, 0..10_000).unwrap();
    let memory = as_region(memory);
    let mut read = [0; 9];
    other.read_at(64, &mut read).unwrap();
    assert_eq!(&read, b"by a peer");
    other.write_at(9_999, b"x").unwrap();
    memory.read_at(9_999, &mut read[..1]).unwrap();
    assert_eq!(read[0], b'x');
    assert!(memory.read_at(9_999, &mut read).is_err() && other.write_at(10_000, b"x").is_err());
    // No process truncates it.
    let file = std::fs::File::from(fd);
    assert_eq!(file.set_len(0).unwrap_err().raw_os_error(), Some(1));
}

/// Proves R18.2.
#[test]
#[cfg(not(miri))]
fn a_file_for_writing_and_for_reading() {
    fails_on!(Siw, "R18.6");
    fails_on!(KeptRegions);
    let path = std::env::temp_dir().join(format!("proverbs-own-memory-{}", std::process::id()));
    let mut options = std::fs::File::options();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.set_len(3 * PAGE).unwrap();
    let memory = MapOptions::new().file(&file, PAGE..2 * PAGE + 100).unwrap();
    assert_eq!((memory.len(), memory.is_empty(), memory.is_sealed()), (4196, false, false));
    drop(as_region(memory));
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(&bytes[4096 + 64..][..9], b"by a peer");

    let read_only = std::fs::File::open(&path).unwrap();
    let error = MapOptions::new().file(&read_only, 0..PAGE).unwrap_err();
    assert_eq!(error.errno(), Some(13));
    let view: SharedMapping<ReadOnly> =
        MapOptions::new().populate().file_read_only(&read_only, PAGE..2 * PAGE).unwrap();
    let mut word = [0; 9];
    view.read_at(64, &mut word).unwrap();
    assert_eq!(&word, b"by a peer");
    view.read_at(view.len() - 9, &mut word).unwrap();
    for offset in [view.len() - 8, view.len(), usize::MAX] {
        assert!(view.read_at(offset, &mut word).is_err(), "{offset}");
    }

    let mut p = Pair::<Rc>::new();
    let region = p.pd.region::<RemoteRead>().create_in(view);
    // Linux 6.1 pins no read-only mapping of a file.
    let errno = by_rule!(p.dev, "R18.6", loopback: None, rxe before (6, 12): Some(14));
    let region = match region {
        Ok(region) => region,
        Err(refused) => {
            assert_eq!(refused.error.errno(), errno, "{refused}");
            assert_eq!(refused.into_object().len(), 4096);
            std::fs::remove_file(&path).unwrap();
            return;
        }
    };
    assert_eq!(errno, None);
    let at = region.remote().slice(64, 9).unwrap();
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), at.read())).unwrap();
    let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    assert_eq!(&read[..], b"by a peer");
    // This program reads the bytes that others write.
    let writer = MapOptions::new().file(&file, PAGE..2 * PAGE).unwrap();
    writer.write_at(70, b"changed").unwrap();
    region.read_at(64, &mut word).unwrap();
    assert_eq!(&word, b"by a pcha");
    std::fs::remove_file(&path).unwrap();
}

/// Proves R18.6, R18.9.
#[test]
#[cfg(not(miri))]
fn a_range_beyond_the_file() {
    let (_, fd) = MapOptions::new().memfd("proverbs", 8192).unwrap();
    let map = |range| MapOptions::new().file(&fd, range).unwrap_err().to_string();
    assert_eq!(map(0..8193), "mmap: end of the range 8193 exceeds 8192");
    assert_eq!(map(PAGE..u64::MAX), format!("mmap: end of the range {} exceeds 8192", u64::MAX));
    assert_eq!(map(PAGE..PAGE), "mmap: EINVAL: Invalid argument (bytes 4096..4096 of a file)");
    assert_eq!(map(1..100), "mmap: EINVAL: Invalid argument (bytes 1..100 of a file)");
    #[allow(clippy::reversed_empty_ranges)] // such a range is rejected
    let reversed = 2 * PAGE..PAGE;
    assert_eq!(map(reversed), "mmap: EINVAL: Invalid argument (bytes 8192..4096 of a file)");
    let device = std::fs::File::open("/dev/null").unwrap();
    let error = MapOptions::new().file(&device, 0..PAGE).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { max: 0, .. }), "{error}");
    let error = MapOptions::new().memfd("a\0b", 8192).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("memfd_create", Some(22)));
    for len in [0, usize::MAX / 2 + 1] {
        MapOptions::new().memfd("proverbs", len).unwrap_err();
    }
    // A name has the length limit of a path component.
    let error = MapOptions::new().memfd(&"long".repeat(100), 8192).unwrap_err();
    assert_eq!(error.errno(), Some(22));
}

/// A region of read-only memory ends where the memory ends, for each kind of memory.
#[test]
fn a_read_only_region_ends_where_its_memory_does() {
    let p = Pair::<Rc>::new();
    let bytes: &'static [u8] = b"sixteen bytes...";
    let region = p.pd.region::<RemoteRead>().create_in(bytes).unwrap();
    let mut there = [0; 8];
    region.read_at(8, &mut there).unwrap();
    assert_eq!(&there, b"bytes...");
    region.read_at(16, &mut []).unwrap();
    for (offset, len) in [(9, 8), (16, 1), (17, 0), (usize::MAX, 8)] {
        let error = region.read_at(offset, &mut there[..len]).unwrap_err();
        assert_eq!((error.offset, error.available), (offset as u64, 16));
        assert_eq!(&there, b"bytes...", "nothing was copied");
    }
}
