//! Streams that are held to a deadline, whatever the peer does.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// A stream whose reads and writes can be told to end: what [`exchange`](super::exchange) and
/// [`RcConnector::connect`](super::RcConnector::connect) take, so that no peer holds them beyond their time.
///
/// Sockets of the standard library are such streams. For a stream that is made of one (encrypted, say) forward the two
/// methods; one without time-outs is [`Unbounded`].
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
    /// How long a read, and a write, takes at most now.
    ///
    /// # Errors
    /// Those of the stream.
    fn timeouts(&self) -> io::Result<Timeouts>;

    /// From now on a read, and a write, ends after its time at the latest, with an error of kind
    /// [`WouldBlock`](ErrorKind::WouldBlock) or [`TimedOut`](ErrorKind::TimedOut) if it did nothing. The times are
    /// more than zero.
    ///
    /// # Errors
    /// Those of the stream.
    fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()>;
}

/// How long one read and one write of a [`Timed`] stream take at most; `None` is for ever. The example is that of
/// [`Timed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Of a read.
    pub read: Option<Duration>,
    /// Of a write.
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

/// A stream without time-outs: a read of it, or a write, that the peer does not end waits **for ever**. Between them
/// the deadline is looked at all the same.
///
/// ```
/// use std::io;
///
/// use proverbs::{endpoint::*, *};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let peer = io::Cursor::new(b"pvep, but no".to_vec()); // what a file or a pipe says, for example
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

/// Why a stream did not do what was asked of it.
pub(super) enum Stop {
    /// The time is over.
    Late,
    Io(io::Error),
}

/// A stream, until a deadline. Afterwards it has the time-outs again that it had.
pub(super) struct Until<'a, S: Timed + ?Sized> {
    stream: &'a mut S,
    end: Option<Instant>,
    before: Timeouts,
}

/// How soon a stream that does not block is asked again.
const AGAIN: Duration = Duration::from_millis(1);

impl<'a, S: Timed + ?Sized> Until<'a, S> {
    pub(super) fn new(stream: &'a mut S, timeout: Duration) -> io::Result<Self> {
        let before = stream.timeouts()?;
        Ok(Until { stream, end: Instant::now().checked_add(timeout), before })
    }

    /// Gives the deadline at least so much from now on.
    pub(super) fn extend(&mut self, least: Duration) {
        let end = Instant::now() + least;
        self.end = self.end.map(|old| old.max(end));
    }

    /// Calls until it does something, or the time is over.
    fn call<R>(&mut self, mut call: impl FnMut(&mut S) -> io::Result<R>) -> Result<R, Stop> {
        loop {
            let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(Stop::Late);
            }
            self.stream.set_timeouts(Timeouts { read: left, write: left }).map_err(Stop::Io)?;
            match call(self.stream) {
                Ok(done) => return Ok(done),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    // Its time is over, or it is one that does not block.
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => thread::sleep(AGAIN),
                    _ => return Err(Stop::Io(error)),
                },
            }
        }
    }

    /// Bytes that came, and how many; 0 if the peer hung up.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Stop> {
        // A reader that claims more than it was given room for is not believed.
        self.call(|stream| stream.read(bytes)).map(|count| count.min(bytes.len()))
    }

    /// Writes all of it, and counts what is written.
    pub(super) fn write(&mut self, bytes: &[u8], written: &mut usize) -> Result<(), Stop> {
        let mut left = bytes;
        while !left.is_empty() {
            let count = self.call(|stream| stream.write(left))?;
            if count == 0 {
                return Err(Stop::Io(ErrorKind::WriteZero.into()));
            }
            let count = count.min(left.len());
            (*written, left) = (*written + count, &left[count..]);
        }
        self.call(|stream| stream.flush())
    }
}

impl<S: Timed + ?Sized> Drop for Until<'_, S> {
    fn drop(&mut self) {
        let _ = self.stream.set_timeouts(self.before);
    }
}
