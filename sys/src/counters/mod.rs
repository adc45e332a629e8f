//! The counters of a queue: how many requests it posted, how many completed, and whether it has
//! ended. Also the numbers by which headers and wr_ids name it.

pub mod budget;
pub mod ids;
#[cfg(all(test, loom))]
mod loom_tests;
pub mod pending;
pub mod queue_counters;
pub mod tally;
pub mod type_tag;
pub mod word;
