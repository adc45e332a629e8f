//! Sleeping on a descriptor, by poll(2) or a runtime.

use std::fs::File;
use std::io::{Read, Write};
#[cfg(feature = "tokio")]
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
#[cfg(feature = "tokio")]
use std::task::Poll;
use std::time::{Duration, Instant};

#[cfg(feature = "tokio")]
use ::tokio::io::unix::AsyncFd;

use crate::absence::{self, Wanted};
use crate::sys::events::{eventfd, wait_readable, watching};
use crate::terms::error::Error;

/// Ends a sleep from another thread, or from this one before it begins (eventfd(2)): of the calls
/// `wait_or_woken` of [`CompletionChannel`](crate::CompletionChannel::wait_or_woken),
/// [`DeviceEvents`](crate::DeviceEvents::wait_or_woken) and
/// [`cm::EventChannel`](crate::cm::EventChannel::wait_or_woken), and of
/// [`events::wait`](crate::events::wait).
///
/// Clones are one waker. It says that there is something to look at, not what: that goes by a
/// channel or a flag of the program's.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::Waker;
/// use std::{sync::mpsc, thread};
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let mut channel = context.create_comp_channel()?;
/// let mut cq: CompletionQueue = context.cq(16).channel(&channel).create()?;
/// let (waker, (orders, inbox)) = (Waker::new()?, mpsc::channel());
/// let sleeper = thread::spawn({
///     let waker = waker.clone();
///     move || -> Result<(), proverbs::Error> {
///         loop {
///             for completion in channel.wait_or_woken(&mut cq, &waker, None)? {
///                 println!("{completion:?}");
///             }
///             if let Ok("stop") = inbox.try_recv() {
///                 return Ok(());
///             }
///         }
///     }
/// });
/// orders.send("stop")?;
/// waker.wake(); // after what it is about was said
/// sleeper.join().expect("no panic")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Waker {
    event: Arc<File>,
}

impl Waker {
    /// A waker that wakes nobody yet.
    ///
    /// # Errors
    /// [`Absent`](crate::ErrorKind::Absent) if the process has no descriptor left;
    /// [`Os`](crate::ErrorKind::Os) with any other errno of eventfd(2).
    pub fn new() -> Result<Waker, Error> {
        match eventfd() {
            Ok(fd) => Ok(Waker { event: Arc::new(File::from(fd)) }),
            Err(errno) => Err(absence::error("eventfd", Wanted::Any, errno, "")),
        }
    }

    /// Ends one sleep with this waker: that of the thread that sleeps now, else the next that
    /// begins. Several calls before it ends are one. Never blocks.
    pub fn wake(&self) {
        // Nothing but a count that is full can be in the way, and then it was woken already.
        let _ = (&*self.event).write(&1u64.to_ne_bytes());
    }

