//! The counts of `sys/src/counters/tally.rs`, which the models do not read.

#[derive(Default)]
pub struct Tally;

impl Tally {
    pub fn done(&self) -> u32 {
        0
    }
}

#[allow(dead_code)] // only some models have a completion queue
pub struct CqTally;
