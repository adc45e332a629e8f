//! Waiting for completions: arm, poll, sleep, in this order.

use std::time::Duration;

use crate::completion::{CompletionChannel, CompletionQueue, Completions, Notify};
use crate::memory::Entry;
use crate::sys::wait::{Sleep, Waker};
use crate::terms::error::Error;
use crate::terms::threads::Threads;

/// A completion queue (`ibv_cq`) with any entry type, for [`CompletionChannel::wait_any`]. Only
/// [`CompletionQueue`] implements it.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::AnyCompletionQueue;
/// /// One of many queues, each with its own entry type.
/// fn ready(
///     channel: &mut CompletionChannel,
///     queues: &mut [&mut dyn AnyCompletionQueue],
/// ) -> Result<Option<usize>, proverbs::Error> {
///     channel.wait_any(queues, Some(std::time::Duration::from_millis(1)))
/// }
/// ```
pub trait AnyCompletionQueue: sealed::Sealed {}

impl<E: Entry, L: Threads> AnyCompletionQueue for CompletionQueue<E, L> {}

mod sealed {
    use super::*;

    pub trait Sealed {
        /// Returns whether there are completions. If not, arms the queue, which must be on
        /// `channel`.
        fn is_ready(&mut self, channel: &CompletionChannel, notify: Notify) -> Result<bool, Error>;
    }

    impl<E: Entry, L: Threads> Sealed for CompletionQueue<E, L> {
        fn is_ready(&mut self, channel: &CompletionChannel, notify: Notify) -> Result<bool, Error> {
            check_is_on(self, channel)?;
            self.is_ready_or_armed(notify)
        }
    }
}

#[cfg(feature = "tokio")]
pub(super) use sealed::Sealed as Ready;

#[inline(always)]
fn check_is_on<E: Entry, L: Threads>(
    cq: &CompletionQueue<E, L>,
    channel: &CompletionChannel,
) -> Result<(), Error> {
    #[cold]
    #[inline(never)]
    fn not_on_it() -> Error {
        let asked = "the completion queue is not on this channel: create it with `context.cq(cqe).channel(&channel)`";
        Error::os("ibv_get_cq_event", libc::EINVAL, asked)
    }
    if cq.is_on(channel.handle()) { Ok(()) } else { Err(not_on_it()) }
}

