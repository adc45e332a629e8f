//! How long a copy out of an open region takes, and one into it, beside memcpy(3):
//!
//!     cargo run --release -p proverbs-rate --features copies --bin copies
//!
//! All is in the cache and begins at the same place in a page. Each number is the minimum of 300
//! batches, which alternate, in ns a copy; in brackets the median. memcpy stands there twice, since
//! where the linker puts the loop changes it by a cycle.

use std::hint::black_box;
use std::time::Instant;

use proverbs::prelude::*;

/// The last ones end in the midst of a word.
const LENGTHS: [usize; 24] = [
    64, 72, 96, 128, 160, 192, 248, 256, 384, 512, 576, 1024, 2048, 4096, 16384, 32768, 65536,
    262144, 20, 65, 100, 250, 500, 1500,
];
const MOST: usize = 1 << 18;
const BATCHES: usize = 300;
const PAGE: usize = 4096;

#[inline(never)]
fn memcpy(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

#[inline(never)]
fn memcpy_again(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[inline(never)]
fn read(region: &MemoryRegion<RemoteAll>, to: &mut [u8]) {
    region.read_at(0, to).expect("within the region");
}

#[inline(never)]
fn write(region: &MemoryRegion<RemoteAll>, from: &[u8]) {
    region.write_at(0, from).expect("within the region");
}

/// Bytes that begin so far into a page.
fn at(bytes: &mut [u8], into: usize) -> &mut [u8] {
    let first = bytes.as_ptr().align_offset(PAGE);
    &mut bytes[first + into..][..MOST]
}

/// The nanoseconds of a call, of `count`.
fn time(count: usize, len: usize, mut call: impl FnMut(usize)) -> f64 {
    let begin = Instant::now();
    for _ in 0..count {
        call(black_box(len));
    }
    begin.elapsed().as_nanos() as f64 / count as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pair = proverbs::loopback::pair()?;
    let region = pair.pd.register::<RemoteAll>(MOST)?;
    let mut memory = [1, 2, 3].map(|byte| vec![byte; MOST + 2 * PAGE]);
    let [plain, from, to] = &mut memory;
    let (plain, from, to) = (at(plain, 0), at(from, PAGE / 4), at(to, PAGE / 2));
    from.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 37 + i / 256) as u8 | 1);
    println!("| bytes | memcpy | memcpy | `read_at` | `write_at` |\n|--:|--:|--:|--:|--:|");
    for len in LENGTHS {
        let count = (4_000_000 / (len + 100)).max(20);
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..BATCHES {
            times[0].push(time(count, len, |len| memcpy(&plain[..len], &mut to[..len])));
            times[1].push(time(count, len, |len| memcpy_again(&mut plain[..len], &from[..len])));
            times[2].push(time(count, len, |len| read(&region, &mut to[..len])));
            times[3].push(time(count, len, |len| write(&region, &from[..len])));
        }
        write(&region, &from[..len]);
        to.fill(0);
        read(&region, &mut to[..len]);
        assert!(to[..len] == from[..len] && to[len..].iter().all(|&byte| byte == 0));
        let cells = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            format!("{:.2} ({:.2})", times[0], times[BATCHES / 2])
        });
        println!("| {len} | {} |", cells.join(" | "));
    }
    Ok(())
}
