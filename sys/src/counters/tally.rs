//! Counts for monitoring, which any thread can read.
//!
//! Each count has one writer: the thread that has the queue, by `&mut`. So plain stores suffice,
//! without a read-modify-write.

// No model: a reader uses each count by itself, so their order does not matter.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::terms::post_error::Refusal;

/// A count with one writer.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the count, on the only thread that does.
    #[inline]
    pub fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }
}

/// The kinds of bytes of a post: sent (or written), and read.
pub const SENT: usize = 0;
pub const READ: usize = 1;

/// The counts of one direction of a queue pair. The thread that posts writes them.
#[derive(Default)]
pub struct Tally {
    /// Work requests that the device accepted. Counted only if the profile asks.
    pub posted: Count,
    /// Their bytes, as indexed by `SENT` and `READ`.
    pub bytes: [Count; 2],
    /// The bytes of the list that is being posted. Its elements may change once it is posted.
    pub next: [Count; 2],
    /// Rejected posts, by reason.
    pub refused: [Count; Refusal::ALL.len()],
    /// The number of work requests of a ring that completed, wrapping, when this was last noted.
    pub done: Count,
}

impl Tally {
    /// Counts the `n` work requests that the device accepted. It did not accept the last
    /// `less_bytes` of the list.
    pub fn accept(&self, n: u32, less_bytes: [u64; 2]) {
        self.posted.add(n.into());
        for ((count, next), less) in self.bytes.iter().zip(&self.next).zip(less_bytes) {
            count.add(next.get().wrapping_sub(less));
        }
    }
}

/// The statuses of ibv_poll_cq(3) are below this.
pub const STATUSES: usize = 24;

/// The counts of a completion queue. The thread that polls writes them.
#[derive(Default)]
pub struct CqTally {
    pub completions: Count,
    /// The `byte_len` of receives that succeeded.
    pub bytes: Count,
    /// The completions that failed, by status. Unknown statuses are counted at 0, which is success.
    pub failed: [Count; STATUSES],
}

impl CqTally {
    /// The place of a status in `failed`.
    pub fn place(status: u32) -> usize {
        if (status as usize) < STATUSES { status as usize } else { 0 }
    }
}