impl CompletionChannel {
    /// Sleeps until `cq`, which must be on this channel, has completions, and polls them. Waits
    /// **forever** if no completion arrives.
    ///
    /// It polls, arms the queue (`ibv_req_notify_cq`) and polls again. Only if both polls find
    /// nothing does it sleep for an event (`ibv_get_cq_event`), which it acknowledges
    /// ([R13.3](crate::guide::rules#r13-3)). Sleeping takes one system call, or three if the
    /// previous wait on this channel had a timeout. The result is never empty. If the channel has
    /// several queues, their events are acknowledged too, and those queues are no longer armed.
    /// Nothing is lost, because each wait polls before it sleeps.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os): EINVAL if `cq` is not on this channel, EIO of `ibv_poll_cq` if
    /// it is in error ([R10.12](crate::guide::rules#r10-12)), or the errno of `ibv_req_notify_cq`
    /// or `ibv_get_cq_event`. The next poll returns the completions that were polled before the
    /// error.
    #[doc(alias("ibv_get_cq_event", "ibv_ack_cq_events"))]
    pub fn wait<'cq, E: Entry, L: Threads>(
        &mut self,
        cq: &'cq mut CompletionQueue<E, L>,
    ) -> Result<Completions<'cq, E>, Error> {
        self.wait_for(cq, Notify::Any, None, None)
    }

    /// Like [`wait`](Self::wait), but waits for at most `timeout`, rounded up to milliseconds.
    /// After a timeout the result is empty.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). A timeout is not an error.
    pub fn wait_timeout<'cq, E: Entry, L: Threads>(
        &mut self,
        cq: &'cq mut CompletionQueue<E, L>,
        timeout: Duration,
    ) -> Result<Completions<'cq, E>, Error> {
        self.wait_for(cq, Notify::Any, Some(timeout), None)
    }

    /// Like [`wait_timeout`](Self::wait_timeout), but only a receive whose message was sent
    /// [`solicited`](crate::wr::WorkRequest::solicited) ends the sleep (`solicited_only` of
    /// `ibv_req_notify_cq`). On some devices a failure ends it too. If `timeout` is `None`, it may
    /// wait **forever**.
    ///
    /// **A failure may not wake the program** ([R13.5](crate::guide::rules#r13-5)). Soft-RoCE never
    /// wakes it for a failed or flushed send nor, since Linux 6.12, for a flushed receive. Without
    /// a `timeout`, a program may sleep through the failure of its queue pair.
    ///
    /// Completions that are available at the call are returned at once, solicited or not. So are
    /// completions that arrive with the wake-up or within `timeout`. A queue that is already armed
    /// for any completion stays armed until it raises an event
    /// ([R13.6](crate::guide::rules#r13-6)).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). A timeout is not an error.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use proverbs::{loopback::Fabric, prelude::*};
    /// # fn main() -> Result<(), proverbs::Error> {
    /// # let context = Fabric::new().open_device();
    /// let mut channel = context.create_comp_channel()?;
    /// let mut cq: CompletionQueue = context.cq(16).channel(&channel).create()?;
    /// // The peer's `wr::Send::new(buf).solicited()` ends this sleep. Its other messages do not.
    /// let completions = channel.wait_solicited(&mut cq, Some(Duration::from_millis(1)))?;
    /// assert_eq!(completions.count(), 0, "the peer sends nothing");
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_solicited<'cq, E: Entry, L: Threads>(
        &mut self,
        cq: &'cq mut CompletionQueue<E, L>,
        timeout: Option<Duration>,
    ) -> Result<Completions<'cq, E>, Error> {
        self.wait_for(cq, Notify::Solicited, timeout, None)
    }

    /// Sleeps until one of `queues`, all on this channel, has completions. Returns the index of the
    /// first queue that does. Poll that queue; others may have completions too. Returns `None`
    /// after `timeout`. If `timeout` is `None`, it waits **forever**.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), for any of the queues. A timeout is not an error.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use proverbs::{loopback::Fabric, prelude::*};
    /// # fn main() -> Result<(), proverbs::Error> {
    /// # let context = Fabric::new().open_device();
    /// let mut channel = context.create_comp_channel()?;
    /// let mut few: CompletionQueue = context.cq(16).channel(&channel).create()?;
    /// let mut lists: CompletionQueue<BufList> = context.cq(16).channel(&channel).create()?;
    /// let timeout = Some(Duration::from_millis(1));
    /// match channel.wait_any(&mut [&mut few, &mut lists], timeout)? {
    ///     Some(0) => few.poll()?.for_each(drop),
    ///     Some(_) => lists.poll()?.for_each(drop),
    ///     None => println!("no completions within a millisecond"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_any(
        &mut self,
        queues: &mut [&mut dyn AnyCompletionQueue],
        timeout: Option<Duration>,
    ) -> Result<Option<usize>, Error> {
        self.first_of(queues, timeout, None)
    }

    /// Like [`wait_timeout`](Self::wait_timeout), but a [`waker`](Waker::wake) can end the wait
    /// early. If `timeout` is `None`, it may wait **forever**. The result is empty after a wake or
    /// a timeout.
    ///
    /// Completions take precedence, including those that arrive together with the wake. Only a call
    /// that returns no completion consumes a wake.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). Neither a timeout nor being woken is an error.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::completion::Waker;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let mut channel = context.create_comp_channel()?;
    /// let mut cq: CompletionQueue = context.cq(16).channel(&channel).create()?;
    /// let waker = Waker::new()?;
    /// waker.wake(); // before the sleep, or from another thread during it
    /// assert!(channel.wait_or_woken(&mut cq, &waker, None)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_or_woken<'cq, E: Entry, L: Threads>(
        &mut self,
        cq: &'cq mut CompletionQueue<E, L>,
        waker: &Waker,
        timeout: Option<Duration>,
    ) -> Result<Completions<'cq, E>, Error> {
        self.wait_for(cq, Notify::Any, timeout, Some(waker))
    }

    /// Like [`wait_any`](Self::wait_any), but a [`waker`](Waker::wake) can end it early, with
    /// `None`.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), for any of the queues. Neither a timeout nor being woken is an
    /// error.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::completion::Waker;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let mut channel = context.create_comp_channel()?;
    /// let mut few: CompletionQueue = context.cq(16).channel(&channel).create()?;
    /// let mut lists: CompletionQueue<BufList> = context.cq(16).channel(&channel).create()?;
    /// let waker = Waker::new()?;
    /// waker.wake();
    /// assert_eq!(channel.wait_any_or_woken(&mut [&mut few, &mut lists], &waker, None)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_any_or_woken(
        &mut self,
        queues: &mut [&mut dyn AnyCompletionQueue],
        waker: &Waker,
        timeout: Option<Duration>,
    ) -> Result<Option<usize>, Error> {
        self.first_of(queues, timeout, Some(waker))
    }

    /// Takes events until one of the queues has completions, the timeout expires or the waker is
    /// woken.
    fn first_of(
        &mut self,
        queues: &mut [&mut dyn AnyCompletionQueue],
        timeout: Option<Duration>,
        waker: Option<&Waker>,
    ) -> Result<Option<usize>, Error> {
        let mut sleep = Sleep::new(timeout, waker);
        loop {
            let first = first_ready(self, queues)?;
            if first.is_some() || !self.next_event(&mut sleep)? {
                return Ok(first);
            }
        }
    }

    /// Takes events until there are completions, the timeout expires or the waker is woken.
    /// (Inlined, so that a wait without a timeout or a waker pays for neither.)
    #[inline(always)]
    fn wait_for<'cq, E: Entry, L: Threads>(
        &mut self,
        cq: &'cq mut CompletionQueue<E, L>,
        notify: Notify,
        timeout: Option<Duration>,
        waker: Option<&Waker>,
    ) -> Result<Completions<'cq, E>, Error> {
        check_is_on(cq, self)?;
        let mut sleep = Sleep::new(timeout, waker);
        loop {
            let polled = cq.look_for_or_arm(notify)?;
            if !polled.is_empty() || !self.next_event(&mut sleep)? {
                return Ok(cq.completions(polled));
            }
        }
    }

    /// Sleeps, and takes the event if there is one. Returns whether to poll again.
    #[inline(always)]
    fn next_event(&mut self, sleep: &mut Sleep<'_>) -> Result<bool, Error> {
        if sleep.is_endless() && self.sleep_for_event()? {
            return Ok(true);
        }
        if !sleep.on(self.fd())? {
            return Ok(false);
        }
        self.take_event()?;
        Ok(true)
    }
}

/// The first of the queues that has completions. The queues before it are armed.
pub(crate) fn first_ready<Q: AnyCompletionQueue + ?Sized>(
    channel: &CompletionChannel,
    queues: &mut [&mut Q],
) -> Result<Option<usize>, Error> {
    for (index, queue) in queues.iter_mut().enumerate() {
        if queue.is_ready(channel, Notify::Any)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}
