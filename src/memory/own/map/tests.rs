use super::*;

const PAGE: usize = 4096;
const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

fn of_pages(count: usize, protection: c_int) -> Map {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    Map::new(count * PAGE, PAGE, protection, flags, None).unwrap()
}

/// A mapping that has a line of its own in /proc/self/smaps: with an advice that no other has, the
/// kernel does not join it with what another thread maps beside it.
fn apart() -> Map {
    let map = of_pages(4, READ_WRITE);
    map.advise(libc::MADV_SEQUENTIAL).unwrap();
    map
}

/// How many of its pages are in memory.
fn resident(map: &Map) -> usize {
    let mut pages = vec![0; map.mapped / PAGE];
    // SAFETY: the mapping is there, and there is a byte for each of its pages.
    let code = unsafe { libc::mincore(map.base.as_ptr().cast(), map.mapped, pages.as_mut_ptr()) };
    assert_eq!(code, 0);
    pages.iter().filter(|page| **page & 1 != 0).count()
}

/// As before Linux 5.14: every page is there, and none stays locked. (A locked page cannot be
/// given up by MADV_DONTNEED.)
#[test]
fn pages_are_populated_by_locks_that_do_not_stay() {
    let map = of_pages(4, libc::PROT_READ | libc::PROT_WRITE);
    assert_eq!(resident(&map), 0);
    map.populate_by_locks().unwrap();
    assert_eq!(resident(&map), 4);
    map.advise(libc::MADV_DONTNEED).unwrap();
    assert_eq!(resident(&map), 0);
    map.lock().unwrap();
    assert_eq!(map.advise(libc::MADV_DONTNEED), Err(libc::EINVAL));
}

