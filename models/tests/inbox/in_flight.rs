//! The books, as far as the inbox knows them. Something of every queue is stranded.

use std::sync::Arc;

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/in_flight/pending.rs"]
mod pending;

pub struct Books {
    id: u32,
    pending: pending::Pending,
}

impl Books {
    pub fn new(id: u32) -> Arc<Books> {
        Arc::new(Books { id, pending: pending::Pending::new() })
    }

    pub fn attached(&self) {
        self.pending.add();
    }

    pub fn end_one(&self) -> bool {
        self.pending.end_one()
    }

    #[allow(dead_code)] // for completions of rings, which are not played
    pub fn ring_id(&self) -> u32 {
        self.id
    }

    #[allow(dead_code)] // as above
    pub fn note_dropped(&self, _: u32) {}
}

#[derive(Default)]
pub struct Quiet(pub Vec<Arc<Books>>);

impl Quiet {
    pub fn end_one(&mut self, books: Arc<Books>) {
        if books.end_one() {
            self.0.push(books);
        }
    }
}
