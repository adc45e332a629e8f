//! The end of a queue pair: it is destroyed, or deferred (`completion::deferred_destroy`).

#![allow(unsafe_code)] // moves counters to new owners

use std::sync::Arc;

use super::Core;
use crate::completion::booking::CqShared;
use crate::completion::deferred_destroy::{DeferredDestroy, Over, Rest};
use crate::counters::queue_counters::{QueueCounters, SEND};
use crate::in_flight::InFlight;
use crate::in_flight::stale::StaleCredits;
use crate::post::queue::{Queue, SendQueue};
use crate::profile::Profile;
use crate::srq::SrqCore;
use crate::sys::ah_table::AhTable;
use crate::sys::handle;
use crate::terms::state::QpState;

/// The parts that a deferred queue pair needs until it is destroyed.
struct Dropped<P: Profile> {
    handle: handle::Qp,
    send: SendQueue<P>,
    ah: AhTable,
    counters: Arc<QueueCounters>,
    send_cq: Arc<CqShared>,
    recv_cq: Arc<CqShared>,
    srq: Arc<SrqCore>,
}

impl<P: Profile> Core<P> {
    /// Ends the queue pair: destroys it, or defers the destruction. Returns the entries of its
    /// ring.
    pub(super) fn end(&mut self) -> Result<Vec<P::Entry>, i32> {
        if self.srq.is_some() {
            self.defer_destroy();
        }
        self.close()
    }

    /// The shared receive queue whose receives a device may lose if the queue pair is destroyed or
    /// reset now. Their completions may still be in the completion queue.
    pub(super) fn may_lose_receives_of(&self) -> Option<&Arc<SrqCore>> {
        self.srq.as_ref().filter(|srq| !self.is_drained && srq.may_lose_receives())
    }

    /// Defers the queue pair if destroying it might lose receives. It is closed here in that case.
    fn defer_destroy(&mut self) {
        if self.handle.is_closed() {
            return;
        }
        let Some(srq) = self.may_lose_receives_of().cloned() else { return };
        // SAFETY: the queue pair is live; libibverbs stores the state in it.
        let state = QpState::from_c(unsafe { (*self.qp()).state });
        let Some(from) = state.filter(|&state| state != QpState::Reset) else { return };
        // (First, because a failure leaves the queue pair in its state.)
        if !self.end_dependents() {
            return;
        }
        if let Err(error) = self.move_to(from, QpState::Err) {
            // A device that is gone uses no more receives. Other devices might.
            if !matches!(error.errno(), Some(libc::EIO | libc::ENODEV)) {
                return;
            }
        }
        let counters = self.counters.clone();
        let in_flight = InFlight::open(&counters, SEND, (0, Vec::new()), StaleCredits::default());
        let empty = Queue::new(self.send.object, in_flight);
        let rest = Dropped::<P> {
            handle: self.handle.take(),
            send: std::mem::replace(&mut self.send, empty),
            ah: std::mem::take(&mut self.ah),
            counters,
            send_cq: self.send_cq.clone(),
            recv_cq: self.recv_cq.clone(),
            srq: srq.clone(),
        };
        let deferred = Arc::new(DeferredDestroy::new(Box::new(rest)));
        let mut over = Over::default();
        let (send, receive) = (&self.send_cq, &self.recv_cq);
        srq.dependents.defer_destroy(&deferred, &self.counters, send, receive, &mut over);
        over.give_back();
    }
}

impl<P: Profile> Rest for Dropped<P> {
    fn destroy(mut self: Box<Self>, over: &mut Over) {
        // (Twice, because dropping a handle whose destruction failed tries again.)
        if self.handle.close().or_else(|_| self.handle.close()).is_err() {
            // The device still has it, so everything that it may use must stay.
            std::mem::forget(self);
            return;
        }
        let Dropped { handle, mut send, ah, counters, send_cq, recv_cq, srq } = *self;
        let at_end = send.at_last(0);
        if send.in_flight.has_lists() {
            counters.note_lists();
        }
        counters.end([send.posted_as_wr_ids(), 0]);
        let entries = send.release_all();
        at_end.tell(&counters, &send_cq, &recv_cq, &mut over.quiet);
        drop((handle, send, ah));
        over.leftovers.push(Box::new((srq, send_cq, recv_cq, entries)));
    }
}
