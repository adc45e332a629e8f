//! `src/counters`, what of it the models take in.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/books.rs"]
pub mod books;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/ids.rs"]
pub mod ids;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/mark.rs"]
pub mod mark;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/pending.rs"]
pub mod pending;
