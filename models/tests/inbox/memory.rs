//! Buffers, which are returned when their queue ends.

#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/header.rs"]
pub mod header;

pub mod orphaned {
    use crate::counters::queue_counters::Quiet;

    /// The number of queues whose orphaned buffers are to be returned.
    pub type Reclaimed = usize;

    pub fn reclaim_everything(quiet: &Quiet) -> Reclaimed {
        quiet.len()
    }
}
