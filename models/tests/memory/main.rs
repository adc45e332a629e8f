//! Buffers that are returned, and the numbers that identify their owners: pools, boxed handles, the
//! register of orphaned buffers, the counters that a queue shares with its completion queues, and
//! ids. All included files are the crate's own code.
#![allow(unexpected_cfgs)] // features of the crate whose files are included

#[path = "../support/sync.rs"]
mod sync;

mod arenas;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/cold.rs"]
mod cold;
mod counters;
mod ids;
mod memory;
mod orphaned;
mod owning_handle;
mod pools;
mod queue_counters;
