//! `src/memory`, what of it the models take in.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/memory/blocks.rs"]
pub mod blocks;
#[path = "buf.rs"]
pub mod buf;
#[path = "../../../src/memory/free.rs"]
pub mod free;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/memory/header.rs"]
pub mod header;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/memory/lent.rs"]
pub mod lent;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/memory/ranges.rs"]
pub mod ranges;
#[path = "registered.rs"]
pub mod registered;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/memory/slots.rs"]
pub mod slots;
#[path = "spares.rs"]
pub mod spares;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/memory/stranded.rs"]
pub mod stranded;

/// Lists, of one buffer.
pub mod list {
    pub use super::buf::BufList;
}
