//! Streams with a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use std::{io, thread};

use super::wire::WireError;

/// A stream whose reads and writes can have timeouts. [`exchange`](super::exchange) and
/// [`RcConnector::connect`](super::RcConnector::connect) require it, so that no peer can delay them
/// beyond their own timeout.
///
/// The sockets of the standard library implement it. For a stream on top of one, such as an
/// encrypted one, forward the two methods. [`Unbounded`] adapts streams without timeouts.
///
/// ```
/// use std::io::{self, Read, Write};
/// use std::net::TcpStream;
///
/// use proverbs::endpoint::{Timed, Timeouts};
///
/// struct Encrypted(TcpStream);
/// # impl Read for Encrypted {
/// #     fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> { self.0.read(bytes) }
/// # }
/// # impl Write for Encrypted {
/// #     fn write(&mut self, bytes: &[u8]) -> io::Result<usize> { self.0.write(bytes) }
/// #     fn flush(&mut self) -> io::Result<()> { self.0.flush() }
/// # }
/// // ... `Read` and `Write` ...
/// impl Timed for Encrypted {
///     fn timeouts(&self) -> io::Result<Timeouts> {
///         self.0.timeouts()
///     }
///     fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()> {
///         self.0.set_timeouts(timeouts)
///     }
/// }
/// ```
pub trait Timed: Read + Write {
    /// The current timeouts of reads and writes.
    ///
    /// # Errors
    /// Errors of the stream.
    fn timeouts(&self) -> io::Result<Timeouts>;

    /// Sets the timeouts. A read or write that transfers nothing within its timeout must fail
    /// with an error of kind [`WouldBlock`](ErrorKind::WouldBlock) or
    /// [`TimedOut`](ErrorKind::TimedOut). The timeouts are never zero.
    ///
    /// # Errors
    /// Errors of the stream.
    fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()>;
}

/// The timeouts of a [`Timed`] stream; `None` waits forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// The timeout of a read.
    pub read: Option<Duration>,
    /// The timeout of a write.
    pub write: Option<Duration>,
}

macro_rules! sockets {
    ($($socket:ty)*) => {$(
        impl Timed for $socket {
            fn timeouts(&self) -> io::Result<Timeouts> {
                Ok(Timeouts { read: self.read_timeout()?, write: self.write_timeout()? })
            }

            fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()> {
                self.set_read_timeout(timeouts.read)?;
                self.set_write_timeout(timeouts.write)
            }
        }
    )*};
}

sockets! { TcpStream &TcpStream UnixStream &UnixStream }

macro_rules! pointers {
    ($($pointer:ty)*) => {$(
        impl<S: Timed + ?Sized> Timed for $pointer {
            fn timeouts(&self) -> io::Result<Timeouts> {
                (**self).timeouts()
            }

            fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()> {
                (**self).set_timeouts(timeouts)
            }
        }
    )*};
}

pointers! { &mut S Box<S> }

/// A stream without timeouts. A read or write waits **forever** if the peer does nothing. The
/// deadline is still checked between reads and writes.
///
/// ```
/// use std::io;
///
/// use proverbs::{endpoint::*, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let peer = io::Cursor::new(b"pvep, but no".to_vec()); // from a file or a pipe, for example
/// let mut stream = Unbounded(peer);
/// # let (qpn, psn) = (Qpn::try_from(17)?, Psn::try_from(0)?);
/// # let mine = Endpoint::new(Service::UnreliableConnection, qpn, psn, Mtu::Bytes1024)?;
/// assert!(exchange(&mut stream, &mine, std::time::Duration::from_secs(1)).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Unbounded<S: ?Sized>(pub S);

impl<S: Read + ?Sized> Read for Unbounded<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl<S: Write + ?Sized> Write for Unbounded<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<S: Read + Write + ?Sized> Timed for Unbounded<S> {
    fn timeouts(&self) -> io::Result<Timeouts> {
        Ok(Timeouts::default())
    }

    fn set_timeouts(&self, _: Timeouts) -> io::Result<()> {
        Ok(())
    }
}

/// Why an exchange stopped.
pub(super) enum Stop {
    /// The deadline passed.
    Late,
    Io(io::Error),
    /// The peer closed the stream.
    HungUp,
    Malformed(WireError),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Io(error)
    }
}

/// A stream with a deadline. Its own timeouts are restored afterwards.
pub(super) struct Until<'a, S: Timed + ?Sized> {
    stream: &'a mut S,
    end: Option<Instant>,
    before: Timeouts,
}

/// The interval at which a non-blocking stream is polled.
const AGAIN: Duration = Duration::from_millis(1);

impl<'a, S: Timed + ?Sized> Until<'a, S> {
    pub(super) fn new(stream: &'a mut S, timeout: Duration) -> io::Result<Self> {
        let before = stream.timeouts()?;
        Ok(Until { stream, end: Instant::now().checked_add(timeout), before })
    }

    /// Calls once, for at most 10 ms, even after the deadline.
    pub(super) fn once(&mut self, call: impl FnOnce(&mut S) -> io::Result<()>) -> io::Result<()> {
        let most = Some(Duration::from_millis(10));
        self.stream.set_timeouts(Timeouts { read: most, write: most })?;
        call(self.stream)
    }

    /// Repeats a call until it succeeds, fails, or the deadline passes.
    pub(super) fn call<R>(
        &mut self,
        mut call: impl FnMut(&mut S) -> io::Result<R>,
    ) -> Result<R, Stop> {
        loop {
            let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(Stop::Late);
            }
            self.stream.set_timeouts(Timeouts { read: left, write: left })?;
            match call(self.stream) {
                Ok(done) => return Ok(done),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    // The stream's timeout expired, or it is non-blocking.
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => thread::sleep(AGAIN),
                    _ => return Err(error.into()),
                },
            }
        }
    }
}

impl<S: Timed + ?Sized> Drop for Until<'_, S> {
    fn drop(&mut self) {
        let _ = self.stream.set_timeouts(self.before);
    }
}
