//! Memory that peers may access at any time, mappings, and the limit on locked memory.

pub mod exact;
pub mod locked;
pub mod map;
pub mod open;