/// What was asked for, and no more: on a node only huge pages are populated at once.
#[test]
fn pages_are_there_if_asked_for() {
    use crate::memory::MapOptions;
    let new = MapOptions::new;
    let huge = || new().huge(HugePage::MiB2);
    for (options, expected) in [
        (new(), 0),
        (new().dontfork(), 0),
        (new().node(0), 0),
        (huge(), 0),
        (huge().node(0), 4),
        (new().populate(), 4),
        (new().locked(), 4),
    ] {
        // (What `apply_to` is given may be of any pages.)
        let map = of_pages(4, libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(resident(&options.apply_to(map, true).unwrap()), expected, "{options:?}");
    }
    let map = of_pages(4, libc::PROT_READ);
    assert_eq!(resident(&new().populate().apply_to(map, false).unwrap()), 4);
    let refused = |options: MapOptions| {
        options.populate().apply_to(of_pages(4, libc::PROT_NONE), true).err().unwrap()
    };
    let error = refused(huge());
    assert!(matches!(error.kind(), ErrorKind::HugePages { asked: 1, .. }), "{error}");
    assert!(matches!(refused(new()).kind(), ErrorKind::Os { errno: libc::ENOMEM, .. }));
}

#[test]
fn a_set_of_one_node_has_its_bit() {
    for node in [0, 1, 63, 64, 100, 1023] {
        let nodes = only(node).unwrap();
        let bits = (0..1024).filter(|bit| nodes[bit / WORD] >> (bit % WORD) & 1 != 0);
        assert_eq!(bits.collect::<Vec<_>>(), [node as usize]);
    }
    assert_eq!((only(1024), only(u32::MAX)), (None, None));
    let error = of_pages(1, libc::PROT_READ).bind(1024).unwrap_err();
    assert!(error.to_string().contains("1023"), "{error}");
}

/// The kernel counts pages as free that it has promised to somebody.
#[test]
fn pages_that_are_reserved_are_not_free() {
    let dir = std::env::temp_dir().join(format!("proverbs-pages-{}", std::process::id()));
    let write = |whose: &str, name: &str, text| {
        let path = dir.join(whose).join("hugepages").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("kernel/mm", "hugepages-2048kB/free_hugepages", "7\n");
    write("kernel/mm", "hugepages-2048kB/resv_hugepages", "3\n");
    // A node has no number of the others.
    write("devices/system/node/node1", "hugepages-1048576kB/free_hugepages", "2\n");
    let free = |huge: HugePage, node| huge.free(&dir, node);
    assert_eq!((free(HugePage::MiB2, None), free(HugePage::GiB1, Some(1))), (4, 2));
    assert_eq!((free(HugePage::GiB1, None), free(HugePage::GiB1, Some(0))), (0, 0));
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(free(HugePage::MiB2, None), 0);
}

/// As in the manual: the size's logarithm, above the other flags.
#[test]
fn huge_pages_are_asked_for_by_their_size() {
    use crate::memory::MapOptions;
    let flags = |huge| MapOptions::new().huge(huge).huge_flags(libc::MAP_HUGETLB);
    assert_eq!(flags(HugePage::MiB2), libc::MAP_HUGETLB | libc::MAP_HUGE_2MB);
    assert_eq!(flags(HugePage::GiB1), libc::MAP_HUGETLB | libc::MAP_HUGE_1GB);
    assert_eq!(MapOptions::new().huge_flags(libc::MAP_HUGETLB), 0);
}

/// To a page of its own, which is dirty, if it can be written.
#[test]
fn pages_are_populated_for_what_they_are_for() {
    use crate::memory::{MapOptions, Memory};
    let dirty = |at: usize| {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{at:x}-");
        let mut of_it = maps.lines().skip_while(|line| !line.starts_with(&start));
        let size = of_it.find_map(|line| line.strip_prefix("Private_Dirty:"));
        size.unwrap().trim().to_owned()
    };
    let options = || MapOptions::new().populate();
    let writable = apart();
    assert_eq!(dirty(writable.base().addr().get()), "0 kB");
    let writable = options().apply_to(writable, true).unwrap();
    assert_eq!(dirty(writable.base().addr().get()), "16 kB");
    let (mut shared, fd) = options().memfd("dirty", 4 * PAGE).unwrap();
    assert_eq!(dirty(shared.bytes().addr().get()), "16 kB");
    drop(fd);
}

/// Nothing is done to a mapping that was not asked for.
#[test]
fn a_mapping_is_what_was_asked_for() {
    use crate::memory::MapOptions;
    let has = |options: MapOptions| {
        let map = options.apply_to(apart(), true).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", map.base().addr());
        let mut of_it = maps.lines().skip_while(|line| !line.starts_with(&start));
        let flags = of_it.find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        ["dc", "lo"].map(|flag| flags.split(' ').any(|one| one == flag))
    };
    let new = MapOptions::new;
    assert_eq!(has(new()), [false, false]);
    assert_eq!((has(new().dontfork()), has(new().locked())), ([true, false], [false, true]));
}

/// A mapping that something else made a hole into: whatever is asked for cannot be had.
#[test]
fn what_cannot_be_had_is_told() {
    use crate::memory::MapOptions;
    let new = MapOptions::new;
    for options in [new().dontfork(), new().populate(), new().locked()] {
        let map = of_pages(3, READ_WRITE);
        // SAFETY: a page of the mapping, which nothing uses.
        unsafe { libc::munmap(map.base().as_ptr().add(PAGE).cast(), PAGE) };
        let error = options.apply_to(map, true).err().unwrap();
        assert_eq!(error.errno(), Some(libc::ENOMEM), "{options:?}: {error}");
    }
    let error = new().node(1023).apply_to(of_pages(1, READ_WRITE), true).err().unwrap();
    assert_eq!((error.verb(), error.errno()), ("mbind", Some(libc::EINVAL)));
}

#[test]
fn a_lack_of_huge_pages_is_told_as_such() {
    use crate::memory::MapOptions;
    let huge = MapOptions::new().huge(HugePage::GiB1);
    let lacks = |options: &MapOptions, errno, len| {
        let error = options.refused("mmap", errno, "asked".into(), len);
        match error.kind() {
            ErrorKind::HugePages { asked, .. } => Some(*asked),
            _ => None,
        }
    };
    for errno in [libc::ENOMEM, libc::EINVAL] {
        assert_eq!(lacks(&huge, errno, 1), Some(1));
        assert_eq!(lacks(&huge, errno, (1 << 30) + 1), Some(2));
        assert_eq!((lacks(&huge, errno, 0), lacks(&MapOptions::new(), errno, 1)), (None, None));
    }
    assert_eq!(lacks(&huge, libc::EACCES, 1), None);
}

#[test]
fn a_mapping_is_gone_when_it_is_dropped() {
    let mut page = 0;
    // SAFETY: only says whether there is a mapping, and the byte is a local.
    let mut is_there = |at: *mut u8| unsafe { libc::mincore(at.cast(), PAGE, &mut page) == 0 };
    let mut is_gone = || {
        let map = of_pages(2, libc::PROT_NONE);
        let at = map.base().as_ptr();
        assert!(is_there(at));
        drop(map);
        !is_there(at)
    };
    // (Another test's mapping may come there at once, but not each time.)
    assert!((0..1000).any(|_| is_gone()));
}

#[test]
fn lengths_that_no_mapping_has_are_refused() {
    let new = |len| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Map::new(len, PAGE, libc::PROT_READ, flags, None).map(drop)
    };
    assert_eq!(new(0), Err(libc::EINVAL));
    for len in [isize::MAX as usize - PAGE, isize::MAX as usize, usize::MAX / 2 + 1, usize::MAX] {
        assert_eq!(new(len), Err(libc::ENOMEM), "{len}");
    }
}

#[test]
fn pages_that_cannot_be_populated_are_told() {
    let error = of_pages(1, libc::PROT_NONE).populate_by_locks().unwrap_err();
    assert_eq!(error.verb(), "mlock");
}
