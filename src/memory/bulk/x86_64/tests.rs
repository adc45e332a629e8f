//! Every way to copy, against plain arrays, and what each stores.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::WORD;
use super::*;

#[path = "tests/steps.rs"]
mod steps;

/// Held by those for whom it matters what `MASKS` says: one of them changes it.
fn masks() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    find_masks();
    one
}

/// No processor is given instructions that it lacks.
#[test]
fn each_processor_copies_as_it_can() {
    for (has, way, short) in [
        ((true, true), load_by_64 as Copy, 128),
        ((false, true), load_by_32, 0),
        ((false, false), by_8, 0),
    ] {
        let (best, most) = best_of(has, load_by_64, load_by_32);
        assert_eq!((best as *mut (), most), (way as *mut (), short), "{has:?}");
    }
}

#[test]
fn masks_take_both_abilities() {
    for (has, known) in
        [((true, true), YES), ((true, false), NO), ((false, true), NO), ((false, false), NO)]
    {
        let masks = Masks(AtomicU8::new(UNKNOWN));
        assert!(!masks.are_known());
        // SAFETY: nothing is copied by it.
        unsafe { masks.find(|| has) };
        assert_eq!(masks.0.load(Relaxed), known, "{has:?}");
        assert_eq!(masks.are_known(), known == YES);
        // SAFETY: nothing is copied by it.
        unsafe { masks.find(|| unreachable!("it is known")) };
        assert_eq!(masks.0.load(Relaxed), known, "{has:?}");
    }
}

/// A processor without masks is given none; one that has them is, for the lengths that are said.
#[test]
fn bytes_are_copied_with_masks_only() {
    let _one = masks();
    let known = MASKS.0.load(Relaxed);
    let has = is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512bw");
    assert_eq!(known == YES, has);
    let source = [7_u8; 200];
    let from = NonNull::from(&source).cast();
    let ways = (0..WORD).flat_map(|before| (1..140).map(move |len| (before, len)));
    for (before, len) in ways {
        for (masks, shared) in [(NO, Shared::From), (UNKNOWN, Shared::To), (known, Shared::To)] {
            MASKS.0.store(masks, Relaxed);
            let mut out = [0_u8; 200];
            let to = NonNull::from(&mut out).cast();
            // SAFETY: as many bytes each.
            let (short, any) = unsafe {
                let short = any_short(to, from, len, before, shared);
                (short, any(to, from, len, before, shared))
            };
            assert_eq!(any, masks == YES);
            assert_eq!(short, any && before + len > 64 && before + len <= 128);
            assert_eq!(out.iter().filter(|&&byte| byte == 7).count(), if any { len } else { 0 });
        }
    }
}

/// What others could do between any two instructions: each word is stored once, so what they store
/// stays; and what is beside a copy is not stored at all, not even as it was.
/// Proves R18.42.
#[test]
fn each_byte_is_stored_once_and_no_others() {
    const BESIDE: usize = 72;
    let _one = masks();
    let source: Vec<u8> = (0..1300).map(|i| (i % 127) as u8).collect();
    let mut room = vec![0_u64; (1200 + 2 * BESIDE) / WORD];
    let room = std::ptr::slice_from_raw_parts_mut(room.as_mut_ptr().cast::<u8>(), room.len() * 8);
    let base = NonNull::new(room.cast::<u8>()).expect("memory");
    // Parts of words are stored only when all can see them.
    let check = |name: &str, before: usize, len: usize, way: &dyn Fn(NonNull<u8>, NonNull<u8>)| {
        // SAFETY: within `room`, which is touched by the copy only. The source has no byte of
        // others.
        let stores = unsafe {
            let (to, from) = (base.add(BESIDE + before), NonNull::from(&source[3..]).cast());
            steps::stores(room, || way(to, from))
        };
        let Some(steps::Seen { stores, is_waited_for }) = stores else {
            return eprintln!("skipped: nothing stops after each instruction");
        };
        let of_bytes = name.starts_with("any");
        assert!(is_waited_for || !of_bytes, "{name}: {len} behind {before}");
        for (i, count) in stores.into_iter().enumerate() {
            let is_copied = (BESIDE + before..BESIDE + before + len).contains(&i);
            let place = i as isize - (BESIDE + before) as isize;
            assert_eq!(count, u32::from(is_copied), "{name}: {len} behind {before}: {place}");
        }
    };
    macro_rules! check {
        ($before:expr, $len:expr, |$to:ident, $from:ident| $call:expr) => {
            check(stringify!($call), $before, $len, &|$to, $from| {
                // SAFETY: `room` and `source` have as many bytes, and in `room` there are those
                // before them in their word.
                let _ = unsafe { $call };
            })
        };
    }
    for len in (LEAST..=136).step_by(WORD) {
        check!(0, len, |to, from| store(to.cast(), from.cast(), len));
        check!(0, len, |to, from| by_8(to.cast(), from.cast(), len));
    }
    for len in (LEAST..640).step_by(WORD).chain([1000, 1048, 1192]) {
        if is_x86_feature_detected!("avx") {
            check!(0, len, |to, from| store_by_32(to.cast(), from.cast(), len));
        }
        if is_x86_feature_detected!("avx512vl") {
            check!(0, len, |to, from| store_by_64(to.cast(), from.cast(), len));
        }
    }
    for before in 0..WORD {
        let lens = (1..140).step_by(9).chain([56, 64, 72, 120, 128, 129, 250, 500, 700, 1111]);
        for len in lens.filter(|_| MASKS.are_known()) {
            check!(before, len, |to, from| any(to, from, len, before, Shared::To));
            if matches!(before + len, 65..=128) {
                check!(before, len, |to, from| any_short(to, from, len, before, Shared::To));
            }
        }
    }
}

