//! Waiting for completions: arm, poll, sleep, in this order.

use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use super::CompletionChannel;
use crate::cq::{CompletionQueue, Completions, Notify};
use crate::entry::Entry;
use crate::error::Error;
use crate::sys::events::wait_readable;

/// A completion queue (`ibv_cq`), whatever its entries: what [`CompletionChannel::wait_any`] waits for. Every
/// [`CompletionQueue`] is one, and nothing else.
///
/// ```
/// # use proverbs::*;
/// /// One of many queues, each with entries of its own type.
/// fn ready(
///     channel: &mut CompletionChannel,
///     queues: &mut [&mut dyn AnyCompletionQueue],
/// ) -> Result<Option<usize>, VerbsError> {
///     channel.wait_any(queues, Some(std::time::Duration::from_millis(1)))
/// }
/// ```
pub trait AnyCompletionQueue: sealed::Sealed {}

impl<E: Entry> AnyCompletionQueue for CompletionQueue<E> {}

mod sealed {
    use super::*;

    pub trait Sealed {
        /// Whether there are completions; if not, the queue is armed. It must be on `channel`.
        fn is_ready(&mut self, channel: &CompletionChannel, notify: Notify) -> Result<bool, Error>;
    }

    impl<E: Entry> Sealed for CompletionQueue<E> {
        fn is_ready(&mut self, channel: &CompletionChannel, notify: Notify) -> Result<bool, Error> {
            if !self.is_on(channel.handle()) {
                let asked = "the completion queue is not on this channel";
                return Err(Error::os("ibv_get_cq_event", libc::EINVAL, asked));
            }
            self.is_ready_or_armed(notify)
        }
    }
}

pub(super) use sealed::Sealed as Ready;

impl CompletionChannel {
    /// Sleeps until `cq`, which must have been created on this channel, has completions, and polls them; waits
    /// **for ever** if none come.
    ///
    /// The queue is armed (`ibv_req_notify_cq`), polled once more, and only if that found nothing an event is
    /// waited for (`ibv_get_cq_event`) and acknowledged (R13.3). The result is never empty. With several
    /// queues on one channel, events of the others are acknowledged too, and their queues stay
    /// un-armed: nothing is lost, as each wait looks before it sleeps.
    ///
    /// The example is [the channel's](CompletionChannel).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os): EINVAL if `cq` is not on this channel; EIO of `ibv_poll_cq` if it is dead
    /// (R10.12); or the errno of `ibv_req_notify_cq` or `ibv_get_cq_event`. Completions that were polled by then
    /// are handed out by the next poll.
    pub fn wait<'cq, E: Entry>(
        &mut self,
        cq: &'cq mut CompletionQueue<E>,
    ) -> Result<Completions<'cq, E>, Error> {
        self.sleep_until(None, |channel| cq.is_ready(channel, Notify::Any))?;
        Ok(cq.hand_out())
    }

    /// As [`wait`](Self::wait), for at most `timeout` (in steps of a millisecond, rounded up); the result is
    /// empty if nothing came.
    ///
    /// The example is [the channel's](CompletionChannel).
    ///
    /// # Errors
    /// As [`wait`](Self::wait). That nothing came is none.
    pub fn wait_timeout<'cq, E: Entry>(
        &mut self,
        cq: &'cq mut CompletionQueue<E>,
        timeout: Duration,
    ) -> Result<Completions<'cq, E>, Error> {
        self.sleep_until(Some(timeout), |channel| cq.is_ready(channel, Notify::Any))?;
        Ok(cq.hand_out())
    }

    /// As [`wait_timeout`](Self::wait_timeout), or **for ever** if `timeout` is `None`; but only a receive
    /// whose message was sent [`solicited`](crate::WorkRequest::solicited), and a failure, end the sleep
    /// (`solicited_only` of `ibv_req_notify_cq`).
    ///
    /// What is there when it begins is returned at once, solicited or not, and so is what came along with
    /// the wake-up. The limits: a send that succeeds never wakes; Soft-RoCE wakes for a failed receive but not for a
    /// failed or flushed send (R13.5); a queue that is still armed for any completion stays so until it
    /// fires (R13.6).
    ///
    /// # Errors
    /// As [`wait`](Self::wait). That nothing came is none.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use proverbs::{loopback::Fabric, *};
    /// # fn main() -> Result<(), VerbsError> {
    /// # let context = Fabric::new().open_device();
    /// let mut channel = context.create_comp_channel()?;
    /// let mut cq: CompletionQueue = context.create_cq_on(16, &channel)?;
    /// // The peer's `Send::new(buf).solicited()` ends this sleep, its other messages do not.
    /// let completions = channel.wait_solicited(&mut cq, Some(Duration::from_millis(1)))?;
    /// assert_eq!(completions.count(), 0, "nobody sends");
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_solicited<'cq, E: Entry>(
        &mut self,
        cq: &'cq mut CompletionQueue<E>,
        timeout: Option<Duration>,
    ) -> Result<Completions<'cq, E>, Error> {
        self.sleep_until(timeout, |channel| cq.is_ready(channel, Notify::Solicited))?;
        Ok(cq.hand_out())
    }

    /// Sleeps until one of `queues`, which must all be on this channel, has completions, and gives the index of
    /// the first that has: poll it. Others may have some too. `None` if nothing came within `timeout`, which is
    /// **for ever** if it is `None`.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), of any of the queues. That nothing came is none.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use proverbs::{loopback::Fabric, *};
    /// # fn main() -> Result<(), VerbsError> {
    /// # let context = Fabric::new().open_device();
    /// let mut channel = context.create_comp_channel()?;
    /// let mut few: CompletionQueue = context.create_cq_on(16, &channel)?;
    /// let mut lists: CompletionQueue<BufList> = context.create_cq_on(16, &channel)?;
    /// let timeout = Some(Duration::from_millis(1));
    /// match channel.wait_any(&mut [&mut few, &mut lists], timeout)? {
    ///     Some(0) => few.poll()?.for_each(drop),
    ///     Some(_) => lists.poll()?.for_each(drop),
    ///     None => println!("nothing came within a millisecond"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_any(
        &mut self,
        queues: &mut [&mut dyn AnyCompletionQueue],
        timeout: Option<Duration>,
    ) -> Result<Option<usize>, Error> {
        let mut first = None;
        self.sleep_until(timeout, |channel| {
            first = first_ready(channel, queues)?;
            Ok(first.is_some())
        })?;
        Ok(first)
    }

    /// Takes events until it is time to stop.
    fn sleep_until(
        &mut self,
        timeout: Option<Duration>,
        mut is_ready: impl FnMut(&CompletionChannel) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        while !is_ready(self)? {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            sleep_on(self.as_raw_fd(), left)?;
            self.try_event()?;
        }
        Ok(())
    }
}

/// The first of the queues that has completions. The ones before it are armed.
pub(super) fn first_ready<Q: AnyCompletionQueue + ?Sized>(
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

/// Waits until `fd` is readable, for at most `timeout` if there is one. A signal ends it early.
pub(crate) fn sleep_on(fd: RawFd, timeout: Option<Duration>) -> Result<(), Error> {
    let rounded_up = |time: Duration| time.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
    let waited = wait_readable(fd, timeout.map_or(-1, rounded_up));
    waited.map(drop).map_err(|errno| Error::os("poll", errno, ""))
}
