//! Awaiting a descriptor with tokio.

use std::os::fd::AsRawFd;
use std::task::Poll;

use ::tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

use crate::terms::error::{Error, Refused};

/// Lets other tasks run once, including a timeout around this one.
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

/// Fairness for a task that may take available items in an endless loop.
///
/// Items that are available immediately are taken without suspending, and the program may do so in
/// a loop. So a task that took an item without suspending must yield before it looks for the next
/// one. A wait that is dropped while it yields has not taken anything.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    is_owed: bool,
    /// Whether other tasks could run since this wait began.
    slept: bool,
}

impl Turns {
    /// Begins to look for an item. Yields first if the last item was taken without a sleep.
    pub(crate) async fn begin(&mut self) {
        self.slept = false;
        if std::mem::take(&mut self.is_owed) {
            step_aside().await;
        }
    }

    /// Awaits `ready`, and records whether other tasks could run in the meantime.
    pub(crate) async fn sleep<T>(&mut self, ready: impl Future<Output = T>) -> T {
        let mut ready = std::pin::pin!(ready);
        std::future::poll_fn(|task| {
            let polled = ready.as_mut().poll(task);
            self.slept |= polled.is_pending();
            polled
        })
        .await
    }

    /// Records that an item was found and is taken.
    pub(crate) fn took(&mut self) {
        self.is_owed = !self.slept;
    }

    /// Awaits an item that `take` takes from `fd`.
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
            // `fd` is checked again before the next sleep.
            ready.map_err(|error| registration(&error))?.clear_ready();
        }
    }
}

/// The error for an object whose descriptor the runtime cannot register.
pub(crate) fn not_registered<S: AsRawFd>(failed: AsyncFdRegisterError<S>) -> Refused<S> {
    let (object, error) = failed.into_parts();
    Refused::new(object, registration(&error))
}

/// The error of a registration that the runtime rejected.
pub(crate) fn registration(error: &std::io::Error) -> Error {
    Error::os("epoll_ctl", error.raw_os_error().unwrap_or(libc::EIO), "")
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// The number of times that the future was not ready.
    fn pending(future: impl Future<Output = ()>) -> u32 {
        let (mut future, mut times) = (pin!(future), 0);
        while future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            times += 1;
        }
        times
    }

    /// A task yields once after each item that it took without a sleep. A wait that finds nothing
    /// requires no yield.
    #[test]
    fn a_task_yields_after_each_item_that_it_took_at_once() {
        let (mut turns, mut owed) = (Turns::default(), 0);
        for (sleeps, takes) in [
            (1, true),
            (0, true),
            (0, true),
            (2, true),
            (0, false),
            (1, false),
            (0, true),
            (0, true),
        ] {
            assert_eq!(pending(turns.begin()), owed);
            let mut left = sleeps;
            let ready = std::future::poll_fn(|_| {
                left -= 1;
                if left < 0 { Poll::Ready(()) } else { Poll::Pending }
            });
            assert_eq!(pending(turns.sleep(ready)), sleeps as u32);
            owed = u32::from(takes && sleeps == 0);
            if takes {
                turns.took();
            }
        }
        assert_eq!(pending(turns.begin()), 1);
    }
}
