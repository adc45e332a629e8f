//! The counts of `sys/src/counters/tally.rs`, which the models do not read.

#[derive(Default)]
pub struct Tally {
    pub done: Count,
}

#[derive(Default)]
pub struct Count;

impl Count {
    pub fn get(&self) -> u64 {
        0
    }
}

#[allow(dead_code)] // only some models have a completion queue
pub struct CqTally;