/// Every copy that this processor has instructions for, against a plain array.
#[test]
fn each_way_copies_words() {
    const MOST: usize = LONG / 8 + 2;
    let mut ways: Vec<(&str, Copy)> = vec![("by_8", by_8)];
    if is_x86_feature_detected!("avx") {
        ways.extend([("load_by_32", load_by_32 as Copy), ("store_by_32", store_by_32)]);
    }
    if is_x86_feature_detected!("avx512vl") {
        ways.extend([("load_by_64", load_by_64 as Copy), ("store_by_64", store_by_64)]);
    }
    let from: Vec<u64> = (1..MOST as u64 + 8).collect();
    let mut eight = [0_u64; 10];
    // SAFETY: eight words each.
    unsafe { by_16(NonNull::from(&mut eight[1..]).cast(), NonNull::from(&from[..]).cast()) };
    assert_eq!(eight, [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    for (name, way) in ways {
        for words in (8..120).chain(MOST - 3..MOST) {
            for skip in 0..8 {
                let mut to = vec![0; words + 10];
                let (at, source) = (NonNull::from(&mut to[1 + skip..]), &from[skip..]);
                // SAFETY: both have as many words from there on.
                unsafe { way(at.cast(), NonNull::from(source).cast(), words * 8) };
                assert_eq!(to[1 + skip..][..words], source[..words], "{name}: {words}");
                let rest = to.iter().filter(|&&word| word == 0).count();
                assert_eq!(rest, 10, "{name}: {words} at {skip}");
            }
        }
    }
}

/// Bytes that are not words, of which some begin or end where the next page is not there.
/// Proves R18.42.
#[test]
fn bytes_are_copied_and_no_others() {
    let two = Edges::new();
    // SAFETY: mappings of as many bytes, which nothing else uses but the copies below.
    let (plain, source) = unsafe { (&mut *two.all(0), &mut *two.all(1)) };
    source.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8 | 4);
    let (to, from) = (NonNull::from(&mut *plain), NonNull::from(&mut *source));
    let zeros = vec![0; Edges::LEN];
    let _one = masks();
    let mut lens: Vec<usize> = (0..290).chain(570..660).collect();
    lens.extend([1000, 4096, LONG - 1, LONG + 70]);
    for (before, len) in (0..WORD).flat_map(|before| lens.iter().map(move |&len| (before, len))) {
        // The private side is at the edge itself, the other one where such a word begins.
        let ends = (Edges::LEN - len, (Edges::LEN - len - before) / WORD * WORD + before);
        for (private, common) in [(0, before), ends] {
            for shared in [Shared::From, Shared::To] {
                let (start, begin) = match shared {
                    Shared::From => (private, common),
                    Shared::To => (common, private),
                };
                // SAFETY: as many bytes each, behind what is skipped. No reference is used between.
                let (did, now, source) = unsafe {
                    to.cast::<u8>().copy_from(NonNull::from(&zeros[..]).cast(), Edges::LEN);
                    let at = (to.cast::<u8>().add(start), from.cast::<u8>().add(begin));
                    (any(at.0, at.1, len, before, shared), to.as_ref(), from.as_ref())
                };
                if !did {
                    return eprintln!("skipped: the processor has no masks");
                }
                let end = start + len;
                assert!(now[start..end] == source[begin..][..len], "{len} bytes behind {before}");
                let others = now[..start] == zeros[..start] && now[end..] == zeros[end..];
                assert!(others, "{len} bytes behind {before}");
            }
        }
    }
}

/// Two mappings, each between pages that cannot be accessed.
struct Edges([*mut u8; 2]);

impl Edges {
    const PAGE: usize = 4096;
    const LEN: usize = LONG + Edges::PAGE;

    fn new() -> Self {
        Edges([(); 2].map(|()| {
            // SAFETY: a new mapping, of which the inner pages are made accessible.
            unsafe {
                let (none, all) = (libc::PROT_NONE, Edges::LEN + 2 * Edges::PAGE);
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let at = libc::mmap(std::ptr::null_mut(), all, none, flags, -1, 0);
                assert_ne!(at, libc::MAP_FAILED);
                let inner = at.cast::<u8>().add(Edges::PAGE);
                let access = libc::PROT_READ | libc::PROT_WRITE;
                assert_eq!(libc::mprotect(inner.cast(), Edges::LEN, access), 0);
                inner
            }
        }))
    }

    fn all(&self, i: usize) -> *mut [u8] {
        std::ptr::slice_from_raw_parts_mut(self.0[i], Edges::LEN)
    }
}

impl Drop for Edges {
    fn drop(&mut self) {
        for at in self.0 {
            let all = Edges::LEN + 2 * Edges::PAGE;
            // SAFETY: the mapping, with its outer pages; nothing uses it any more.
            unsafe { libc::munmap(at.wrapping_sub(Edges::PAGE).cast(), all) };
        }
    }
}
