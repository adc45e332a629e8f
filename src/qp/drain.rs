//! Draining: getting every buffer back before the queue pair is destroyed.

#![allow(unsafe_code)] // posts the sentinel

use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Core, QueuePair};
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

/// An item found by a [`drain`](QueuePair::drain) ([R10.14](crate::guide::rules#r10-14)).
pub enum Drained<'cq, E: Owned> {
    /// An entry of the queue pair being drained.
    Entry(E),
    /// A completion of another queue.
    Other(Completion<'cq, E>),
}

/// The time limit of a drain by default. Devices flush in milliseconds.
const TIME: Duration = Duration::from_secs(10);

impl<T: Transport, P: Profile<Entry: Owned>> QueuePair<T, Err, P> {
    /// Polls `cq` until nothing of this queue pair that completes into it is outstanding, for at
    /// most 10 seconds ([R10.14](crate::guide::rules#r10-14)). A queue pair with two completion
    /// queues needs two calls. Buffers of a queue pair that is not drained go back to their pools:
    /// [how a queue pair ends](crate::qp#how-a-queue-pair-ends).
    ///
    /// Entries of this queue pair are passed on as [`Drained::Entry`], whether they succeeded
    /// before the error or were flushed. Completions of other queues on the same completion queue
    /// are passed on too. Receives of a shared receive queue stay there
    /// ([R7.7](crate::guide::rules#r7-7)).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if it does not complete into
    /// `cq`; EIO if a post had no known outcome ([R8.20](crate::guide::rules#r8-20)) or `cq` is
    /// dead ([R10.12](crate::guide::rules#r10-12)); ETIMEDOUT if the device does not flush
    /// ([R7.15](crate::guide::rules#r7-15)), or if a completion of this queue pair was forgotten:
    /// the error says how much is outstanding, and the drain may be repeated.
    pub fn drain<L: Threads>(
        &mut self,
        cq: &mut CompletionQueue<P::Entry, L>,
        found: impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<(), Error> {
        self.drain_within(cq, TIME, found)
    }

    /// Like [`drain`](Self::drain), for at most `timeout`, however many completions of others come
    /// meanwhile. It polls at least once, and the time begins with the first poll that leaves
    /// something; `Duration::MAX` means for ever.
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
        let mut end = None;
        let mut progress = self.begin_drain(cq, &mut found)?;
        let mut has_polled = false;
        loop {
            let Some((sends, receives)) = self.left_to_drain(&mut progress)? else { return Ok(()) };
            // (The clock is asked where something is left: mostly the first poll brings all.)
            if has_polled {
                let now = Instant::now();
                let end: Option<Instant> = *end.get_or_insert_with(|| now.checked_add(timeout));
                if end.is_some_and(|end| now >= end) {
                    let asked = format!(
                        "{sends} sends and {receives} receives were not flushed within \
                         {timeout:?}: the device is late, or completions were forgotten"
                    );
                    return Err(Error::os(VERB, libc::ETIMEDOUT, asked));
                }
            }
            self.drain_some(&mut progress, cq, &mut found)?;
            // Completions of others are not progress: they may come for ever.
            has_polled = true;
        }
    }

    /// Looks whether `cq` is of this queue pair, and gives up what a dropped completion released.
    pub(super) fn begin_drain<L: Threads>(
        &mut self,
        cq: &CompletionQueue<P::Entry, L>,
        found: &mut impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<Progress, Error> {
        let sends = Arc::ptr_eq(cq.shared(), &self.core.send_cq);
        let receives = Arc::ptr_eq(cq.shared(), &self.core.recv_cq);
        if !sends && !receives {
            let asked = "the queue pair does not complete into this completion queue";
            return Err(Error::os(VERB, libc::EINVAL, asked));
        }
        if self.core.is_poisoned() {
            return Err(Error::os(VERB, libc::EIO, UNKNOWN));
        }
        if let (true, Some(released)) = (sends, self.core.send.in_flight.release(Until::Dropped)) {
            released.for_each(|entry| found(Drained::Entry(entry)));
        }
        // Receives of a shared receive queue are not counted: those in the completion queue must be
        // taken out.
        let sees_all = !(receives && self.has_srq());
        let capacity = if sees_all { 0 } else { cq.capacity() as usize };
        Ok(Progress { sends, receives, capacity, sentinel: !sends, sees_all, passed: 0 })
    }

    /// The sends and receives that are outstanding; `None` if nothing is, or may be.
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

    /// Polls once, and says how many completions there were.
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

/// How far a drain is.
pub(super) struct Progress {
    /// Whether sends complete into the queue that is polled.
    sends: bool,
    /// Whether receives do.
    receives: bool,
    /// The completions that the queue has room for, if those that are there must be taken out.
    capacity: usize,
    /// Whether the sentinel was posted, or is not needed.
    sentinel: bool,
    /// Whether all that was in the queue when the drain began was taken out.
    sees_all: bool,
    /// The completions that were taken out.
    passed: usize,
}

/// Why a queue pair cannot be drained.
pub(super) const UNKNOWN: &str = "a post had no known outcome, or the device did not take the error state: reset or \
                       destroy the queue pair";

impl<P: Profile> Core<P> {
    /// Whether a post had no known outcome.
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
            // A completion of a ring owns nothing; dropping it would note it in the counters.
            std::mem::forget(completion);
            released.for_each(|entry| found(Drained::Entry(entry)));
        } else {
            found(Drained::Other(completion));
        }
    }

    /// Posts a send of no bytes behind all others. In the error state it is flushed, and its
    /// completion shows that they are done, if nothing else does. Returns false if the device has
    /// no room yet.
    fn post_sentinel<T: Transport>(&mut self) -> bool {
        let Some(wr_id) = self.send.in_flight.enter_sentinel() else { return true };
        // SAFETY: room for its completion is booked (`SENTINEL`).
        let posted = unsafe { self.post_marker::<T>(wr_id) };
        match posted {
            Posted::Yes => {}
            Posted::NotNeeded | Posted::Refused => self.send.in_flight.take_back(1),
            // It may complete, so it stays in the counters.
            Posted::Unknown => self.send.in_flight.poison(),
        }
        matches!(posted, Posted::Yes | Posted::NotNeeded)
    }

    /// Posts a send of no bytes, signaled.
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
            // outstanding work request named it.
            let posted = self.send.in_flight.posted();
            let Some(ah) = self.ah.lend_any(posted) else { return Posted::NotNeeded };
            wr.wr.ud.ah = ah;
            wr.wr.ud.remote_qpn = 1;
            wr.wr.ud.remote_qkey = 0;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is live, and the work request names no memory.
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
    /// Nothing is outstanding, since there is no address handle.
    NotNeeded,
    /// The queue has no room, or the device refused for another reason.
    Refused,
    /// The device did not say which work request it refused, so it may have it
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
