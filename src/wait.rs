//! Sleeping on a descriptor, by poll(2) or a runtime.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::sys::events::wait_readable;
use crate::terms::error::Error;

/// Waits until `fd` is readable, for at most `timeout` if there is one. A signal ends it early.
pub(crate) fn sleep_on(fd: RawFd, timeout: Option<Duration>) -> Result<(), Error> {
    let rounded_up = |time: Duration| time.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
    let waited = wait_readable(fd, timeout.map_or(-1, rounded_up));
    waited.map(drop).map_err(|errno| Error::os("poll", errno, ""))
}

/// The error of a registration that the runtime refused.
#[cfg(feature = "tokio")]
pub(crate) fn registration(error: &std::io::Error) -> Error {
    Error::os("epoll_ctl", error.raw_os_error().unwrap_or(libc::EIO), "")
}
