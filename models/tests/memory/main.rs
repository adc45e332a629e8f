//! What goes back, and the numbers by which it is known whose it was: pools, boxed handles, the
//! register of what is orphaned, the counters that a queue shares with its completion queues, and
//! ids. All files are the crate's.
#![allow(unexpected_cfgs)] // features of the crate whose files are taken in

#[path = "../support/sync.rs"]
mod sync;

mod arenas;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../sys/src/cold.rs"]
mod cold;
mod counters;
mod ids;
mod memory;
mod orphaned;
mod owning_handle;
mod pools;
mod queue_counters;
