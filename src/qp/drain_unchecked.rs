//! Draining a queue pair of the `unsafe` interface. The crate does not know which work is
//! outstanding, so it posts a marker after that work.

#![allow(unsafe_code)] // posts the markers

use std::time::{Duration, Instant};

use super::QueuePair;
use super::drain::{Posted, UNKNOWN, VERB};
use crate::completion::{Completion, CompletionQueue};
use crate::memory::Raw;
use crate::post::chain::RecvPost;
use crate::profile::Profile;
use crate::sys::refusal::refusal;
use crate::sys::types::ibv_qp_type;
use crate::terms::error::Error;
use crate::terms::state::Err;
use crate::terms::threads::Threads;
use crate::terms::transport::Transport;
use crate::work::recv::Recv;
use crate::work::sge::Sge;

/// A work request after all others of its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    /// The queue does not exist, or completes on another completion queue, or the marker has
    /// completed.
    Over,
    NotPosted,
    Posted,
}

impl<T: Transport, P: Profile<Entry = Raw>> QueuePair<T, Err, P> {
    /// Polls `cq` until everything of this queue pair that completes into it has completed, for at
    /// most `timeout` ([R10.14](crate::guide::rules#r10-14)). `found` receives every completion,
    /// including completions of other queue pairs. The wr_ids show which work requests the device
    /// has finished with.
    ///
    /// It posts one zero-length work request after all sends, with the wr_id `markers[0]`. Unless
    /// the queue pair has a shared receive queue, it also posts one after all receives, with
    /// `markers[1]`. The completions of the markers are not passed to `found`. A queue completes in
    /// order, so everything before a marker has completed, including unsignaled work requests. If
    /// the queue pair uses two completion queues, drain it on both.
    ///
    /// Receives that were taken from a shared receive queue have no marker. Those whose completions
    /// are in `cq` have completed. A device may keep the others until the shared receive queue is
    /// destroyed ([R7.7](crate::guide::rules#r7-7)).
    ///
    /// This call fails at once on siw, which does not flush a marker that is posted in the error
    /// state ([R24.7](crate::guide::rules#r24-7)), and on SRD, whose completions are not ordered
    /// ([R27.3](crate::guide::rules#r27-3)). There, count the work requests and poll that many
    /// completions, or destroy the queue pair.
    ///
    /// # Safety
    /// Besides the completions of all outstanding work, `cq` has room for the markers' completions
    /// ([R9.9](crate::guide::rules#r9-9)). It always has room for the send marker. It has room for
    /// the receive marker if fewer receives than the depth are outstanding. No outstanding work
    /// request of this queue pair has the wr_id of a marker.
    ///
    /// # Errors
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL: the queue pair does not use `cq`.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with EIO: `cq` is in error
    ///   ([R10.12](crate::guide::rules#r10-12)), or the outcome of a marker is unknown
    ///   ([R8.20](crate::guide::rules#r8-20)).
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with ETIMEDOUT: the markers did not complete in
    ///   time. You can drain again, with other markers.
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the device is siw, or the
    ///   transport is SRD.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use std::time::Duration;
    /// use proverbs::memory::Raw;
    /// profile! { Unchecked { entry: Raw } }
    ///
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// let region = pd.register::<LocalWrite>(4096)?;
    /// let mut cq: CompletionQueue<Raw> = context.create_cq(32)?;
    /// let qp = pd.create_qp::<Rc, Unchecked>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    /// let mut qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    /// for wr_id in 0..3 {
    ///     let into = wr::Piece::new(&region, 64 * wr_id..64 * (wr_id + 1))?;
    ///     // SAFETY: the region outlives the queue pair, nothing else touches it before the
    ///     // completion, and `cq` has room.
    ///     unsafe { qp.post_recv_unchecked(wr::Recv::new(wr::Sge::new(wr_id as u64, [into])))? };
    /// }
    /// let mut qp = qp.to_error()?;
    /// let mut flushed = Vec::new();
    /// // SAFETY: 3 of 8 receives are outstanding, and their wr_ids are small.
    /// unsafe {
    ///     qp.drain_unchecked(&mut cq, [u64::MAX, u64::MAX], Duration::from_secs(1), |completion| {
    ///         flushed.push(completion.raw_wr_id());
    ///     })?;
    /// }
    /// assert_eq!(flushed, [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unsafe fn drain_unchecked<L: Threads>(
        &mut self,
        cq: &mut CompletionQueue<Raw, L>,
        markers: [u64; 2],
        timeout: Duration,
        mut found: impl FnMut(Completion<'_, Raw>),
    ) -> Result<(), Error> {
        let [sends, receives] = self.core.completes_into(cq.shared())?;
        let lacks = match (T::ORDERED, self.core.counters.is_siw()) {
            (true, false) => None,
            (true, true) => Some("is siw, which does not flush posts in the error state"),
            (false, _) => Some("has SRD, whose completions are not ordered"),
        };
        if let Some(lacks) = lacks {
            let instead = "count the completions, or destroy the queue pair";
            let context = self.context();
            let asked = "a drain with markers".to_owned();
            return Err(refusal(&context.handle, VERB, asked, lacks, instead));
        }
        let has_own_receives = !self.has_srq() && T::QP_TYPE != ibv_qp_type::IBV_QPT_XRC_SEND;
        let state = |is_here| if is_here { Marker::NotPosted } else { Marker::Over };
        let mut is_at = [state(sends), state(receives && has_own_receives)];
        // Receives of a shared queue have no marker. The completions that are present are taken
        // out.
        let mut left_to_see = if receives && self.has_srq() { cq.capacity() as usize } else { 0 };
        let own = self.qp_num();
        let end = Instant::now().checked_add(timeout);
        loop {
            if is_at[0] == Marker::NotPosted {
                // SAFETY: there is room for its completion (this function's contract).
                is_at[0] = match unsafe { self.core.post_marker::<T>(markers[0]) } {
                    Posted::NotNeeded => Marker::Over,
                    Posted::Yes => Marker::Posted,
                    // The queue is full. Polling makes room.
                    Posted::Refused => Marker::NotPosted,
                    Posted::Unknown => return Err(Error::os(VERB, libc::EIO, UNKNOWN)),
                };
            }
            if is_at[1] == Marker::NotPosted {
                let marker = Recv::new(Sge::new(markers[1], []));
                let post = RecvPost::<T, P>::new(&mut self.core.recv);
                // SAFETY: it refers to no memory, and there is room for its completion.
                is_at[1] = match unsafe { post.one_unchecked(marker) } {
                    Ok(()) => Marker::Posted,
                    Err(refused) if refused.bad_wr.is_some() => Marker::NotPosted,
                    Err(_) => return Err(Error::os(VERB, libc::EIO, UNKNOWN)),
                };
            }
            let (completions, sees_all) = cq.poll_and_see()?;
            left_to_see = if sees_all { 0 } else { left_to_see.saturating_sub(completions.len()) };
            for completion in completions {
                let is_marker =
                    |i: usize| is_at[i] == Marker::Posted && completion.raw_wr_id() == markers[i];
                match [0, 1].into_iter().find(|&i| is_marker(i)) {
                    Some(i) if completion.qp_num() == own => is_at[i] = Marker::Over,
                    _ => found(completion),
                }
            }
            if is_at == [Marker::Over; 2] && left_to_see == 0 {
                return Ok(());
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                let asked = format!(
                    "the markers did not complete within {timeout:?}: the device is late, or a \
                     queue has no room for its marker"
                );
                return Err(Error::os(VERB, libc::ETIMEDOUT, asked));
            }
        }
    }
}