    /// Whether it was woken since the last time that this was asked.
    pub(crate) fn take(&self) -> bool {
        (&*self.event).read(&mut [0; 8]).is_ok()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl_debug!(Waker, |_| "Waker");

/// A descriptor of its own that is readable while `fd` is.
pub(crate) fn readiness_of(fd: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    watching(fd).map_err(|errno| absence::error("epoll", Wanted::Any, errno, ""))
}

/// When `timeout` is over, from now on; `None` if never.
#[inline]
pub(crate) fn end_of(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// One call that waits: its deadline, and the waker that may end it.
///
/// The caller looks for something, calls [`on`](Self::on) if there is nothing, and starts over.
pub(crate) struct Sleep<'w> {
    end: Option<Instant>,
    waker: Option<&'w Waker>,
    /// The waker ended the last sleep. It keeps its wake until a look after that finds nothing.
    woken: bool,
}

impl<'w> Sleep<'w> {
    #[inline(always)]
    pub(crate) fn new(timeout: Option<Duration>, waker: Option<&'w Waker>) -> Self {
        Self::until(end_of(timeout), waker)
    }

    #[inline(always)]
    pub(crate) fn until(end: Option<Instant>, waker: Option<&'w Waker>) -> Self {
        Sleep { end, waker, woken: false }
    }

    /// Whether the deadline has passed.
    #[cfg(feature = "cm")]
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Whether neither a deadline nor a waker ends it. (Miri's descriptors do not block.)
    #[inline(always)]
    pub(crate) fn is_endless(&self) -> bool {
        self.end.is_none() && self.waker.is_none() && !cfg!(miri)
    }

    /// Sleeps until `fd` is readable, the waker is woken, or the deadline has passed. Returns
    /// whether to look again. A call that is over says no only after a look that found nothing, so
    /// that something which arrived together with the waker or the deadline is found first.
    #[inline(always)]
    pub(crate) fn on(&mut self, fd: BorrowedFd<'_>) -> Result<bool, Error> {
        if let Some(waker) = self.waker {
            if std::mem::take(&mut self.woken) && waker.take() {
                return Ok(false);
            }
        }
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        let waited = match self.waker {
            None => wait_readable([fd], milliseconds(left)).map(drop),
            Some(waker) => wait_readable([fd, waker.fd()], milliseconds(left))
                .map(|readable| self.woken = readable & 2 != 0),
        };
        waited.map(|()| true).map_err(|errno| Error::os("poll", errno, ""))
    }
}

/// The argument of poll(2), negative for no bound; rounded up, since a sleep that ends too early
/// is followed by another.
#[inline]
pub(crate) fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |time| time.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32)
}

/// Lets other tasks have their turn once, the time-out around this one among them.
#[cfg(feature = "tokio")]
pub(crate) async fn step_aside() {
    let mut was_aside = false;
    std::future::poll_fn(|task| {
        if was_aside {
            return Poll::Ready(());
        }
        was_aside = true;
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whose turn it is, where a task takes what may come for ever.
///
/// What is there at once is taken without a pause, and a loop of the program's may do so again and
/// again. So who took something while nobody else had a turn owes them one, and pays before it
/// looks for the next: a wait that is dropped meanwhile has taken nothing.
#[cfg(feature = "tokio")]
#[derive(Debug, Default)]
pub(crate) struct Turns {
    is_owed: bool,
    /// Whether others had a turn since this wait began.
    slept: bool,
}

#[cfg(feature = "tokio")]
impl Turns {
    /// Begins to look for something; steps aside before, if that is owed.
    pub(crate) async fn begin(&mut self) {
        self.slept = false;
        if std::mem::take(&mut self.is_owed) {
            step_aside().await;
        }
    }

    /// Awaits `ready`; if that is not there at once, others have their turn meanwhile.
    pub(crate) async fn sleep<T>(&mut self, ready: impl Future<Output = T>) -> T {
        let mut ready = std::pin::pin!(ready);
        std::future::poll_fn(|task| {
            let polled = ready.as_mut().poll(task);
            self.slept |= polled.is_pending();
            polled
        })
        .await
    }

    /// Something was found, and is taken.
    pub(crate) fn took(&mut self) {
        self.is_owed = !self.slept;
    }

    /// Awaits what `take` takes of `fd`.
    pub(crate) async fn take<S: AsRawFd, T>(
        &mut self,
        fd: &mut AsyncFd<S>,
        take: fn(&mut S) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        self.begin().await;
        loop {
            if let Some(taken) = take(fd.get_mut())? {
                self.took();
                return Ok(taken);
            }
            let ready = self.sleep(fd.readable_mut()).await;
            // It is looked at again before the next sleep.
            ready.map_err(|error| registration(&error))?.clear_ready();
        }
    }
}

/// The error of a registration that the runtime refused.
#[cfg(feature = "tokio")]
pub(crate) fn registration(error: &std::io::Error) -> Error {
    Error::os("epoll_ctl", error.raw_os_error().unwrap_or(libc::EIO), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_have_an_end() {
        for (micros, rounded) in [
            (0, 0),
            (1, 1),
            (999, 1),
            (1000, 1),
            (1001, 2),
            (10_000_000, 10_000),
            (2_147_483_647_000, i32::MAX),
            (2_147_483_647_001, i32::MAX),
        ] {
            assert_eq!(milliseconds(Some(Duration::from_micros(micros))), rounded, "{micros}");
        }
        assert_eq!(milliseconds(Some(Duration::MAX)), i32::MAX);
        assert!(milliseconds(None) < 0, "for ever");
    }
}
