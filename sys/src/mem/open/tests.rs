//! Copies of open memory, against plain bytes.

use super::*;

/// Every alignment of the region, offset and length, against a plain array.
#[test]
fn reads_and_writes_match_plain_bytes() {
    for shift in 0..8 {
        let mut memory = [0u64; 5];
        let base = NonNull::from(&mut memory).cast::<u8>();
        // SAFETY: within the array, which outlives the value and which nothing else touches.
        let open = unsafe { Open::new(base.add(shift), 40 - 2 * shift) };
        let len = 40 - 2 * shift;
        let mut model: Vec<u8> = (0..len as u8).collect();
        open.write(0, &model).unwrap();
        for offset in (0..len).step_by(if cfg!(miri) { 7 } else { 1 }) {
            let is_word = open.word(offset).is_some();
            assert_eq!(
                is_word,
                (base.addr().get() + shift + offset) % WORD == 0 && offset + WORD <= len
            );
            for count in 0..=(len - offset).min(18) {
                let bytes: Vec<u8> =
                    (0..count).map(|i| (offset * 31 + count * 7 + i) as u8).collect();
                let mut before = model.clone();
                before[offset..offset + count].fill(0xee);
                model[offset..offset + count].copy_from_slice(&bytes);
                let (mut all, mut some) = (vec![0; len], vec![0; count]);
                open.write(0, &before).unwrap();
                open.write(offset, &bytes).unwrap();
                open.copy(0, &mut all).unwrap();
                open.copy(offset, &mut some).unwrap();
                assert_eq!(all, model, "{shift} {offset} {count}");
                assert_eq!(some, bytes, "{shift} {offset} {count}");
            }
        }
    }
}

/// Every length, at every source and target alignment, with the bytes around it.
#[test]
#[cfg_attr(miri, ignore = "a test below covers the same with fewer lengths")]
fn every_length_at_every_alignment() {
    const MOST: usize = 1200;
    let memory: Vec<AtomicU64> = (0..MOST / WORD + 12).map(|_| AtomicU64::new(0)).collect();
    let len = memory.len() * WORD;
    let source: Vec<u8> = (0..MOST + WORD).map(|i| (i * 37 + i / 256) as u8 & 0x7f).collect();
    // SAFETY: the words outlive the value, which alone accesses them.
    let open = unsafe { Open::new(NonNull::from(&memory[..]).cast(), len) };
    let (blank, mut all, mut out) = (vec![0xee; len], vec![0; len], vec![0xdd; len]);
    for (offset, skip) in (0..WORD).flat_map(|offset| (0..WORD).map(move |skip| (offset, skip))) {
        for count in 0..=MOST {
            let (here, bytes) = (WORD + offset, &source[skip..][..count]);
            open.write(0, &blank).unwrap();
            open.write(here, bytes).unwrap();
            open.copy(0, &mut all).unwrap();
            let is_right = all[here..here + count] == *bytes
                && all[..here] == blank[..here]
                && all[here + count..] == blank[here + count..];
            assert!(is_right, "{count} bytes from {skip} are written to {offset}");
            let there = WORD + skip;
            open.copy(here, &mut out[there..there + count]).unwrap();
            let is_right = out[there..there + count] == *bytes
                && out[..there]
                    .iter()
                    .chain(&out[there + count..there + count + 80])
                    .all(|&byte| byte == 0xdd);
            assert!(is_right, "{count} bytes at {offset} are read to {skip}");
            out[there..there + count].fill(0xdd);
        }
    }
}

/// Long runs, at every alignment.
/// Proves R18.42.
#[test]
fn long_runs_match_plain_bytes() {
    const LEN: usize = if cfg!(miri) { 160 } else { 700 };
    let memory: Vec<AtomicU64> = (0..LEN / WORD + 5).map(|_| AtomicU64::new(!0)).collect();
    let base = NonNull::from(&memory[..]).cast::<u8>();
    let source: Vec<u8> = (0..LEN + 8).map(|i| (i * 37 + i / 256) as u8).collect();
    // SAFETY: within the words, which outlive the value; it alone accesses them.
    let open = unsafe { Open::new(base, memory.len() * WORD) };
    for offset in (0..33).step_by(if cfg!(miri) { 13 } else { 1 }) {
        for len in [63, 64, 95, 96, 127, 128, 152, 160, 255, 256, 260, 384, 511, 513, LEN] {
            if len > LEN {
                continue;
            }
            open.write(0, &vec![0xee; memory.len() * WORD]).unwrap();
            let written = &source[offset % 8..][..len];
            open.write(offset, written).unwrap();
            let mut all = vec![0; memory.len() * WORD];
            open.copy(0, &mut all).unwrap();
            let (before, rest) = all.split_at(offset);
            let (there, after) = rest.split_at(len);
            assert_eq!(there, written, "{len} at {offset}");
            assert!(before.iter().chain(after).all(|&byte| byte == 0xee), "{len} at {offset}");
            let mut out = vec![0xdd; len + 2];
            open.copy(offset, &mut out[1..=len]).unwrap();
            assert_eq!((out[0], &out[1..=len], out[len + 1]), (0xdd, written, 0xdd));
            out.fill(0xdd);
            // SAFETY: bytes of the words, and nothing writes them at the same time.
            unsafe { read_volatile(base, offset, &mut out[1..=len]) };
            assert_eq!((out[0], &out[1..=len], out[len + 1]), (0xdd, written, 0xdd));
        }
    }
}

