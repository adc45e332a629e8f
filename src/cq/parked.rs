//! Queue pairs that were dropped, and that are not destroyed yet.
//!
//! A device may take a queue pair's completions away that nobody polled, when it is destroyed (mlx5 does). Of its own work
//! requests that says that they are over. Of receives of a shared receive queue nothing tells then which of them were used: their
//! buffers would stay away as long as the shared receive queue lives. So a queue pair with a shared receive queue that
//! is dropped moves to ERR, where it uses no more receives, and is parked with its receive completion
//! queue: destroyed once all has been handed out that was in there then, by the thread that polls it.
//!
//! Who cannot wait for that destroys it before: the completion queue or the shared receive queue that goes.

#![allow(unsafe_code)] // between threads

use std::sync::{Mutex, PoisonError};

use crate::buf::reclaim_everything;
use crate::in_flight::Quiet;

/// What is left of a queue pair that was dropped.
pub(crate) trait Rest {
    /// Destroys it. What it gives is the program's, to be dropped where code of the program's may run.
    fn destroy(self: Box<Self>, over: &mut Over);
}

/// Something that is only dropped.
pub(crate) trait Leftover {}

impl<T> Leftover for T {}

/// A queue pair that was dropped, until it is destroyed.
pub(crate) struct Parked(Mutex<Option<Box<dyn Rest>>>);

// SAFETY: what is in it has entries of one type `E`, and may not be `Send` if they are not. Then neither are queue pairs,
// completion queues nor shared receive queues of `E`, so all of them stay on one thread; and nobody else knows it.
unsafe impl Send for Parked {}
// SAFETY: it is behind a lock, and the rest is as for `Send`.
unsafe impl Sync for Parked {}

impl Parked {
    pub fn new(rest: Box<dyn Rest>) -> Self {
        Parked(Mutex::new(Some(rest)))
    }

    /// Destroys it, unless it is; when this returns it is. The caller holds no lock.
    pub fn end(&self, over: &mut Over) {
        let mut rest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = rest.take() {
            rest.destroy(over);
        }
    }
}

/// What is to be sent home where no lock is held, because code of the program's may run then, and panic.
#[derive(Default)]
#[must_use]
pub(crate) struct Over {
    pub quiet: Quiet,
    pub leftovers: Vec<Box<dyn Leftover>>,
}

impl Over {
    /// Sends it home. Gives what was stranded.
    pub fn send_home(self) -> crate::buf::Home {
        // If one panics, the others are dropped all the same.
        let _leftovers = self.leftovers;
        reclaim_everything(&self.quiet)
    }
}
