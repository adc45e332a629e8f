//! Sleeping on a descriptor, by poll(2) or a runtime.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::sys::events::wait_readable;
use crate::terms::error::Error;

/// Waits until `fd` is readable, for at most `timeout` if there is one. A signal ends it early.
pub(crate) fn sleep_on(fd: RawFd, timeout: Option<Duration>) -> Result<(), Error> {
    let waited = wait_readable(fd, milliseconds(timeout));
    waited.map(drop).map_err(|errno| Error::os("poll", errno, ""))
}

/// The argument of poll(2), negative for ever; rounded up, since a sleep that ends too early would
/// be followed by others.
fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |time| time.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32)
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
