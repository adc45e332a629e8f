//! A share of many things, which the commit chooses: what takes too long to be run whole before
//! each change lands is run whole after as many commits.

use anyhow::{Context, Result};

use crate::paths;
use crate::sh::{self, cmd};

/// The share that the checked out commit chooses, out of `of`.
pub fn of_this_commit(of: usize) -> Result<usize> {
    let hash = cmd!(sh::at(paths::workspace()), "git rev-parse HEAD").read()?;
    which(&hash, of)
}

/// The share that a commit's hash chooses; of one digit, the share itself.
pub fn which(hash: &str, of: usize) -> Result<usize> {
    let digits = hash.get(..hash.len().min(8)).unwrap_or_default();
    let number = usize::from_str_radix(digits, if hash.len() == 1 { 10 } else { 16 });
    Ok(number.with_context(|| format!("`{hash}` is no number and no hash"))? % of)
}

/// Every `of`th, from the `which`th on.
pub fn take<T>(all: Vec<T>, which: usize, of: usize) -> Vec<T> {
    all.into_iter().skip(which).step_by(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_or_a_digit_chooses() {
        assert_eq!(which("7", 10).ok(), Some(7));
        assert_eq!(which("0000000b5f", 10).ok(), Some(1));
        assert!(which("main", 10).is_err());
    }

    #[test]
    fn the_shares_together_are_all() {
        let mut all: Vec<u32> = (0..3).flat_map(|i| take((0..10).collect(), i, 3)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }
}
