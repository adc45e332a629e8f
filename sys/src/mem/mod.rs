//! Memory that peers may access at any time, mappings, the limit on locked memory, and the division
//! of a range into blocks.

pub mod exact;
pub mod heap;
pub mod locked;
pub mod map;
pub mod open;
pub mod options;
pub mod own;
pub mod ranges;
