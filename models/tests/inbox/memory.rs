//! Buffers, which go back with their queue.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/memory/header.rs"]
pub mod header;

pub mod orphaned {
    use crate::counters::queue_counters::Quiet;

    /// How many queues were told that what is orphaned of them is to go back.
    pub type Reclaimed = usize;

    pub fn reclaim_everything(quiet: &Quiet) -> Reclaimed {
        quiet.len()
    }
}
