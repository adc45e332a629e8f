//! Requesting an event from a completion queue.

#![allow(unsafe_code)] // one verb

use crate::completion::poll::Polled;
use crate::completion::{CompletionQueue, Completions};
use crate::device::CqId;
use crate::memory::Entry;
use crate::sys::control::status;
use crate::sys::data;
use crate::terms::error::Error;
use crate::terms::threads::Threads;

/// The completions that raise an event (`solicited_only` of `ibv_req_notify_cq`), for
/// [`poll_or_arm`](CompletionQueue::poll_or_arm).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notify {
    /// The next completion of any kind.
    Any,
    /// The next receive whose message was sent [`solicited`](crate::wr::WorkRequest::solicited). On
    /// some devices, the next failure raises an event too. Soft-RoCE raises none for a failed or
    /// flushed send and, since Linux 6.12, none for a flushed receive
    /// ([R13.5](crate::guide::rules#r13-5)).
    Solicited,
}

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    /// The id that identifies this queue in events (ibv_get_cq_event(3)).
    pub fn id(&self) -> CqId {
        self.id
    }

    /// Polls. If there are no completions, arms the queue and polls again (`ibv_req_notify_cq`).
    ///
    /// After an empty result you can sleep on the channel's descriptor: every later completion
    /// raises an event ([R13.3](crate::guide::rules#r13-3)). The queue must have been created [on a
    /// channel](crate::completion::CqBuilder::channel) ([R13.7](crate::guide::rules#r13-7)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::completion::Notify;
    /// use proverbs::device::CqId;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let channel = context.create_comp_channel()?;
    /// let mut cq: CompletionQueue = context.cq(64).channel(&channel).create()?;
    /// let first: CqId = cq.id();
    /// if cq.poll_or_arm(Notify::Any)?.is_empty() {
    ///     // Now it is safe to sleep on the channel's descriptor, in poll(2) or an event loop; events name the queue.
    ///     assert_ne!(first, context.cq(64).channel(&channel).create::<Buf>()?.id());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if the queue has no channel
    /// ([R13.7](crate::guide::rules#r13-7)), EIO if it is in error
    /// ([R10.12](crate::guide::rules#r10-12)).
    #[doc(alias = "ibv_req_notify_cq")]
    pub fn poll_or_arm(&mut self, notify: Notify) -> Result<Completions<'_, E>, Error> {
        if self.shared.handle().parents().channel.is_none() {
            let asked = "the completion queue has no completion channel: create it with `context.cq(cqe).channel(&channel)`";
            return Err(Error::os("ibv_req_notify_cq", libc::EINVAL, asked));
        }
        let polled = self.look_for_or_arm(notify)?;
        Ok(self.completions(polled))
    }

    /// Polls. If there are no completions, arms the queue and polls again.
    #[inline(always)]
    pub(super) fn look_for_or_arm(&mut self, notify: Notify) -> Result<Polled, Error> {
        let polled = self.look_for()?;
        if !polled.is_empty() {
            return Ok(polled);
        }
        self.arm(notify)?;
        self.look_for()
    }

    /// Returns whether there are completions. If there are none, arms the queue.
    pub(crate) fn is_ready_or_armed(&mut self, notify: Notify) -> Result<bool, Error> {
        if self.fetch()? {
            return Ok(true);
        }
        self.arm(notify)?;
        self.fetch()
    }

    #[inline(always)]
    fn arm(&mut self, notify: Notify) -> Result<(), Error> {
        let solicited_only = (notify == Notify::Solicited).into();
        // SAFETY: its handle keeps the queue.
        match unsafe { data::req_notify_cq(self.shared.handle().as_ptr(), solicited_only) } {
            0 => Ok(()),
            code => Err(Error::os("ibv_req_notify_cq", status(code), "")),
        }
    }
}
