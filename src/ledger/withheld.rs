//! Room of a queue that completions of before a reset may still take.

use std::sync::Arc;

use crate::counters::books::Books;

/// The earlier lives of a queue that may still complete, and how much.
#[derive(Default)]
#[doc(hidden)]
pub struct Withheld {
    lives: Vec<(Arc<Books>, u32)>,
    depth: u32,
}

impl Withheld {
    /// `entries` of a queue of this depth may still complete.
    pub(crate) fn add(&mut self, old: &Arc<Books>, entries: u32, depth: u32) {
        self.depth = depth;
        if entries != 0 {
            self.lives.push((old.clone(), entries));
        }
    }

    /// At most the depth: the sentinel of a drain that was interrupted is one of the entries, and
    /// beyond it.
    pub(crate) fn total(&self) -> u32 {
        self.lives.iter().map(|(_, entries)| entries).sum::<u32>().min(self.depth)
    }

    /// The room that is free again.
    pub(crate) fn recover(&mut self) -> u32 {
        if self.lives.is_empty() {
            return 0;
        }
        let before = self.total();
        self.lives.retain(|(books, _)| !books.is_quiet());
        before - self.total()
    }
}
