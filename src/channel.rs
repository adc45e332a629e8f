//! Completion channels: sleeping until a completion queue has something.

#![allow(unsafe_code)] // calls the event verbs

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::cq::{CompletionQueue, Completions};
use crate::entry::Entry;
use crate::error::{Error, Refused};
use crate::sys::handle;

/// A completion channel (`ibv_create_comp_channel`): a file descriptor that is readable while an event of
/// one of its completion queues waits.
///
/// A channel is for one thread at a time: events are taken by `&mut`.
pub struct CompletionChannel {
    handle: Arc<handle::Channel>,
}

impl CompletionChannel {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let control = context.handle.control();
        // SAFETY: the context is live.
        match unsafe { (control.create_comp_channel)(context.handle.as_ptr()) } {
            Ok(channel) => {
                let parent = context.handle.clone();
                // SAFETY: just created, and owned by nobody else.
                let handle = unsafe { handle::Channel::new(channel, control, parent) };
                Ok(CompletionChannel { handle: Arc::new(handle) })
            }
            Err(errno) => Err(Error::os("ibv_create_comp_channel", errno, "")),
        }
    }

    pub(crate) fn handle(&self) -> &Arc<handle::Channel> {
        &self.handle
    }

    /// Sleeps until `cq`, which must have been created on this channel, has completions, and polls them.
    ///
    /// Arm, poll, sleep is the order that cannot lose a wake-up (R13.3): the queue is armed
    /// (`ibv_req_notify_cq`), polled once more, and only if that found nothing an event is waited for
    /// (`ibv_get_cq_event`) and acknowledged. The result is never empty. With several queues on one
    /// channel, events of the others are acknowledged too, and their queues stay un-armed.
    pub fn wait<'cq, E: Entry>(
        &mut self,
        cq: &'cq mut CompletionQueue<E>,
    ) -> Result<Completions<'cq, E>, Error> {
        while !self.is_ready(cq)? {
            self.take_event()?;
        }
        Ok(cq.hand_out())
    }

    /// As [`wait`](Self::wait), for at most `timeout` (in steps of a millisecond, rounded up); the result is
    /// empty if nothing came. The loopback device works inside verbs only, so there both ends should
    /// not wait like this at once.
    pub fn wait_timeout<'cq, E: Entry>(
        &mut self,
        cq: &'cq mut CompletionQueue<E>,
        timeout: Duration,
    ) -> Result<Completions<'cq, E>, Error> {
        let end = Instant::now().checked_add(timeout);
        while !self.is_ready(cq)? {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            if self.sleep(left)? {
                self.take_event()?;
            }
        }
        Ok(cq.hand_out())
    }

    /// Whether `cq` has completions; if not, it is armed.
    fn is_ready<E: Entry>(&self, cq: &mut CompletionQueue<E>) -> Result<bool, Error> {
        if !cq.is_on(&self.handle) {
            let asked = "the completion queue is not on this channel";
            return Err(Error::os("ibv_get_cq_event", libc::EINVAL, asked));
        }
        if cq.fetch()? {
            return Ok(true);
        }
        cq.arm()?;
        cq.fetch()
    }

    /// Waits for one event of any queue of this channel, and acknowledges it.
    fn take_event(&mut self) -> Result<(), Error> {
        let control = self.handle.control();
        loop {
            // SAFETY: the channel is live.
            match unsafe { (control.get_cq_event)(self.handle.as_ptr()) } {
                Ok(cq) => {
                    // SAFETY: the event names a live queue: one is destroyed only after its events
                    // were acknowledged (R13.1), and this one is not yet.
                    unsafe { (control.ack_cq_events)(cq.as_ptr(), 1) };
                    return Ok(());
                }
                Err(libc::EINTR) => {}
                // Somebody made the descriptor non-blocking.
                Err(libc::EAGAIN) => drop(self.sleep(None)?),
                Err(errno) => return Err(Error::os("ibv_get_cq_event", errno, "")),
            }
        }
    }

    /// Waits on the descriptor, for at most `timeout` if there is one; whether it is readable.
    fn sleep(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        sleep_on(self.as_fd().as_raw_fd(), timeout)
    }

    /// Destroys it. Completion queues on it must be gone, or it comes back.
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        const VERB: &str = "ibv_destroy_comp_channel";
        match Arc::try_unwrap(self.handle) {
            Ok(mut handle) => match handle.close() {
                Ok(()) => Ok(()),
                Err(errno) => {
                    let handle = Arc::new(handle);
                    Err(Refused::new(CompletionChannel { handle }, Error::os(VERB, errno, "")))
                }
            },
            Err(handle) => {
                let error = Error::os(VERB, libc::EBUSY, "completion queues on it exist");
                Err(Refused::new(CompletionChannel { handle }, error))
            }
        }
    }
}

/// Waits until `fd` is readable, for at most `timeout` if there is one; whether it is.
pub(crate) fn sleep_on(fd: RawFd, timeout: Option<Duration>) -> Result<bool, Error> {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let milliseconds = match timeout {
        Some(timeout) => timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as libc::c_int,
        None => -1,
    };
    // SAFETY: one pollfd, a local.
    let code = unsafe { libc::poll(&mut poll, 1, milliseconds) };
    if code >= 0 {
        return Ok(code > 0);
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EINTR) | None => Ok(false),
        Some(errno) => Err(Error::os("poll", errno, "")),
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is live.
        let fd = unsafe { (*self.handle.as_ptr()).fd };
        // SAFETY: the descriptor stays open while the channel lives, which `self` borrows.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl fmt::Debug for CompletionChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompletionChannel")
    }
}
