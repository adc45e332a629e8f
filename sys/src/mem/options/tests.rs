//! The options of a mapping, and the pages it gets.

use std::ffi::c_int;
use std::os::fd::AsFd;

use super::*;
use crate::terms::error::ErrorKind;

const PAGE: usize = 4096;

impl MapOptions {
    fn new() -> Self {
        Self::default()
    }

    fn huge(self, page: HugePage) -> Self {
        MapOptions { huge: Some(page), ..self }
    }

    fn node(self, node: u32) -> Self {
        MapOptions { node: Some(node), ..self }
    }

    fn populate(self) -> Self {
        MapOptions { populate: true, ..self }
    }

    fn locked(self) -> Self {
        MapOptions { locked: true, ..self }
    }

    fn dontfork(self) -> Self {
        MapOptions { dontfork: true, ..self }
    }
}
const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

fn of_pages(count: usize, protection: c_int) -> Map {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    Map::new(count * PAGE, PAGE, protection, flags, None).unwrap()
}

/// A mapping with its own line in /proc/self/smaps: it has an advice that no other mapping has, so
/// the kernel does not merge it with an adjacent mapping of another thread.
fn apart() -> Map {
    let map = of_pages(4, READ_WRITE);
    let base = map.base().as_ptr().cast();
    // SAFETY: the mapping exists, and the advice does not change its contents.
    assert_eq!(unsafe { libc::madvise(base, map.len(), libc::MADV_SEQUENTIAL) }, 0);
    map
}

/// The number of its pages that are in memory.
fn resident(map: &Map) -> usize {
    let mut pages = vec![0; map.len() / PAGE];
    // SAFETY: the mapping exists, and there is a byte for each of its pages.
    let code = unsafe { libc::mincore(map.base().as_ptr().cast(), map.len(), pages.as_mut_ptr()) };
    assert_eq!(code, 0);
    pages.iter().filter(|page| **page & 1 != 0).count()
}

/// Only the requested options apply: on a node only huge pages are populated immediately.
#[test]
fn pages_are_there_if_asked_for() {
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
        // (`apply_to` accepts mappings with any pages.)
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

/// As in the manual: the logarithm of the size, above the other flags.
#[test]
fn huge_pages_are_asked_for_by_their_size() {
    let flags = |huge| MapOptions::new().huge(huge).huge_flags(libc::MAP_HUGETLB);
    assert_eq!(flags(HugePage::MiB2), libc::MAP_HUGETLB | libc::MAP_HUGE_2MB);
    assert_eq!(flags(HugePage::GiB1), libc::MAP_HUGETLB | libc::MAP_HUGE_1GB);
    assert_eq!(MapOptions::new().huge_flags(libc::MAP_HUGETLB), 0);
}

/// Each page is populated. A writable mapping gets its own dirty pages.
#[test]
fn pages_are_populated_for_what_they_are_for() {
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
    let fd = options().memfd("dirty", 4 * PAGE).unwrap();
    let (shared, is_sealed) = options().file(fd.as_fd(), 0..4 * PAGE as u64, true).unwrap();
    assert!(is_sealed);
    assert_eq!(dirty(shared.base().addr().get()), "16 kB");
}

/// Options that were not requested do not change a mapping.
#[test]
fn a_mapping_is_what_was_asked_for() {
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

/// Other code unmapped a page of the mapping, so all options fail.
#[test]
fn what_cannot_be_had_is_told() {
    let new = MapOptions::new;
    for options in [new().dontfork(), new().populate(), new().locked()] {
        let map = of_pages(3, READ_WRITE);
        // SAFETY: a page of the mapping, which is not in use.
        unsafe { libc::munmap(map.base().as_ptr().add(PAGE).cast(), PAGE) };
        let error = options.apply_to(map, true).err().unwrap();
        assert_eq!(error.errno(), Some(libc::ENOMEM), "{options:?}: {error}");
    }
    let error = new().node(1023).apply_to(of_pages(1, READ_WRITE), true).err().unwrap();
    assert_eq!((error.verb(), error.errno()), ("mbind", Some(libc::EINVAL)));
}

#[test]
fn a_lack_of_huge_pages_is_told_as_such() {
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

/// If the kernel cannot extend a file, the verb that creates it fails. Here a limit of the
/// process causes this (setrlimit(2)), in a separate process.
#[test]
fn a_file_that_cannot_have_its_length() {
    const CHILD: &str = "PROVERBS_SHORT_FILES";
    if std::env::var_os(CHILD).is_none() {
        let this = std::env::current_exe().unwrap();
        let name = "mem::options::tests::a_file_that_cannot_have_its_length";
        let child = std::process::Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact \"$1\""])
            .args([this.as_os_str(), name.as_ref()])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let error = MapOptions::new().memfd("long", 1 << 20).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("memfd_create", Some(libc::EFBIG)));
}

/// A file can be created without a single huge page. Only its mapping takes some.
#[test]
fn a_file_of_huge_pages_is_mapped_in_those() {
    let fd = |flags| {
        // SAFETY: the name is a C string, and a valid descriptor has no other owner.
        unsafe {
            let fd = libc::memfd_create(c"pages".as_ptr(), libc::MFD_CLOEXEC | flags);
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
        }
    };
    assert_eq!(page_of(fd(0).unwrap().as_fd()), page());
    match fd(libc::MFD_HUGETLB | libc::MFD_HUGE_2MB) {
        Some(huge) => assert_eq!(page_of(huge.as_fd()), 2 << 20),
        None => println!("skipped: this kernel has no pages of 2 MiB"),
    }
}
