//! Buffers, which go home with their queue.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/memory/header.rs"]
pub mod header;

pub mod stranded {
    use crate::counters::books::Quiet;

    /// How many queues were told that what is stranded of them is to go home.
    pub type Homecoming = usize;

    pub fn reclaim_everything(quiet: &Quiet) -> Homecoming {
        quiet.len()
    }
}
