//! The choices of a program's turn, reproducible from a seed.

/// A number below `n` for a place in a program.
pub fn choice(seed: u64, site: u32, n: usize) -> usize {
    let mixed = mix(seed ^ mix(u64::from(site)));
    ((u128::from(mixed) * n as u128) >> 64) as usize
}

/// From a program's seed, the seed of its turns; from a turn's seed, the seed of its choices.
pub fn seed(of: u64, number: u64) -> u64 {
    mix(of.wrapping_add(mix(number)))
}

/// Whether a turn leaves a call out: some turns leave out none, some a third.
pub fn leaves_out(seed: u64, site: u32) -> bool {
    let percent = [0, 0, 0, 6, 15, 33][choice(seed, u32::MAX, 6)];
    choice(seed, !site, 100) < percent
}

/// SplitMix64.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