/// A read returns each word whole, as it was at some moment, however long the run is.
/// Proves R18.42.
#[test]
fn words_are_whole() {
    const WORDS: usize = 64;
    const TURNS: u64 = if cfg!(miri) { 3 } else { 20_000 };
    let memory: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    // SAFETY: the words outlive the values, one for each thread.
    let open = || unsafe { Open::new(NonNull::from(&memory[..]).cast(), WORDS * WORD) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..TURNS {
                // All bytes of a word are the same.
                open().write(0, &[turn as u8; WORDS * WORD]).unwrap();
            }
        });
        let mut seen = [0; WORDS * WORD];
        for turn in 0..TURNS {
            open().copy(0, &mut seen).unwrap();
            for (i, word) in seen.chunks_exact(WORD).enumerate() {
                assert!(word.iter().all(|&byte| byte == word[0]), "{word:?} at {i} in {turn}");
            }
        }
    });
}

/// Every access to a byte has the same width: its aligned word, if that is in the region.
/// Proves R18.42.
#[test]
fn each_byte_has_one_width() {
    let memory = [const { AtomicU64::new(0) }; 5];
    let base = NonNull::from(&memory).cast::<u8>();
    for (skipped, len) in (0..9).flat_map(|skipped| (0..=31).map(move |len| (skipped, len))) {
        // SAFETY: nine and 31 bytes are within the forty.
        let open = unsafe { Open::new(base.add(skipped), len) };
        for offset in 0..len {
            let word = (skipped + offset) / WORD * WORD;
            let is_inside = skipped <= word && word + WORD <= skipped + len;
            match open.part(offset, len - offset) {
                Part::Word(at, lead, count) => {
                    assert!(is_inside && std::ptr::eq(at, &memory[word / WORD]));
                    assert_eq!(lead, (skipped + offset) % WORD);
                    assert_eq!(count, (WORD - lead).min(len - offset));
                }
                Part::Byte(at) => {
                    assert!(!is_inside);
                    let at = at.as_ptr().addr();
                    assert_eq!(at, base.addr().get() + skipped + offset);
                }
            }
        }
    }
}

#[test]
fn bytes_beyond_the_region_are_not_touched() {
    let memory = [const { AtomicU64::new(0) }; 2];
    // SAFETY: eight of sixteen bytes.
    let open = unsafe { Open::new(NonNull::from(&memory).cast(), 8) };
    for (offset, len) in [(0, 9), (8, 1), (9, 0), (usize::MAX, 1)] {
        {
            assert!(open.copy(offset, &mut vec![0; len]).is_err(), "{len} at {offset}");
            assert!(open.write(offset, &vec![1; len]).is_err(), "{len} at {offset}");
        }
    }
    assert!(open.write(1, &[1; 8]).is_err());
    assert_eq!(memory.map(AtomicU64::into_inner), [0, 0]);
    open.copy(8, &mut []).unwrap();
}

/// Changes part of a word, and leaves the rest.
/// Proves R18.42.
#[test]
fn a_store_to_part_of_a_word_keeps_the_rest() {
    for (from, len) in
        (0..=WORD).flat_map(|from| (0..=7.min(WORD - from)).map(move |len| (from, len)))
    {
        let word = AtomicU64::new(!0);
        merge(&word, from, &[1, 2, 3, 4, 5, 6, 7, 8][..len]);
        let mut expected = [0xff; WORD];
        (1..=len).for_each(|i| expected[from + i - 1] = i as u8);
        assert_eq!(word.into_inner().to_ne_bytes(), expected, "{len} at {from}");
    }
}

/// Two threads write different parts of one word and then read it. Neither write is lost, and one
/// thread sees both.
/// Proves R18.42.
#[test]
fn parts_of_a_word_have_one_order() {
    const TURNS: usize = if cfg!(miri) { 2 } else { 10 };
    const PLACES: usize = if cfg!(miri) { 3 } else { 500 };
    // In each place each thread has one half, and the two share the word in the middle.
    for half in [4, 68, 140] {
        let memory: Vec<AtomicU64> =
            (0..PLACES * 2 * half / WORD).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: the words outlive the values, one for each thread.
        let open = || unsafe { Open::new(NonNull::from(&memory[..]).cast(), memory.len() * WORD) };
        let (mine, others) = (AtomicU64::new(0), AtomicU64::new(0));
        let thread = |which: usize| {
            let (mine, others) = [(&mine, &others), (&others, &mine)][which];
            let mut seen = Vec::with_capacity(TURNS * PLACES);
            for now in 0..TURNS * PLACES {
                let (turn, place) = ((now / PLACES + 1) as u8, now % PLACES);
                let bytes = vec![turn; half];
                // Both begin at once.
                mine.store(now as u64 + 1, Relaxed);
                while others.load(Relaxed) <= now as u64 {
                    std::thread::yield_now();
                }
                open().write((2 * place + which) * half, &bytes).unwrap();
                let mut word = [0; WORD];
                open().copy(place * 2 * half + half - 4, &mut word).unwrap();
                seen.push([word[3] == turn, word[4] == turn]);
            }
            seen
        };
        let [one, other] = std::thread::scope(|scope| {
            let other = scope.spawn(|| thread(1));
            [thread(0), other.join().unwrap()]
        });
        for (one, other) in one.iter().zip(&other) {
            assert!(one[0] && other[1], "each thread sees its own write");
            assert!(one[1] || other[0], "neither thread sees the other's write of {half} bytes");
        }
    }
}
