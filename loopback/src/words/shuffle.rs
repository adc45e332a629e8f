//! The order of unordered messages.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::words::below;

/// The random numbers that give messages their order.
pub(crate) struct Shuffle(Pcg32);

impl Default for Shuffle {
    fn default() -> Shuffle {
        Shuffle::of(None)
    }
}

impl Shuffle {
    pub(crate) fn of(seed: Option<u64>) -> Shuffle {
        Shuffle(Pcg32::seed_from_u64(seed.unwrap_or(0)))
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        below(&mut self.0, n)
    }

    /// Shuffles a list (Fisher-Yates).
    pub(crate) fn mix<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let j = self.below(i as u32 + 1) as usize;
            list.swap(i, j);
        }
    }
}
