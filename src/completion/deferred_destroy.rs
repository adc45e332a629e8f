//! Queue pairs that were dropped, or given to `destroy`, and are not destroyed yet.
//!
//! When a queue pair is destroyed, a device may remove its completions that were not polled (mlx5
//! does). For the queue pair's own work requests that is harmless: they are over. But of a shared
//! receive queue's receives it is then unknown which ones were used, and their buffers would be
//! unavailable as long as the shared receive queue lives. So a queue pair with a shared receive
//! queue moves to ERR when it ends, where it uses no more receives, and is deferred with its
//! receive completion queue. The thread that polls that queue destroys it, once everything that was
//! in there has been handed out.
//!
//! A completion queue or shared receive queue that is destroyed cannot wait for that: it destroys
//! the queue pair first.

#![allow(unsafe_code)] // between threads

use crate::counters::queue_counters::Quiet;
use crate::memory::orphaned::reclaim_everything;
use crate::sync::{Mutex, lock};

/// The remainder of a queue pair that was dropped.
pub(crate) trait Rest {
    /// Destroys the queue pair. What the program owns is added to `over`, to be dropped where the
    /// program's code may run.
    fn destroy(self: Box<Self>, over: &mut Over);
}

/// A value that only has to be dropped.
pub(crate) trait Leftover {}

impl<T> Leftover for T {}

/// A queue pair that was dropped, until it is destroyed.
pub(crate) struct DeferredDestroy(Mutex<Option<Box<dyn Rest>>>);

// SAFETY: the entries in it have one type `E`. If `E` is not `Send`, neither are queue pairs,
// completion queues or shared receive queues of `E`, so all of them stay on one thread; and only
// they know this value. The same holds of a queue pair of a lane, whose queues are of a lane.
unsafe impl Send for DeferredDestroy {}
// SAFETY: the contents are behind a lock, and `Send` by the argument above.
unsafe impl Sync for DeferredDestroy {}

impl DeferredDestroy {
    pub fn new(rest: Box<dyn Rest>) -> Self {
        DeferredDestroy(Mutex::new(Some(rest)))
    }

    /// Destroys the queue pair. If another thread is destroying it, waits for that. The caller
    /// holds no lock.
    pub fn end(&self, over: &mut Over) {
        let mut rest = lock(&self.0);
        if let Some(rest) = rest.take() {
            rest.destroy(over);
        }
    }
}

/// Values to be dropped where no lock is held, because the program's code may run then, and panic.
#[derive(Default)]
#[must_use]
pub(crate) struct Over {
    pub quiet: Quiet,
    pub leftovers: Vec<Box<dyn Leftover>>,
}

impl Over {
    /// Drops them. Returns what was orphaned.
    pub fn give_back(self) -> crate::memory::orphaned::Reclaimed {
        // Dropped at the end of the scope, even if another Drop panics.
        let _leftovers = self.leftovers;
        reclaim_everything(&self.quiet)
    }
}
