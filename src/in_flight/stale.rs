//! Room of a queue that completions from before a reset may still take.

use std::sync::Arc;

use crate::counters::queue_counters::QueueCounters;

/// Earlier in-flight tables of a queue, whose work may still complete, each with the number of its
/// entries. Takes one word if there are none.
#[derive(Default)]
#[doc(hidden)]
pub struct StaleCredits(Option<Box<Lives>>);

#[derive(Default)]
struct Lives {
    all: Vec<(Arc<QueueCounters>, u32)>,
    depth: u32,
}

impl StaleCredits {
    /// Records that `entries` of a queue of this depth may still complete.
    pub(crate) fn add(&mut self, old: &Arc<QueueCounters>, entries: u32, depth: u32) {
        if entries != 0 {
            let lives = self.0.get_or_insert_default();
            lives.depth = depth;
            lives.all.push((old.clone(), entries));
        }
    }

    /// At most the depth, because the marker of an interrupted drain is an entry beyond it.
    pub(crate) fn total(&self) -> u32 {
        let Some(lives) = &self.0 else { return 0 };
        lives.all.iter().map(|(_, entries)| entries).sum::<u32>().min(lives.depth)
    }

    /// Returns how much room became free again.
    pub(crate) fn recover(&mut self) -> u32 {
        let before = self.total();
        if let Some(lives) = &mut self.0 {
            lives.all.retain(|(counters, _)| !counters.is_quiet());
        }
        before - self.total()
    }
}
