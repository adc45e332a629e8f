//! The counters of a queue: what it posted, what of it completed, and whether it is gone. Also the
//! numbers by which headers and wr_ids name it.

pub(crate) mod budget;
pub(crate) mod ids;
pub(crate) mod pending;
pub(crate) mod queue_counters;
pub(crate) mod type_tag;
