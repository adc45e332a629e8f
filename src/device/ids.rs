//! The ids by which events and channels name completion queues and shared receive queues.

// No model: the lock-free part is `counters::ids::mint`, which has one.

#![allow(unsafe_code)] // writes the name into the C object

use std::ptr::{self, NonNull};

use crate::counters::ids;
use crate::sync::AtomicU64;
use crate::sys::types::ibv_cq;

/// The id of a completion queue in events: [`CompletionQueue::id`](crate::CompletionQueue::id), C's
/// `cq_context` (ibv_create_cq(3)). Unique in the process, and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CqId(u64);

impl CqId {
    pub(crate) fn mint() -> CqId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        CqId(ids::mint(&NEXT))
    }

    /// Writes the id into the C object, where events report it.
    ///
    /// # Safety
    /// `cq` is live, and only the caller knows it yet.
    pub(crate) unsafe fn name(self, cq: NonNull<ibv_cq>) {
        // SAFETY: the queue is live and known to the caller alone (this function's contract).
        unsafe { (*cq.as_ptr()).cq_context = ptr::without_provenance_mut(self.0 as usize) };
    }

    /// The id in the context of an event.
    pub(crate) fn from_context(context: u64) -> CqId {
        CqId(context)
    }
}

/// The id of a shared receive queue in events:
/// [`SharedReceiveQueue::id`](crate::SharedReceiveQueue::id), C's `srq_context`
/// (ibv_create_srq(3)). Unique in the process, and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SrqId(pub(crate) u64);

impl SrqId {
    pub(crate) fn mint() -> SrqId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        SrqId(ids::mint(&NEXT))
    }

    pub(crate) fn from_context(context: u64) -> SrqId {
        SrqId(context)
    }
}
