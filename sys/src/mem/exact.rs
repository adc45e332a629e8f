//! Memory that the program may access by any means while the device accesses it. Copies touch only
//! the given bytes, as a device does.
//!
//! Each step is one relaxed access to an aligned unit of 8, 4, 2 or 1 bytes, the largest that
//! begins there and lies in the range. So a transfer of an aligned 4-byte word races with the
//! program's `AtomicU32` there as one store, and a long transfer consists of 8-byte stores.

// No model: peers and the program access this memory at any time. No value in it guards other
// memory; a protocol that a program runs over it is the program's responsibility.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// The size of the step at an address with `left` bytes remaining, at least one.
fn unit(address: usize, left: usize) -> usize {
    1 << address.trailing_zeros().min(left.ilog2()).min(3)
}

/// Calls `step` with the offset and the size of each unit of `len` bytes at `base`.
fn each_unit(base: NonNull<u8>, len: usize, mut step: impl FnMut(usize, usize)) {
    let mut done = 0;
    while done < len {
        let unit = unit(base.addr().get().wrapping_add(done), len - done);
        step(done, unit);
        done += unit;
    }
}

/// Copies the bytes from `base` to `out`.
///
/// # Safety
/// `out.len()` bytes at `base` are valid for reads and writes. Rust code that accesses them at the
/// same time uses atomics of the size of the step.
pub unsafe fn copy(base: NonNull<u8>, out: &mut [u8]) {
    each_unit(base, out.len(), |at, size| {
        // SAFETY: within the bytes, aligned to the size (`unit`), and accessed concurrently only by
        // atomics of this size (this function's contract).
        unsafe {
            let from = base.as_ptr().add(at);
            let out = &mut out[at..at + size];
            match size {
                8 => out
                    .copy_from_slice(&AtomicU64::from_ptr(from.cast()).load(Relaxed).to_ne_bytes()),
                4 => out
                    .copy_from_slice(&AtomicU32::from_ptr(from.cast()).load(Relaxed).to_ne_bytes()),
                2 => out
                    .copy_from_slice(&AtomicU16::from_ptr(from.cast()).load(Relaxed).to_ne_bytes()),
                _ => out[0] = AtomicU8::from_ptr(from).load(Relaxed),
            }
        }
    });
}

/// Writes `bytes` to `base`, and touches no other byte.
///
/// # Safety
/// As for [`copy`].
pub unsafe fn write(base: NonNull<u8>, bytes: &[u8]) {
    fn sized<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("as many bytes as the step has")
    }
    each_unit(base, bytes.len(), |at, size| {
        let bytes = &bytes[at..at + size];
        // SAFETY: as for `copy`.
        unsafe {
            let to = base.as_ptr().add(at);
            match size {
                8 => {
                    AtomicU64::from_ptr(to.cast()).store(u64::from_ne_bytes(sized(bytes)), Relaxed)
                }
                4 => {
                    AtomicU32::from_ptr(to.cast()).store(u32::from_ne_bytes(sized(bytes)), Relaxed)
                }
                2 => {
                    AtomicU16::from_ptr(to.cast()).store(u16::from_ne_bytes(sized(bytes)), Relaxed)
                }
                _ => AtomicU8::from_ptr(to).store(bytes[0], Relaxed),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every alignment and length up to three words, against a plain array. The bytes around a
    /// write stay.
    #[test]
    fn exactly_the_given_bytes_are_written() {
        let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let base = NonNull::from(&words[..]).cast::<u8>();
        let mut model = [0; 32];
        for offset in 0..8 {
            for len in 0..=24 {
                let bytes: Vec<u8> = (0..len).map(|i| (offset * 31 + len * 7 + i) as u8).collect();
                model[offset..offset + len].copy_from_slice(&bytes);
                let (mut all, mut some) = ([0; 32], vec![0; len]);
                // SAFETY: within the words, which nothing else touches.
                unsafe {
                    write(base.add(offset), &bytes);
                    copy(base, &mut all);
                    copy(base.add(offset), &mut some);
                }
                assert_eq!((all, some), (model, bytes), "{len} bytes at {offset}");
            }
        }
    }

    /// An aligned number is one step, and a long transfer consists of words except at its ends.
    #[test]
    fn steps_are_the_largest_aligned_units() {
        let steps = |address: usize, len| {
            let mut steps = Vec::new();
            let base = NonNull::without_provenance(address.try_into().unwrap());
            each_unit(base, len, |at, size| steps.push((at, size)));
            steps
        };
        assert_eq!(steps(0x1004, 4), [(0, 4)]);
        assert_eq!(steps(0x1000, 8), [(0, 8)]);
        assert_eq!(steps(0x1001, 20), [(0, 1), (1, 2), (3, 4), (7, 8), (15, 4), (19, 1)]);
        assert_eq!(steps(0x1000, 0), []);
    }
}
