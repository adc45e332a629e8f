//! The part of a completion queue that its queue pairs keep alive.

use std::ops::Deref;
use std::sync::Arc;

use super::inbox::{AtEnd, Inbox};
use super::parked::Over;
use crate::entry::Entry;
use crate::in_flight::{Books, Quiet, SendBooks};
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

impl AtEnd {
    /// Of a queue pair with this send queue, and as many receives outstanding on a queue of its own.
    pub fn of<E: Entry, B: SendBooks<E>>(send: &B, receives: u32) -> AtEnd {
        if !E::OWNED {
            return AtEnd::UNKNOWN;
        }
        let sends = send.posted().wrapping_sub(send.completed());
        let is_ring = send.posted() != send.posted_as_wr_ids();
        AtEnd { left: [sends, receives], may_be_stale: is_ring }
    }

    /// Tells the completion queues of a queue pair that it is destroyed or reset.
    pub fn tell(self, books: &Arc<Books>, send: &CqShared, recv: &CqShared, quiet: &mut Quiet) {
        send.end(books, self, quiet);
        if !std::ptr::eq(send, recv) {
            recv.end(books, self, quiet);
        }
        quiet.end_one(books.clone());
    }
}

impl Drop for CqShared {
    /// Nobody can poll any more, and the queue pairs that completed here are destroyed, since each holds on to
    /// this: no completion can come. What is stranded with it has nobody else to see to it.
    fn drop(&mut self) {
        let mut over = Over::default();
        self.inbox.close_for_all(&mut over);
        over.send_home();
    }
}
