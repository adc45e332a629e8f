//! The keys that a completion may still name although their windows are gone.
//!
//! A completion reports that a peer's message invalidated a key. A key has 32 bits and repeats: its
//! lower byte wraps after 256 binds, and devices reuse the upper bytes for another window. A
//! completion from an earlier life of the same key must not count as proof for a later one.
//!
//! At most one message ends each life of a key, so at most one completion names it. In two cases no
//! such completion is left: `LentWindow::revoked` consumed it, or a LOCAL_INV succeeded, which
//! shows that no message had invalidated the key. In all other cases there may be one, in a
//! completion queue or held by the program. Such keys are kept here, one set for each receive
//! queue, and are not bound again.

// No model: one set is used only under its lock, and nothing else is locked at the same time.

use std::collections::HashSet;

use crate::sync::{Mutex, lock};

/// The keys that a completion of one receive queue may name, and that no longer belong to a window.
#[derive(Default)]
pub(crate) struct StaleKeys(Mutex<HashSet<u32>>);

/// The maximum number of keys to keep. Beyond it, every key counts as stale.
const MOST: usize = if cfg!(any(test, miri)) { 1 << 10 } else { 1 << 20 };

impl StaleKeys {
    pub(crate) fn add(&self, key: u32) {
        let mut keys = lock(&self.0);
        if keys.len() < MOST {
            keys.insert(key);
        }
    }

    /// The key that a window binds after `last`: the next one in its lower byte that is neither
    /// stale nor `last`. `Err` with the next one if all are stale.
    pub(crate) fn after(&self, last: u32) -> Result<u32, u32> {
        let keys = lock(&self.0);
        let nth = |n: u32| last & !0xff | last.wrapping_add(n) & 0xff;
        if keys.is_empty() {
            return Ok(nth(1));
        }
        let is_fresh = |key: &u32| keys.len() < MOST && !keys.contains(key);
        (1..256).map(nth).find(is_fresh).ok_or(nth(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_keys_are_skipped() {
        let stale = StaleKeys::default();
        assert_eq!(stale.after(0x1ff), Ok(0x100));
        for key in [0x100, 0x101, 0x203] {
            stale.add(key);
        }
        assert_eq!((stale.after(0x1ff), stale.after(0x202)), (Ok(0x102), Ok(0x204)));
    }

    /// With 255 stale keys one is left, unless it was bound last.
    #[test]
    fn a_window_may_have_no_fresh_key() {
        let stale = StaleKeys::default();
        (0x301..0x400).for_each(|key| stale.add(key));
        assert_eq!((stale.after(0x301), stale.after(0x300)), (Ok(0x300), Err(0x301)));
        stale.add(0x300);
        assert_eq!(stale.after(0x3ff), Err(0x300));
        assert_eq!(stale.after(0x4ff), Ok(0x400)); // a key of another window
    }

    /// The set is bounded. If it is full, every key counts as stale.
    #[test]
    fn a_full_set_trusts_no_key() {
        let stale = StaleKeys::default();
        (0..2 * MOST as u32).for_each(|n| stale.add(n << 8));
        assert_eq!(lock(&stale.0).len(), MOST);
        assert_eq!(stale.after(0xffff_ff00), Err(0xffff_ff01));
    }
}
