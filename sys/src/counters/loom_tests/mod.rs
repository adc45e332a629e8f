//! Models of the counters: `cargo xtask test loom` runs them.

mod budget;
mod ids;
mod pending;
mod queue_counters;
