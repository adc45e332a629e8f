//! The parts of `sys/src/counters` that the models include.

#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/counters/budget.rs"]
pub mod budget;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/counters/ids.rs"]
pub mod ids;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/counters/pending.rs"]
pub mod pending;
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
