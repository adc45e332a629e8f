//! Asking a completion queue for an event.

#![allow(unsafe_code)] // one verb

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{CompletionQueue, Completions};
use crate::entry::Entry;
use crate::error::Error;
use crate::sys::data;
use crate::sys::types::ibv_cq;

/// Which completions raise an event (`solicited_only` of `ibv_req_notify_cq`), for
/// [`poll_or_arm`](CompletionQueue::poll_or_arm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// The next one.
    Any,
    /// The next receive whose message was sent [`solicited`](crate::WorkRequest::solicited), and the next
    /// failure. Soft-RoCE raises none for a failed or flushed send (R13.5).
    Solicited,
}

/// A completion queue, as events name it: [`CompletionQueue::id`], where C has `cq_context` (ibv_create_cq(3)). Unique in the
/// process, and never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CqId(u64);

impl CqId {
    pub(super) fn mint() -> CqId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        CqId(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes the id where events show it.
    ///
    /// # Safety
    /// `cq` is live, and nobody else knows it yet.
    pub(super) unsafe fn name(self, cq: NonNull<ibv_cq>) {
        // SAFETY: the caller's contract.
        unsafe { (*cq.as_ptr()).cq_context = ptr::without_provenance_mut(self.0 as usize) };
    }

    /// The id that was written there.
    pub(crate) fn from_context(context: u64) -> CqId {
        CqId(context)
    }
}

impl fmt::Debug for CqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CqId({})", self.0)
    }
}

impl<E: Entry> CompletionQueue<E> {
    /// What events call it (ibv_get_cq_event(3)).
    pub fn id(&self) -> CqId {
        self.id
    }

    /// Polls; if nothing is there, arms the queue and polls again (`ibv_req_notify_cq`).
    ///
    /// An empty result says that it is now safe to sleep on the channel's descriptor: what comes from here on
    /// raises an event (R13.3). The queue must have been created
    /// [on a channel](crate::Context::create_cq_on) (R13.7).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { context, .. } = proverbs::guide::ends()?;
    /// let channel = context.create_comp_channel()?;
    /// let mut cq: CompletionQueue = context.create_cq_on(64, &channel)?;
    /// let first: CqId = cq.id();
    /// if cq.poll_or_arm(Notify::Any)?.is_empty() {
    ///     // Now it is safe to sleep on the channel's descriptor, in poll(2) or an event loop; events name the queue.
    ///     assert_ne!(first, context.create_cq_on::<Buf>(64, &channel)?.id());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if the queue is on no channel (R13.7), EIO if it is dead (R10.12).
    pub fn poll_or_arm(&mut self, notify: Notify) -> Result<Completions<'_, E>, Error> {
        if self.shared.handle().parents().channel.is_none() {
            let asked = "the completion queue is on no channel, so nobody would hear of it";
            return Err(Error::os("ibv_req_notify_cq", libc::EINVAL, asked));
        }
        self.is_ready_or_armed(notify)?;
        Ok(self.hand_out())
    }

    /// Whether there are completions; if not, it is armed.
    pub(crate) fn is_ready_or_armed(&mut self, notify: Notify) -> Result<bool, Error> {
        if self.fetch()? {
            return Ok(true);
        }
        let solicited_only = (notify == Notify::Solicited).into();
        // SAFETY: the queue is live.
        match unsafe { data::req_notify_cq(self.shared.handle().as_ptr(), solicited_only) } {
            0 => self.fetch(),
            errno => Err(Error::os("ibv_req_notify_cq", errno, "")),
        }
    }
}
