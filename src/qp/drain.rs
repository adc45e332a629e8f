//! Draining: every buffer home before the queue pair goes.

#![allow(unsafe_code)] // posts the sentinel

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use super::{Core, QueuePair};
use crate::cq::CompletionQueue;
use crate::entry::Owned;
use crate::error::Error as VerbError;
use crate::in_flight::SendBooks;
use crate::profile::Profile;
use crate::state::Error;
use crate::sys::data;
use crate::sys::types::{ibv_send_flags, ibv_send_wr, ibv_wr_opcode};
use crate::transport::Transport;
use crate::wc::Completion;

/// What a [`drain`](QueuePair::drain) finds (R10.14).
pub enum Drained<'cq, E: Owned> {
    /// An entry of the queue pair that is drained.
    Entry(E),
    /// A completion of another queue.
    Other(Completion<'cq, E>),
}

/// Polls without any completion before a drain gives up, so that a device that does not flush is an
/// error and not a hang.
const IDLE_POLLS: u32 = 10_000_000;

impl<T: Transport, P: Profile> QueuePair<T, Error, P>
where
    P::Entry: Owned,
{
    /// Polls `cq` until nothing of this queue pair is outstanding that completes into it (R10.14). A
    /// queue pair with two completion queues is drained by two calls.
    ///
    /// Entries of this queue pair come out as [`Drained::Entry`], whether they succeeded before the error
    /// or were flushed; completions of other queues on the same completion queue are handed on. Receives of
    /// a shared receive queue stay there (R7.7).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if it does not complete into `cq`, EIO if a post had no known outcome (R8.20) or `cq` is dead (R10.12),
    /// ETIMEDOUT if the device does not flush (R7.15), or a completion of this queue pair was forgotten.
    pub fn drain(
        &mut self,
        cq: &mut CompletionQueue<P::Entry>,
        mut found: impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<(), VerbError> {
        const VERB: &str = "drain";
        let sends = Arc::ptr_eq(cq.shared(), &self.core.send_cq);
        let receives = Arc::ptr_eq(cq.shared(), &self.core.recv_cq);
        if !sends && !receives {
            let asked = "the queue pair does not complete into this completion queue";
            return Err(VerbError::os(VERB, libc::EINVAL, asked));
        }
        if self.core.send.is_poisoned() || self.core.recv.is_stopped() {
            let asked = "a post had no known outcome: reset or destroy the queue pair";
            return Err(VerbError::os(VERB, libc::EIO, asked));
        }
        let mut sentinel = !(sends && self.core.send.needs_sentinel());
        let mut idle = 0;
        loop {
            if !sentinel {
                sentinel = self.core.post_sentinel::<T>();
            }
            let left = (sends && self.sends_outstanding() != 0)
                || (receives && self.recvs_outstanding() != 0);
            if !left {
                return Ok(());
            }
            let completions = cq.poll()?;
            idle = if completions.is_empty() { idle + 1 } else { 0 };
            for completion in completions {
                self.core.sort(completion, &mut found);
            }
            if idle == IDLE_POLLS {
                let left = self.sends_outstanding() + self.recvs_outstanding();
                let asked = format!("{left} work requests were not flushed");
                return Err(VerbError::os(VERB, libc::ETIMEDOUT, asked));
            }
        }
    }
}

impl<P: Profile> Core<P> {
    fn sort<'cq>(
        &mut self,
        completion: Completion<'cq, P::Entry>,
        found: &mut impl FnMut(Drained<'_, P::Entry>),
    ) where
        P::Entry: Owned,
    {
        if completion.belongs_to(Arc::as_ptr(&self.books)) {
            if let Some(entry) = completion.into_entry() {
                found(Drained::Entry(entry));
            }
        } else if let Some(released) = self.send.release_if_owned(completion.wr_id()) {
            released.for_each(|entry| found(Drained::Entry(entry)));
        } else {
            found(Drained::Other(completion));
        }
    }

    /// Posts a send of no bytes behind all others: in the error state it is flushed, and its completion
    /// tells that they are done. False if the device has no room yet.
    fn post_sentinel<T: Transport>(&mut self) -> bool {
        // SAFETY: all zeroes is a value of a work request: no data, null pointers.
        let mut wr = unsafe { MaybeUninit::<ibv_send_wr>::zeroed().assume_init() };
        wr.wr_id = self.send.push_sentinel();
        wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        if T::DATAGRAM {
            // Providers read the address handle when it is posted. One exists, because something
            // that named it is outstanding.
            let Some(ah) = self.ah.any() else {
                self.send.pop_sentinel();
                return true;
            };
            wr.wr.ud.ah = ah;
            wr.wr.ud.remote_qpn = 1;
            wr.wr.ud.remote_qkey = 0;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive, and the work request names no memory.
        let code = unsafe { data::post_send(self.qp, &mut wr, &mut bad) };
        if code != 0 {
            self.send.pop_sentinel();
        }
        code == 0
    }
}
