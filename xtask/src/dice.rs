//! Reproducible random numbers.

use rand_core::RngCore;
use rand_pcg::Pcg64;

pub struct Dice(Pcg64);

impl Dice {
    /// The generator for one program of a seed.
    pub fn new(seed: u64, number: u64) -> Dice {
        Dice(Pcg64::new(seed.into(), number.into()))
    }

    /// A seed for another generator.
    pub fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, n: usize) -> bool {
        self.below(100) < n
    }

    pub fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }

    /// One of these, by weight.
    pub fn weighted<'a, T>(&mut self, of: &[&'a T], weight: impl Fn(&T) -> u32) -> Option<&'a T> {
        let sum: usize = of.iter().map(|one| weight(one) as usize).sum();
        let mut at = self.below(sum);
        of.iter().copied().find(|one| {
            let weight = weight(one) as usize;
            let is_it = at < weight;
            at = at.saturating_sub(weight);
            is_it
        })
    }
}
