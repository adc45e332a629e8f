//! The counters.

use std::sync::Arc;

#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/counters/budget.rs"]
pub mod budget;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/counters/ids.rs"]
mod ids;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/counters/pending.rs"]
mod pending;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/counters/queue_counters.rs"]
pub mod queue_counters;
#[path = "../support/tally.rs"]
pub mod tally;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/counters/type_tag.rs"]
pub mod type_tag;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/counters/word.rs"]
pub mod word;

/// Counters of a queue that will leave orphaned buffers.
pub fn new_counters() -> Arc<queue_counters::QueueCounters> {
    let counters = queue_counters::QueueCounters::new(1).unwrap();
    counters.end([1, 1]);
    counters
}
