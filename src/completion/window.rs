//! What a completion says of a memory window.

#![allow(unsafe_code)] // looks at the inbox

use crate::completion::inbox::Inbox;
use crate::completion::{Completion, Outcome, Received};
use crate::counters::queue_counters::QueueCounters;
use crate::memory::{Entry, LentWindow, MemoryWindow, Owned};
use crate::sys::types::ibv_wc_flags;

impl LentWindow {
    /// The window without a key, and the message that ended the key, if `by` is a receive of the
    /// window's queue pair that names the key
    /// ([`invalidated_rkey`](Completion::invalidated_rkey); [R10.3](crate::guide::rules#r10-3)).
    ///
    /// A completion proves the end of one key, once, so it is consumed. Keys repeat: those of a
    /// window after 256 binds, and devices give the keys of deallocated windows to others. A
    /// completion of an earlier window or bind with the same key is never proof: such keys are
    /// skipped by [`BindMw::new`](crate::wr::BindMw::new). If none is left, `revoked` returns every
    /// completion, and the window can be dropped or destroyed only. That takes 255 windows with
    /// the same upper 24 bits of a key, or 2^20 windows of one receive queue, all of them dropped
    /// or destroyed while they were bound.
    ///
    /// The region that was lent stays registered until the window's next bind has completed, or
    /// until the window is dropped or destroyed: the device checks both
    /// ([R6.11](crate::guide::rules#r6-11)). [`BindMw`](crate::wr::BindMw) has an example.
    ///
    /// # Errors
    /// The window and the completion, as they were.
    #[doc(alias = "revoke")]
    #[allow(clippy::type_complexity)] // both are the caller's
    pub fn revoked<'cq, E: Owned>(
        self,
        by: Completion<'cq, E>,
    ) -> Result<(MemoryWindow, Received<E>), (Self, Completion<'cq, E>)> {
        let is_of = |counters: &QueueCounters| by.belongs_to(counters);
        if !self.is_ended_by(by.qp_num(), by.invalidated_rkey(), is_of) {
            return Err((self, by));
        }
        match by.outcome() {
            Outcome::Received(message) => Ok((self.into_revoked(), message)),
            _ => unreachable!("a receive of an RC queue pair that succeeded"),
        }
    }
}

impl<E: Entry> Completion<'_, E> {
    /// The key that a received message ended, if it ended one
    /// ([`SendWithInv`](crate::wr::SendWithInv), [R10.3](crate::guide::rules#r10-3)).
    ///
    /// Soft-RoCE sets the kernel's flag for it, which is another one than C's. It is read there.
    #[doc(alias = "IBV_WC_WITH_INV")]
    #[inline]
    pub fn invalidated_rkey(&self) -> Option<u32> {
        let arrival = self.arrival()?;
        let key = arrival.word(ibv_wc_flags::IBV_WC_WITH_INV);
        if key.is_none() && arrival.wc_flags() & ibv_wc_flags::IBV_WC_IP_CSUM_OK.0 != 0 {
            return self.invalidated_on_soft_roce();
        }
        key
    }

    /// The key in a completion of Soft-RoCE. Its kernel's `IB_WC_WITH_INVALIDATE` is the number of
    /// `IBV_WC_IP_CSUM_OK`, which Soft-RoCE never sets, and which others set on datagrams.
    #[cold]
    fn invalidated_on_soft_roce(&self) -> Option<u32> {
        let arrival = self.arrival()?;
        // SAFETY: this completion was polled into an inbox that lives as long as its queue is
        // borrowed.
        let is_soft_roce = unsafe { Inbox::of(self.wc.at) }.is_soft_roce;
        is_soft_roce.then(|| arrival.word(ibv_wc_flags::IBV_WC_IP_CSUM_OK))?
    }
}
