//! Awaiting a descriptor with tokio.

use std::os::fd::AsRawFd;
use std::task::Poll;

use ::tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

use crate::terms::error::{Error, Refused};

/// Lets other tasks have their turn once, the time-out around this one among them.
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
#[derive(Debug, Default)]
pub(crate) struct Turns {
    is_owed: bool,
    /// Whether others had a turn since this wait began.
    slept: bool,
}

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

/// The refusal of an object whose descriptor the runtime does not register.
pub(crate) fn not_registered<S: AsRawFd>(failed: AsyncFdRegisterError<S>) -> Refused<S> {
    let (object, error) = failed.into_parts();
    Refused::new(object, registration(&error))
}

/// The error of a registration that the runtime refused.
pub(crate) fn registration(error: &std::io::Error) -> Error {
    Error::os("epoll_ctl", error.raw_os_error().unwrap_or(libc::EIO), "")
}
