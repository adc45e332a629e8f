//! Sleeping on a descriptor, by poll(2).

use std::ffi::c_int;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::absence::{self, Wanted};
use crate::events::{eventfd, wait_readable, watching};
use crate::terms::error::Error;

/// Wakes a thread that sleeps in `wait_or_woken` of [`CompletionChannel`], [`DeviceEvents`] or
/// [`cm::EventChannel`], or in [`events::wait`] (eventfd(2)). A wake that comes earlier ends the
/// next sleep.
///
/// All clones are the same waker. A wake carries no data: pass the data through a channel or a
/// flag.
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
/// waker.wake(); // after the message was sent
/// sleeper.join().expect("no panic")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`CompletionChannel`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.CompletionChannel.html#method.wait_or_woken
/// [`DeviceEvents`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.DeviceEvents.html#method.wait_or_woken
/// [`cm::EventChannel`]:
/// https://docs.rs/proverbs/latest/proverbs/cm/struct.EventChannel.html#method.wait_or_woken
/// [`events::wait`]: https://docs.rs/proverbs/latest/proverbs/events/fn.wait.html
#[derive(Clone)]
pub struct Waker {
    event: Arc<File>,
}

impl Waker {
    /// A waker that has not been woken.
    ///
    /// # Errors
    /// [`Absent`](crate::terms::error::ErrorKind::Absent) if the process has no descriptor left;
    /// [`Os`](crate::terms::error::ErrorKind::Os) with any other errno of eventfd(2).
    pub fn new() -> Result<Waker, Error> {
        match eventfd() {
            Ok(fd) => Ok(Waker { event: Arc::new(File::from(fd)) }),
            Err(errno) => Err(absence::error("eventfd", Wanted::Any, errno, "")),
        }
    }

    /// Ends one sleep with this waker: the current one, or otherwise the next. Several calls before
    /// that sleep ends count as one. Never blocks.
    pub fn wake(&self) {
        // The write can only fail because the counter is full, and then the waker was woken
        // already.
        let _ = (&*self.event).write(&1u64.to_ne_bytes());
    }

    /// Whether it was woken since the last call.
    #[doc(hidden)]
    pub fn take(&self) -> bool {
        (&*self.event).read(&mut [0; 8]).is_ok()
    }

    #[doc(hidden)]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl_debug!(Waker, |_| "Waker");

/// A separate descriptor that is readable while `fd` is.
pub fn readiness_of(fd: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    watching(fd).map_err(|errno| absence::error("epoll", Wanted::Any, errno, ""))
}

/// The end of `timeout`, starting now; `None` if it never ends.
#[inline]
pub fn end_of(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// One call that waits: its deadline, and the waker that may end it.
///
/// The caller polls, calls [`on`](Self::on) if it finds nothing, and starts over.
pub struct Sleep<'w> {
    end: Option<Instant>,
    waker: Option<&'w Waker>,
    /// The waker ended the last sleep. The wake is kept until a later poll finds nothing.
    woken: bool,
}

impl<'w> Sleep<'w> {
    #[inline(always)]
    pub fn new(timeout: Option<Duration>, waker: Option<&'w Waker>) -> Self {
        Self::until(end_of(timeout), waker)
    }

    #[inline(always)]
    pub fn until(end: Option<Instant>, waker: Option<&'w Waker>) -> Self {
        Sleep { end, waker, woken: false }
    }

    /// Whether the deadline has passed.
    #[cfg(feature = "cm")]
    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Whether neither a deadline nor a waker can end it. (Miri's descriptors do not block.)
    #[inline(always)]
    pub fn is_endless(&self) -> bool {
        self.end.is_none() && self.waker.is_none() && !cfg!(miri)
    }

    /// Sleeps until `fd` is readable, the waker is woken, or the deadline has passed. Returns
    /// whether to poll again. It returns `false` only after a poll that found nothing, so that an
    /// event which arrived together with the wake or the deadline is found first.
    #[inline(always)]
    pub fn on(&mut self, fd: BorrowedFd<'_>) -> Result<bool, Error> {
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
        waited.map(|()| true).map_err(of_poll)
    }
}

/// The error of poll(2).
pub fn of_poll(errno: c_int) -> Error {
    let why = match errno {
        libc::EINVAL => "RLIMIT_NOFILE is below the number of descriptors that are waited for",
        _ => "",
    };
    Error::os("poll", errno, why)
}

/// The argument of poll(2), negative for no limit. It is rounded up, since a sleep that ends too
/// early is followed by another.
#[inline]
pub fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |time| time.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deadline, or a waker, ends a sleep.
    #[test]
    #[cfg_attr(miri, ignore = "descriptors do not block")]
    fn a_sleep_that_nothing_ends() {
        let (end, waker) = (Some(Instant::now()), Waker::new().unwrap());
        let is_endless = |end, waker| Sleep::until(end, waker).is_endless();
        assert!(is_endless(None, None));
        assert!(!is_endless(end, None) && !is_endless(None, Some(&waker)));
        assert!(!is_endless(end, Some(&waker)));
    }

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
