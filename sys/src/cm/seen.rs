//! The end of an id, recorded when its events are taken.

// No model: two flags record that an event was seen, each set once and never cleared, and a
// reference count records whether the id is there. They guard no other memory.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::types::raw::rdma_cm_event_type as Type;

/// The target of an id's context: its key, and the end of the id. Each of these events arrives
/// once, on whichever thread takes it, but several threads may check for it.
#[derive(Debug)]
pub struct Seen {
    /// The unique number of the id.
    pub key: u64,
    disconnected: AtomicBool,
    /// The first event that broke the connection or the attempt, and its status.
    broken: OnceLock<(u32, c_int)>,
    /// The status of DEVICE_REMOVAL, the last event.
    removed: OnceLock<c_int>,
    /// Dropped with the id.
    life: Arc<()>,
}

/// Whether the id of an event still exists.
pub struct Life(Weak<()>);

impl Life {
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl Seen {
    pub(crate) fn of(key: u64) -> Self {
        let disconnected = AtomicBool::new(false);
        let (broken, removed) = (OnceLock::new(), OnceLock::new());
        Seen { key, disconnected, broken, removed, life: Arc::default() }
    }

    /// Records the event (`RDMA_CM_EVENT_*`).
    pub(crate) fn see(&self, event: u32, status: c_int) {
        match event {
            // A connection that broke earlier did not end in order.
            Type::RDMA_CM_EVENT_DISCONNECTED | Type::RDMA_CM_EVENT_TIMEWAIT_EXIT => {
                let is_broken = self.broken.get().is_some();
                self.disconnected.fetch_or(!is_broken, Ordering::Relaxed);
            }
            Type::RDMA_CM_EVENT_UNREACHABLE
            | Type::RDMA_CM_EVENT_REJECTED
            | Type::RDMA_CM_EVENT_CONNECT_ERROR => drop(self.broken.set((event, status))),
            Type::RDMA_CM_EVENT_DEVICE_REMOVAL => drop(self.removed.set(status)),
            _ => {}
        }
    }

    pub(crate) fn life(&self) -> Life {
        Life(Arc::downgrade(&self.life))
    }

    /// Whether the connection ended in order, without breaking first.
    pub fn is_disconnected(&self) -> bool {
        self.disconnected.load(Ordering::Relaxed)
    }

    /// The event that broke the connection or the attempt, and its status.
    pub fn broken(&self) -> Option<(u32, c_int)> {
        self.broken.get().copied()
    }

    /// The status of DEVICE_REMOVAL, the last event.
    pub fn removal(&self) -> Option<c_int> {
        self.removed.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DISCONNECTED arrives once; a second call returns at once instead of waiting for
    /// TIMEWAIT_EXIT.
    ///
    /// `wait_disconnected` remembers an earlier DISCONNECTED.
    /// A wait after DEVICE_REMOVAL does not sleep until its timeout.
    #[test]
    fn recorded_events_stay_recorded() {
        let seen = Seen::of(1);
        seen.see(Type::RDMA_CM_EVENT_ADDR_CHANGE, 0);
        assert!(!seen.is_disconnected() && seen.removal().is_none());
        seen.see(Type::RDMA_CM_EVENT_DISCONNECTED, 0);
        seen.see(Type::RDMA_CM_EVENT_ADDR_CHANGE, 0);
        assert!(seen.is_disconnected() && seen.is_disconnected());
        assert_eq!(seen.removal(), None);
        let seen = Seen::of(2);
        seen.see(Type::RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
        assert!(seen.is_disconnected());
        let seen = Seen::of(4);
        seen.see(Type::RDMA_CM_EVENT_UNREACHABLE, -110);
        seen.see(Type::RDMA_CM_EVENT_REJECTED, 28);
        assert_eq!(seen.broken(), Some((Type::RDMA_CM_EVENT_UNREACHABLE, -110)));
        seen.see(Type::RDMA_CM_EVENT_DISCONNECTED, 0);
        assert!(!seen.is_disconnected() && seen.removal().is_none());
        let seen = Seen::of(3);
        seen.see(Type::RDMA_CM_EVENT_DEVICE_REMOVAL, -19);
        assert_eq!([seen.removal(), seen.removal()], [Some(-19); 2]);
        assert!(!seen.is_disconnected());
    }
}
