//! Draining: getting every buffer back before the queue pair is destroyed.

#![allow(unsafe_code)] // posts the marker

use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Core, QueuePair};
use crate::completion::booking::CqShared;
use crate::completion::{Completion, CompletionQueue};
use crate::counters::queue_counters::QueueCounters;
use crate::in_flight::{InFlight, Until};
use crate::memory::Owned;
use crate::profile::{Posting, Profile};
use crate::sys::data::Verb;
use crate::sys::types::{ibv_send_flags, ibv_send_wr, ibv_wr_opcode, zeroed};
use crate::terms::error::Error;
use crate::terms::state::Err;
use crate::terms::threads::Threads;
use crate::terms::transport::Transport;

/// An item found by [`drain`](QueuePair::drain) ([R10.14](crate::guide::rules#r10-14)).
pub enum Drained<'cq, E: Owned> {
    /// A buffer of the queue pair that is being drained.
    Entry(E),
    /// A completion of another queue. The receives of a shared receive queue belong to that queue,
    /// so they are here, even if [`qp_num`](Completion::qp_num) is the queue pair that is drained.
    Other(Completion<'cq, E>),
}

/// The default time limit of a drain. Devices flush in milliseconds.
const TIME: Duration = Duration::from_secs(10);

impl<T: Transport, P: Profile<Entry: Owned>> QueuePair<T, Err, P> {
    /// Waits until no work request of this queue pair is outstanding on `cq`, for at most 10
    /// seconds ([R10.14](crate::guide::rules#r10-14)).
    ///
    /// `found` is called with each buffer of this queue pair ([`Drained::Entry`]), whether its work
    /// request succeeded or was flushed, and with each completion of other queues on `cq`
    /// ([`Drained::Other`]). If the queue pair uses two completion queues, drain it on both. Unused
    /// receives of a shared receive queue stay posted ([R7.7](crate::guide::rules#r7-7)). Used ones
    /// are passed as [`Drained::Other`], even if this queue pair used them. A completion that
    /// `found` drops is lost to its queue pair, so a program with several queue pairs on `cq` must
    /// handle it as in its poll loop. If you do not drain a queue pair, its buffers return to their
    /// pools: [how a queue pair ends](crate::qp#how-a-queue-pair-ends).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with
    /// - EINVAL: the queue pair does not use `cq`.
    /// - EIO: `cq` is in error ([R10.12](crate::guide::rules#r10-12)), or a post failed in a way
    ///   that leaves its outcome unknown ([R8.20](crate::guide::rules#r8-20)).
    /// - ETIMEDOUT: the device did not flush in time ([R7.15](crate::guide::rules#r7-15)), or a
    ///   completion was leaked with `mem::forget`. The error reports how much is outstanding. You
    ///   can drain again.
    pub fn drain<L: Threads>(
        &mut self,
        cq: &mut CompletionQueue<P::Entry, L>,
        found: impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<(), Error> {
        self.drain_within(cq, TIME, found)
    }

    /// Like [`drain`](Self::drain), but waits for at most `timeout`, even if completions of other
    /// queues keep arriving. It polls at least once, and the time starts at the first poll that
    /// leaves work outstanding. `Duration::MAX` waits forever.
    ///
    /// # Errors
    /// As for [`drain`](Self::drain).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::qp::Drained;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// a.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// let mut a = a.to_error()?;
    /// let mut returned = 0;
    /// a.drain_within(&mut cq, std::time::Duration::from_secs(1), |found| match found {
    ///     Drained::Entry(_buf) => returned += 1,
    ///     Drained::Other(completion) => println!("{completion:?}"),
    /// })?;
    /// assert_eq!(returned, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_within<L: Threads>(
        &mut self,
        cq: &mut CompletionQueue<P::Entry, L>,
        timeout: Duration,
        mut found: impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<(), Error> {
        let mut progress = self.begin_drain(cq, &mut found)?;
        if self.left_to_drain(&mut progress)?.is_some() {
            // Usually the first poll returns everything, and the clock is not read.
            self.drain_some(&mut progress, cq, &mut found)?;
        }
        let mut end = None;
        while let Some((sends, receives)) = self.left_to_drain(&mut progress)? {
            let now = Instant::now();
            let end = *end.get_or_insert_with(|| now.checked_add(timeout));
            if end.is_some_and(|end| now >= end) {
                let asked = format!(
                    "{sends} sends and {receives} receives were not flushed within {timeout:?}: \
                     the device is late, or completions were leaked"
                );
                return Err(Error::os(VERB, libc::ETIMEDOUT, asked));
            }
            // Completions of other queues are not progress: they may arrive without end.
            self.drain_some(&mut progress, cq, &mut found)?;
        }
        Ok(())
    }

    /// Checks that the queue pair uses `cq`, and releases what a dropped completion covered.
    pub(super) fn begin_drain<L: Threads>(
        &mut self,
        cq: &CompletionQueue<P::Entry, L>,
        found: &mut impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<Progress, Error> {
        let [sends, receives] = self.core.completes_into(cq.shared())?;
        if self.core.is_poisoned() {
            return Err(Error::os(VERB, libc::EIO, UNKNOWN));
        }
        if let (true, Some(released)) = (sends, self.core.send.in_flight.release(Until::Dropped)) {
            released.for_each(|entry| found(Drained::Entry(entry)));
        }
        // Receives of a shared receive queue are not counted, so those in the completion queue must
        // be taken out.
        let sees_all = !(receives && self.has_srq());
        let capacity = if sees_all { 0 } else { cq.capacity() as usize };
        Ok(Progress { sends, receives, capacity, sentinel: !sends, sees_all, passed: 0 })
    }

    /// The sends and receives that are outstanding; `None` if there are none.
    pub(super) fn left_to_drain(
        &mut self,
        progress: &mut Progress,
    ) -> Result<Option<(usize, usize)>, Error> {
        if !progress.sentinel {
            progress.sentinel = self.core.post_sentinel::<T>();
            if self.core.is_poisoned() {
                return Err(Error::os(VERB, libc::EIO, UNKNOWN));
            }
        }
        let left = (
            if progress.sends { self.sends_outstanding() } else { 0 },
            if progress.receives { self.recvs_outstanding() } else { 0 },
        );
        if left == (0, 0) && progress.sees_all {
            self.core.is_drained |= progress.receives;
            return Ok(None);
        }
        Ok(Some(left))
    }

    /// Polls once, and returns the number of completions.
    pub(super) fn drain_some<L: Threads>(
        &mut self,
        progress: &mut Progress,
        cq: &mut CompletionQueue<P::Entry, L>,
        found: &mut impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<usize, Error> {
        let (completions, sees) = cq.poll_and_see()?;
        let count = completions.len();
        progress.passed += count;
        progress.sees_all |= sees || progress.passed >= progress.capacity;
        let own = self.core.counters.clone();
        for completion in completions {
            self.core.sort(&own, completion, found);
        }
        Ok(count)
    }
}

pub(super) const VERB: &str = "drain";

/// The progress of a drain.
pub(super) struct Progress {
    /// Whether sends complete into the polled queue.
    sends: bool,
    /// Whether receives complete into the polled queue.
    receives: bool,
    /// The capacity of the completion queue, if its present completions must be taken out.
    capacity: usize,
    /// Whether the marker was posted, or is not needed.
    sentinel: bool,
    /// Whether everything that was in the queue when the drain began was taken out.
    sees_all: bool,
    /// The number of completions that were taken out.
    passed: usize,
}

/// Why a queue pair cannot be drained.
pub(super) const UNKNOWN: &str = "a post had no known outcome, or the device did not enter the error state: reset or \
                       destroy the queue pair";

impl<P: Profile> Core<P> {
    /// Whether sends and receives complete into this completion queue. An error if neither do.
    pub(super) fn completes_into(&self, cq: &Arc<CqShared>) -> Result<[bool; 2], Error> {
        let queues = [Arc::ptr_eq(cq, &self.send_cq), Arc::ptr_eq(cq, &self.recv_cq)];
        if queues == [false; 2] {
            let asked = "the queue pair does not complete into this completion queue";
            return Err(Error::os(VERB, libc::EINVAL, asked));
        }
        Ok(queues)
    }

    /// Whether the outcome of a post is unknown.
    fn is_poisoned(&self) -> bool {
        self.send.in_flight.is_poisoned() || self.recv.in_flight.is_poisoned()
    }

    fn sort<'cq>(
        &mut self,
        own: &QueueCounters,
        completion: Completion<'cq, P::Entry>,
        found: &mut impl FnMut(Drained<'_, P::Entry>),
    ) where
        P::Entry: Owned,
    {
        if completion.belongs_to(own) {
            if let Some(entry) = completion.into_entry() {
                found(Drained::Entry(entry));
            }
        } else if let Some(released) =
            self.send.in_flight.release(Until::Completion(completion.wr_id()))
        {
            // A completion of a ring owns no buffer, and dropping it would record it in the
            // counters.
            std::mem::forget(completion);
            released.for_each(|entry| found(Drained::Entry(entry)));
        } else {
            found(Drained::Other(completion));
        }
    }

    /// Posts a zero-length send after all others. In the error state it is flushed. If nothing else
    /// reports that the earlier sends are done, its completion does. Returns false if the device
    /// has no room yet.
    fn post_sentinel<T: Transport>(&mut self) -> bool {
        let Some(wr_id) = self.send.in_flight.enter_sentinel() else { return true };
        // SAFETY: room for its completion is reserved (`SENTINEL`).
        let posted = unsafe { self.post_marker::<T>(wr_id) };
        match posted {
            Posted::Yes => {}
            Posted::NotNeeded | Posted::Refused => self.send.in_flight.take_back(1),
            // It may complete, so it stays in the counters.
            Posted::Unknown => self.send.in_flight.poison(),
        }
        matches!(posted, Posted::Yes | Posted::NotNeeded)
    }

    /// Posts a signaled zero-length send.
    ///
    /// # Safety
    /// The completion queue has room for its completion.
    pub(super) unsafe fn post_marker<T: Transport>(&mut self, wr_id: u64) -> Posted {
        let mut wr = zeroed::<ibv_send_wr>();
        wr.wr_id = wr_id;
        wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        if T::DATAGRAM {
            // Providers read the address handle during the post. There is one, because an
            // outstanding work request used it.
            let posted = self.send.in_flight.posted();
            let Some(ah) = self.ah.lend_any(posted) else { return Posted::NotNeeded };
            wr.wr.ud.ah = ah;
            wr.wr.ud.remote_qpn = 1;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is live, and the work request refers to no memory.
        let code =
            unsafe { <P::Posting as Posting>::Verb::post(self.send.object, &mut wr, &mut bad) };
        match code {
            0 => Posted::Yes,
            _ if bad.is_null() => Posted::Unknown,
            _ => Posted::Refused,
        }
    }
}

/// Whether a marker was posted.
pub(super) enum Posted {
    Yes,
    /// Nothing is outstanding, because there is no address handle.
    NotNeeded,
    /// The queue has no room, or the device rejected the post for another reason.
    Refused,
    /// The device did not report which work request it rejected, so it may have accepted this one
    /// ([R8.20](crate::guide::rules#r8-20)).
    Unknown,
}

impl<E: Owned> fmt::Debug for Drained<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Drained::Entry(_) => f.write_str("Drained::Entry"),
            Drained::Other(completion) => write!(f, "Drained::Other({completion:?})"),
        }
    }
}
