//! Numbers that are the same from the same seed.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

pub struct Dice(Pcg64);

impl Dice {
    /// For one program of those of a seed.
    pub fn new(seed: u64, number: u64) -> Dice {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        let mut rng = Pcg64::from_seed(bytes);
        // Seeds that are near each other begin alike.
        for _ in 0..16 {
            rng.next_u64();
        }
        Dice(rng)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// So many times of a hundred.
    pub fn percent(&mut self, n: usize) -> bool {
        self.below(100) < n
    }

    /// One of these, by weight. It changes with those that come and go only if it is one of them.
    pub fn named<'a, T>(
        &mut self,
        of: &[&'a T],
        name: impl Fn(&T) -> &str,
        weight: impl Fn(&T) -> u32,
    ) -> Option<&'a T> {
        let nonce = self.0.next_u64();
        // Whose clock rings first: exponentially distributed, with the weights as rates.
        let rings = |it: &T| -share(mixed(nonce, name(it))).ln() / f64::from(weight(it));
        of.iter().copied().min_by(|a, b| rings(a).total_cmp(&rings(b)))
    }

    pub fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }
}

/// FNV-1a, from a number on, and stirred.
fn mixed(nonce: u64, name: &str) -> u64 {
    let fold = |all: u64, byte: u8| (all ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let number = name.bytes().fold(nonce ^ 0xcbf2_9ce4_8422_2325, fold);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Between 0 and 1, and neither.
fn share(number: u64) -> f64 {
    ((number >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn what_is_added_takes_its_share_and_moves_nothing_else() {
        let all = [("a", 10), ("b", 20), ("c", 30), ("new", 20)];
        let all: Vec<&(&str, u32)> = all.iter().collect();
        let draw = |number, of: &[&(&'static str, u32)]| {
            Dice::new(7, number).named(of, |it| it.0, |it| it.1).map_or("", |it| it.0)
        };
        let mut counts = [0; 4];
        for number in 0..4000 {
            let (before, after) = (draw(number, &all[..3]), draw(number, &all));
            assert!(after == before || after == "new");
            counts[all.iter().position(|it| it.0 == after).expect("one of them")] += 1;
        }
        let wanted = [500, 1000, 1500, 1000];
        assert!(
            counts.iter().zip(wanted).all(|(n, wanted)| (wanted - 120..wanted + 120).contains(n)),
            "{counts:?}"
        );
    }
}
