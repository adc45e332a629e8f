//! The books.

use std::sync::Arc;

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/books.rs"]
pub mod books;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/ids.rs"]
mod ids;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/mark.rs"]
pub mod mark;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/counters/pending.rs"]
mod pending;

/// Books of a queue of which something will be stranded.
pub fn books() -> Arc<books::Books> {
    let books = books::Books::new(1).unwrap();
    books.end([1, 1]);
    books
}
