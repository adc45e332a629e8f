//! The part of a completion queue that its queue pairs keep alive.

use std::ops::Deref;
use std::sync::Arc;

use super::inbox::Inbox;
use crate::buf::reclaim_everything;
use crate::in_flight::Quiet;
use crate::sys::handle;

/// A completion queue as its queue pairs know it: its inbox, and the C object.
pub(crate) struct CqShared {
    handle: Arc<handle::Cq>,
    /// Apart, so that a shared receive queue can know it without keeping the queue.
    inbox: Arc<Inbox>,
}

impl CqShared {
    pub fn new(handle: Arc<handle::Cq>, capacity: u32) -> Self {
        let inbox = Arc::new(Inbox::new(handle.as_ptr(), capacity));
        CqShared { handle, inbox }
    }

    pub fn handle(&self) -> &Arc<handle::Cq> {
        &self.handle
    }

    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// The handle, if no queue pair uses it.
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

impl Drop for CqShared {
    /// Nobody can poll any more, and the queue pairs that completed here are destroyed, since each holds on to
    /// this: no completion can come. What is stranded with it has nobody else to see to it.
    fn drop(&mut self) {
        let mut quiet = Quiet::default();
        self.inbox.close_for_all(&mut quiet);
        reclaim_everything(&quiet);
    }
}
