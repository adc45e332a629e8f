//! The part of a completion queue that its queue pairs keep alive.

use std::ops::Deref;
use std::sync::Arc;

use crate::completion::attachments::AtEnd;
use crate::completion::counted::Counts;
use crate::completion::deferred_destroy::Over;
use crate::completion::inbox::Inbox;
use crate::counters::queue_counters::{QueueCounters, Quiet};
use crate::sys::handle;
use crate::sys::polling::adapter::Extended;

/// A completion queue as its queue pairs see it: its inbox and the C object.
pub(crate) struct CqShared {
    handle: Arc<handle::Cq>,
    /// Separate, so that a shared receive queue can hold it without keeping the queue.
    inbox: Arc<Inbox>,
}

impl CqShared {
    pub fn new(
        handle: Arc<handle::Cq>,
        capacity: u32,
        extended: Option<Extended>,
        counts: Counts,
    ) -> Arc<Self> {
        let is_soft_roce = handle.parents().context.is_soft_roce();
        let queue = handle.as_ptr();
        let inbox = Arc::new(Inbox::new(queue, capacity, extended, is_soft_roce, counts));
        let shared = Arc::new(CqShared { handle, inbox });
        shared.inbox.belongs_to(&shared);
        shared
    }

    pub fn handle(&self) -> &Arc<handle::Cq> {
        &self.handle
    }

    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// The handle, for exclusive use, if no queue pair uses it.
    pub fn handle_mut(&mut self) -> Option<&mut handle::Cq> {
        Arc::get_mut(&mut self.handle)
    }
}

impl Deref for CqShared {
    type Target = Inbox;

    fn deref(&self) -> &Inbox {
        &self.inbox
    }
}

impl AtEnd {
    /// Ends a destroyed or reset queue pair in its completion queues.
    pub fn tell(
        self,
        counters: &Arc<QueueCounters>,
        send: &CqShared,
        recv: &CqShared,
        quiet: &mut Quiet,
    ) {
        send.end(counters, self, quiet);
        if !std::ptr::eq(send, recv) {
            recv.end(counters, self, quiet);
        }
        quiet.end_one(counters);
    }
}

impl Drop for CqShared {
    /// No thread can poll any more. The queue pairs that completed here are destroyed, because a
    /// queue pair that exists holds a reference to this value. So no completion can arrive, and
    /// orphaned entries must be returned here.
    fn drop(&mut self) {
        let mut over = Over::default();
        self.inbox.close_for_all(&mut over);
        over.give_back();
    }
}
