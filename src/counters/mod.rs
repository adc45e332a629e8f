//! The counters of a queue: how many requests it posted, how many completed, and whether it has
//! ended. Also the numbers by which headers and wr_ids name it.

pub(crate) mod budget;
pub(crate) mod ids;
pub(crate) mod pending;
pub(crate) mod queue_counters;
pub(crate) mod type_tag;
