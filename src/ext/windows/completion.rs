//! The invalidated keys of memory windows in completions.

#![allow(unsafe_code)] // reads the inbox

use super::{LentWindow, MemoryWindow};
use crate::completion::inbox::Inbox;
use crate::completion::{Completion, Outcome, Received};
use crate::counters::queue_counters::QueueCounters;
use crate::memory::{Entry, Owned};
use crate::sys::types::ibv_wc_flags;

impl LentWindow {
    /// Checks whether the received message `by` invalidated this window's key. If so, returns the
    /// unbound window and the message. `by` must be a receive of the window's queue pair that
    /// reports the key ([`invalidated_rkey`](Completion::invalidated_rkey);
    /// [R10.3](crate::guide::rules#r10-3)).
    ///
    /// A completion proves the end of one key, once, so it is consumed. Keys repeat: a window's own
    /// keys after 256 binds, and devices reuse the keys of deallocated windows. An earlier
    /// completion with the same key is never accepted as proof, because
    /// [`BindMw::new`](crate::ext::windows::BindMw::new) skips such keys. If no key is left,
    /// `revoked` rejects every completion, and the window can only be dropped or destroyed. That
    /// takes 255 windows with the same upper 24 bits of a key, or 2^20 windows on one receive
    /// queue, all of them dropped or destroyed while they were bound.
    ///
    /// The bound region stays registered until the window's next bind has completed, or until the
    /// window is dropped or destroyed: the device checks both ([R6.11](crate::guide::rules#r6-11)).
    /// [`BindMw`](crate::ext::windows::BindMw) has an example.
    ///
    /// # Errors
    /// The window and the completion, unchanged.
    #[doc(alias = "revoke")]
    #[allow(clippy::type_complexity)] // the caller gets both back
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
    /// The key that a received message invalidated, if any
    /// ([`SendWithInv`](crate::ext::windows::SendWithInv), [R10.3](crate::guide::rules#r10-3)).
    ///
    /// On Soft-RoCE it is read from the kernel's flag, which differs from the flag of the C
    /// library.
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

    /// The key in a completion of Soft-RoCE. Its kernel's `IB_WC_WITH_INVALIDATE` has the value of
    /// `IBV_WC_IP_CSUM_OK`, which Soft-RoCE never sets, and which other devices set on datagrams.
    #[cold]
    fn invalidated_on_soft_roce(&self) -> Option<u32> {
        let arrival = self.arrival()?;
        // SAFETY: this completion was polled into an inbox that lives as long as its queue is
        // borrowed.
        let is_soft_roce = unsafe { Inbox::of(self.wc.at) }.is_soft_roce;
        is_soft_roce.then(|| arrival.word(ibv_wc_flags::IBV_WC_IP_CSUM_OK))?
    }
}
