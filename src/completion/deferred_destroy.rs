//! Queue pairs that were dropped, or passed to `destroy`, and are not destroyed yet.
//!
//! When a queue pair is destroyed, a device may remove its unpolled completions (mlx5 does). For
//! the queue pair's own work requests that is harmless, because they are over. But for the receives
//! of a shared receive queue it is then unknown which ones were used. Their buffers would be
//! unavailable until the shared receive queue is destroyed. So a queue pair with a shared receive
//! queue moves to ERR when it ends. In ERR it uses no more receives. It is then deferred at its
//! receive completion queue. The thread that polls that queue destroys the queue pair once it has
//! received everything that was in the queue.
//!
//! Destroying the completion queue or the shared receive queue cannot wait for that. It destroys
//! the queue pair first.

// Model: src/completion/loom_tests/deferred_destroy.rs

#![allow(unsafe_code)] // shared between threads

use crate::counters::queue_counters::Quiet;
use crate::memory::orphaned::reclaim_everything;
use crate::sync::{Mutex, lock};

/// The parts of a queue pair that was dropped.
pub(crate) trait Rest {
    /// Destroys the queue pair. Values that the program owns are added to `over`, to be dropped
    /// where the program's code may run.
    fn destroy(self: Box<Self>, over: &mut Over);
}

/// A value that only has to be dropped.
pub(crate) trait Leftover {}

impl<T> Leftover for T {}

/// A queue pair that was dropped, until it is destroyed.
pub(crate) struct DeferredDestroy(Mutex<Option<Box<dyn Rest>>>);

// SAFETY: the entries in it have one type `E`. If `E` is not `Send`, neither are queue pairs,
// completion queues, their handles or shared receive queues of `E`, so all of them stay on one
// thread, and nothing else holds this value. The same is true for a queue pair of a lane, whose
// queues belong to the lane.
unsafe impl Send for DeferredDestroy {}
// SAFETY: the contents are behind a lock, and `Send` by the argument above.
unsafe impl Sync for DeferredDestroy {}

impl DeferredDestroy {
    pub fn new(rest: Box<dyn Rest>) -> Self {
        DeferredDestroy(Mutex::new(Some(rest)))
    }

    /// Destroys the queue pair. If another thread is destroying it, waits until that is done. The
    /// caller holds no lock.
    pub fn end(&self, over: &mut Over) {
        let mut rest = lock(&self.0);
        if let Some(rest) = rest.take() {
            rest.destroy(over);
        }
    }
}

/// Values to drop where no lock is held, because dropping them may run the program's code and may
/// panic.
#[derive(Default)]
#[must_use]
pub(crate) struct Over {
    pub quiet: Quiet,
    pub leftovers: Vec<Box<dyn Leftover>>,
}

impl Over {
    /// Drops them. Returns the orphaned entries.
    pub fn give_back(self) -> crate::memory::orphaned::Reclaimed {
        // Dropped at the end of the scope, even if another Drop panics.
        let _leftovers = self.leftovers;
        reclaim_everything(self.quiet)
    }
}
