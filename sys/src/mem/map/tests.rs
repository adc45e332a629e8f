use super::*;

const PAGE: usize = 4096;

fn of_pages(count: usize, protection: c_int) -> Map {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    Map::new(count * PAGE, PAGE, protection, flags, None).unwrap()
}

/// The number of its pages that are in memory.
fn resident(map: &Map) -> usize {
    let mut pages = vec![0; map.mapped / PAGE];
    // SAFETY: the mapping is there, and there is a byte for each of its pages.
    let code = unsafe { libc::mincore(map.base.as_ptr().cast(), map.mapped, pages.as_mut_ptr()) };
    assert_eq!(code, 0);
    pages.iter().filter(|page| **page & 1 != 0).count()
}

/// As before Linux 5.14: every page is resident, and none stays locked. (MADV_DONTNEED cannot
/// discard a locked page.)
#[test]
fn populating_by_locks_leaves_no_page_locked() {
    let map = of_pages(4, libc::PROT_READ | libc::PROT_WRITE);
    assert_eq!(resident(&map), 0);
    map.populate_by_locks().unwrap();
    assert_eq!(resident(&map), 4);
    map.advise(libc::MADV_DONTNEED).unwrap();
    assert_eq!(resident(&map), 0);
    map.lock().unwrap();
    assert_eq!(map.advise(libc::MADV_DONTNEED), Err(libc::EINVAL));
}

#[test]
fn a_node_set_has_one_bit() {
    for node in [0, 1, 63, 64, 100, 1023] {
        let nodes = only(node).unwrap();
        let bits = (0..1024).filter(|bit| nodes[bit / WORD] >> (bit % WORD) & 1 != 0);
        assert_eq!(bits.collect::<Vec<_>>(), [node as usize]);
    }
    assert_eq!((only(1024), only(u32::MAX)), (None, None));
    let error = of_pages(1, libc::PROT_READ).bind(1024).unwrap_err();
    assert!(error.to_string().contains("1023"), "{error}");
}

/// The kernel counts reserved pages as free.
#[test]
fn reserved_pages_are_not_free() {
    let dir = std::env::temp_dir().join(format!("proverbs-pages-{}", std::process::id()));
    let write = |whose: &str, name: &str, text| {
        let path = dir.join(whose).join("hugepages").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("kernel/mm", "hugepages-2048kB/free_hugepages", "7\n");
    write("kernel/mm", "hugepages-2048kB/resv_hugepages", "3\n");
    // A node does not report reserved pages.
    write("devices/system/node/node1", "hugepages-1048576kB/free_hugepages", "2\n");
    let free = |huge: HugePage, node| huge.free(&dir, node);
    assert_eq!((free(HugePage::MiB2, None), free(HugePage::GiB1, Some(1))), (4, 2));
    assert_eq!((free(HugePage::GiB1, None), free(HugePage::GiB1, Some(0))), (0, 0));
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(free(HugePage::MiB2, None), 0);
}

#[test]
fn dropping_a_mapping_unmaps_it() {
    let mut page = 0;
    // SAFETY: this only checks whether there is a mapping, and the byte is a local.
    let mut is_there = |at: *mut u8| unsafe { libc::mincore(at.cast(), PAGE, &mut page) == 0 };
    let mut is_gone = || {
        let map = of_pages(2, libc::PROT_NONE);
        let at = map.base().as_ptr();
        assert!(is_there(at));
        drop(map);
        !is_there(at)
    };
    // (Another test may map the same address, but not each time.)
    assert!((0..1000).any(|_| is_gone()));
}

#[test]
fn impossible_lengths_are_refused() {
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
fn pages_that_cannot_be_populated_are_reported() {
    let error = of_pages(1, libc::PROT_NONE).populate_by_locks().unwrap_err();
    assert_eq!(error.verb(), "mlock");
}

/// A mapping never replaces existing memory.
#[test]
fn a_mapping_at_a_fixed_address_is_refused() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    for fixed in [libc::MAP_FIXED, libc::MAP_FIXED_NOREPLACE, libc::MAP_GROWSDOWN] {
        let refused = Map::new(PAGE, PAGE, libc::PROT_NONE, flags | fixed, None);
        assert_eq!(refused.err(), Some(libc::EINVAL));
    }
}
