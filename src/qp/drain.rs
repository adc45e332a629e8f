//! Draining: every buffer home before the queue pair goes.

#![allow(unsafe_code)] // posts the sentinel

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// How long a drain takes at most unless it is told otherwise: devices flush in milliseconds.
const TIME: Duration = Duration::from_secs(10);

impl<T: Transport, P: Profile> QueuePair<T, Error, P>
where
    P::Entry: Owned,
{
    /// Polls `cq` until nothing of this queue pair is outstanding that completes into it, for at most 10 seconds
    /// (R10.14). A queue pair with two completion queues is drained by two calls.
    ///
    /// Entries of this queue pair come out as [`Drained::Entry`], whether they succeeded before the error
    /// or were flushed; completions of other queues on the same completion queue are handed on. Receives of
    /// a shared receive queue stay there (R7.7).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if it does not complete into `cq`, EIO if a post had no known outcome (R8.20) or `cq` is dead (R10.12),
    /// ETIMEDOUT if the device does not flush (R7.15), or a completion of this queue pair was forgotten: the error says
    /// what is outstanding, and the drain can be taken up again.
    pub fn drain(
        &mut self,
        cq: &mut CompletionQueue<P::Entry>,
        found: impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<(), VerbError> {
        self.drain_within(cq, TIME, found)
    }

    /// As [`drain`](Self::drain), for at most `timeout`, however many completions of others come meanwhile. It
    /// polls once at least; `Duration::MAX` is for ever.
    ///
    /// # Errors
    /// As [`drain`](Self::drain).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, .. } = proverbs::guide::ends()?;
    /// a.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
    /// let mut a = a.to_error()?;
    /// let mut home = 0;
    /// a.drain_within(&mut cq, std::time::Duration::from_secs(1), |found| match found {
    ///     Drained::Entry(_buf) => home += 1,
    ///     Drained::Other(completion) => println!("{completion:?}"),
    /// })?;
    /// assert_eq!(home, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_within(
        &mut self,
        cq: &mut CompletionQueue<P::Entry>,
        timeout: Duration,
        mut found: impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<(), VerbError> {
        const VERB: &str = "drain";
        let capacity = cq.capacity() as usize;
        let end = Instant::now().checked_add(timeout);
        let sends = Arc::ptr_eq(cq.shared(), &self.core.send_cq);
        let receives = Arc::ptr_eq(cq.shared(), &self.core.recv_cq);
        if !sends && !receives {
            let asked = "the queue pair does not complete into this completion queue";
            return Err(VerbError::os(VERB, libc::EINVAL, asked));
        }
        if self.core.send.is_poisoned() || self.core.recv.is_stopped() {
            return Err(VerbError::os(VERB, libc::EIO, UNKNOWN));
        }
        if let (true, Some(released)) = (sends, self.core.send.release_dropped()) {
            released.for_each(|entry| found(Drained::Entry(entry)));
        }
        let mut sentinel = !(sends && self.core.send.needs_sentinel());
        let mut is_late = false;
        // Receives of a shared receive queue are not counted: what is in the completion queue of them must be taken out.
        let mut sees_all = !(receives && self.has_srq());
        let mut passed = 0;
        loop {
            if !sentinel {
                sentinel = self.core.post_sentinel::<T>();
                if self.core.send.is_poisoned() {
                    return Err(VerbError::os(VERB, libc::EIO, UNKNOWN));
                }
            }
            let left = (
                if sends { self.sends_outstanding() } else { 0 },
                if receives { self.recvs_outstanding() } else { 0 },
            );
            if left == (0, 0) && sees_all {
                self.core.is_drained |= receives;
                return Ok(());
            }
            if is_late {
                let (sends, receives) = left;
                let asked = format!(
                    "{sends} sends and {receives} receives were not flushed within {timeout:?}: the \
                     device is late, or completions were forgotten"
                );
                return Err(VerbError::os(VERB, libc::ETIMEDOUT, asked));
            }
            let (completions, sees) = cq.poll_and_see()?;
            passed += completions.len();
            sees_all |= sees || passed >= capacity;
            for completion in completions {
                self.core.sort(completion, &mut found);
            }
            // Completions of others do not count as progress: they may come for ever.
            is_late = end.is_some_and(|end| Instant::now() >= end);
        }
    }
}

/// Why a queue pair cannot be drained.
const UNKNOWN: &str = "a post had no known outcome, or the device did not take the error state: reset or \
                       destroy the queue pair";

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
            // A completion of a ring owns nothing; dropped, it would be noted.
            std::mem::forget(completion);
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
            let Some(ah) = self.ah.lend_any(self.send.posted()) else {
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
        if code != 0 && bad.is_null() {
            // Nobody knows whether the device has it (R8.20), so it stays in the books.
            self.send.poison();
        } else if code != 0 {
            self.send.pop_sentinel();
        }
        code == 0
    }
}
