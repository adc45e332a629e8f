//! `src/counters`, what of it the models take in.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/budget.rs"]
pub mod budget;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/ids.rs"]
pub mod ids;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/pending.rs"]
pub mod pending;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/queue_counters.rs"]
pub mod queue_counters;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/type_tag.rs"]
pub mod type_tag;
