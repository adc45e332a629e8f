//! The exchange of endpoints over a stream.
//!
//! Both sides do the same, so neither has to be the server. Each side alternates between writing
//! and reading a chunk, so that two long endpoints cannot block each other: at most two chunks are
//! in transit in each direction.

use std::time::Duration;
use std::{fmt, io};

use super::stream::{Stop, Timed, Until};
use super::wire::WireError;
use super::{ConnectError, Endpoint, wire};

/// The number of bytes that a side of an [`exchange`] writes before it reads again. A stream must
/// hold two chunks each way; sockets and pipes hold more.
pub const CHUNK: usize = 1024;

/// Why the peer's endpoint was not received.
///
/// The error contains the bytes that the peer had sent, so nothing that was read is lost.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
///
/// use proverbs::{endpoint::*, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut here, mut there) = UnixStream::pair()?;
/// there.write_all(b"pvep, but no")?;
/// let (qpn, psn) = (Qpn::try_from(17)?, Psn::try_from(0)?);
/// let mine = Endpoint::new(Service::UnreliableConnection, qpn, psn, Mtu::Bytes1024)?;
/// let second = std::time::Duration::from_secs(1);
/// let error = exchange(&mut here, &mine, second).unwrap_err();
/// assert_eq!(error.received(), b"pvep, but no");
/// assert!(matches!(error, ExchangeError::Malformed { error: WireError::Version { .. }, .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The stream failed.
    Io {
        /// The reason.
        error: io::Error,
        /// The bytes received.
        received: Vec<u8>,
    },
    /// The timeout expired.
    TimedOut {
        /// The timeout in force.
        after: Duration,
        /// The number of bytes expected, as far as known.
        needed: usize,
        /// The bytes received.
        received: Vec<u8>,
    },
    /// The peer closed the stream.
    HungUp {
        /// The number of bytes expected, as far as known.
        needed: usize,
        /// The bytes received.
        received: Vec<u8>,
    },
    /// The received bytes are not an endpoint.
    Malformed {
        /// The reason.
        error: WireError,
        /// The bytes received.
        received: Vec<u8>,
    },
}

/// Sends `mine` and receives the peer's endpoint, within `timeout`. The received endpoint is
/// validated. The peer calls this at the same time; either side may have opened the stream.
///
/// It reads nothing after the peer's endpoint, and at most [`MAX_WIRE_LEN`](Endpoint::MAX_WIRE_LEN)
/// bytes, whatever length the peer claims. A peer that sends single bytes cannot extend the
/// timeout. The stream's own timeouts are restored afterwards. A non-blocking stream is polled
/// every millisecond. `Duration::MAX` waits forever.
///
/// # Errors
/// [`ExchangeError`]: the stream failed, the timeout expired, the peer closed the stream, or the
/// received bytes are not an endpoint. The error contains those bytes.
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// use proverbs::{endpoint::*, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let second = std::time::Duration::from_secs(1);
/// let (mut here, mut there) = UnixStream::pair()?;
/// let endpoint = |number| {
///     let (qpn, psn) = (Qpn::new(number).unwrap(), Psn::new(0).unwrap());
///     Endpoint::new(Service::UnreliableConnection, qpn, psn, Mtu::Bytes1024).unwrap()
/// };
/// let other = std::thread::spawn(move || exchange(&mut there, &endpoint(17), second));
/// assert_eq!(exchange(&mut here, &endpoint(18), second)?, endpoint(17));
/// assert_eq!(other.join().unwrap()?, endpoint(18));
/// # Ok(())
/// # }
/// ```
pub fn exchange<S: Timed + ?Sized>(
    stream: &mut S,
    mine: &Endpoint,
    timeout: Duration,
) -> Result<Endpoint, ExchangeError> {
    let failed = |error| ExchangeError::Io { error, received: Vec::new() };
    let mut stream = Until::new(stream, timeout).map_err(failed)?;
    let mut dialogue = Dialogue::of_endpoints(mine, timeout);
    let run = dialogue.run(&mut stream);
    dialogue.peer(run)
}

/// One message in each direction, in turns of at most [`CHUNK`] bytes, so that both sides can write
/// without waiting for the other to read. The caller performs the step that [`next`](Self::next)
/// returns, and reports the result.
pub(super) struct Dialogue {
    out: Vec<u8>,
    sent: usize,
    is_flushed: bool,
    received: Vec<u8>,
    /// The length of the peer's message, as far as known.
    needed: usize,
    announced: fn(&[u8]) -> Result<usize, WireError>,
    turns: usize,
    timeout: Duration,
}

/// The next step of a dialogue.
pub(super) enum Next<'d> {
    /// Write some of these bytes.
    Write(&'d [u8]),
    Flush,
    /// Read at most this many bytes.
    Read(usize),
    Done,
}

impl Dialogue {
    /// The exchange of endpoints. At first it reads only the fixed part, which contains the length.
    pub(super) fn of_endpoints(mine: &Endpoint, timeout: Duration) -> Self {
        Self::new(mine.to_bytes(), Endpoint::MIN_WIRE_LEN, wire::announced, timeout)
    }

    /// The exchange of the last messages of a connection.
    pub(super) fn of_verdicts(timeout: Duration) -> Self {
        Self::new(READY.to_vec(), READY.len(), |_| Ok(READY.len()), timeout)
    }

    fn new(
        out: Vec<u8>,
        needed: usize,
        announced: fn(&[u8]) -> Result<usize, WireError>,
        timeout: Duration,
    ) -> Self {
        let (received, is_flushed) = (Vec::new(), true);
        Dialogue { out, sent: 0, is_flushed, received, needed, announced, turns: 0, timeout }
    }

    /// Whether everything that this side sends has been written to the stream.
    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.out.len()
    }

    /// How much of a message of this length may be transferred by the end of this turn.
    fn end_of(&self, length: usize) -> usize {
        length.min(self.turns * CHUNK)
    }

    pub(super) fn next(&mut self) -> Next<'_> {
        loop {
            let (out, needed) = (self.end_of(self.out.len()), self.end_of(self.needed));
            if self.sent < out {
                return Next::Write(&self.out[self.sent..out]);
            } else if !self.is_flushed {
                return Next::Flush;
            } else if self.received.len() < needed {
                return Next::Read(needed - self.received.len());
            } else if self.is_sent() && self.received.len() == self.needed {
                return Next::Done;
            }
            self.turns += 1;
        }
    }

    pub(super) fn wrote(&mut self, count: usize) -> Result<(), Stop> {
        // A faulty writer may claim more bytes than it received.
        self.sent = self.end_of(self.out.len()).min(self.sent.saturating_add(count));
        self.is_flushed = false;
        if count == 0 { Err(io::Error::from(io::ErrorKind::WriteZero).into()) } else { Ok(()) }
    }

    pub(super) fn flushed(&mut self) {
        self.is_flushed = true;
    }

    pub(super) fn came(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.is_empty() {
            return Err(Stop::HungUp);
        }
        self.received.extend_from_slice(bytes);
        match (self.announced)(&self.received) {
            Ok(length) => self.needed = length,
            Err(WireError::Truncated { .. }) => {}
            Err(error) => return Err(Stop::Malformed(error)),
        }
        Ok(())
    }

    pub(super) fn run<S: Timed + ?Sized>(&mut self, stream: &mut Until<'_, S>) -> Result<(), Stop> {
        let mut bytes = [0; CHUNK];
        loop {
            match self.next() {
                Next::Write(out) => {
                    let count = stream.call(|stream| stream.write(out))?;
                    self.wrote(count)?;
                }
                Next::Flush => {
                    stream.call(|stream| stream.flush())?;
                    self.flushed();
                }
                Next::Read(most) => {
                    let count = stream.call(|stream| stream.read(&mut bytes[..most]))?;
                    // A faulty reader may claim more bytes than fit.
                    self.came(&bytes[..count.min(most)])?;
                }
                Next::Done => return Ok(()),
            }
        }
    }

    /// The peer's endpoint, or why it was not received.
    pub(super) fn peer(&mut self, run: Result<(), Stop>) -> Result<Endpoint, ExchangeError> {
        let peer = run.and_then(|()| Endpoint::from_bytes(&self.received).map_err(Stop::Malformed));
        peer.map_err(|stop| self.stopped(stop))
    }

    /// The meaning of the peer's last message.
    pub(super) fn verdict(&mut self, run: Result<(), Stop>) -> Result<(), ConnectError> {
        run.map_err(|stop| self.stopped(stop))?;
        let mut word = [0; 4];
        word.copy_from_slice(&self.received);
        match word {
            READY => Ok(()),
            REFUSED => Err(ConnectError::PeerRefused),
            other => Err(ConnectError::NoVerdict(other)),
        }
    }

    fn stopped(&mut self, stop: Stop) -> ExchangeError {
        let (needed, received) = (self.needed, std::mem::take(&mut self.received));
        match stop {
            Stop::Late => ExchangeError::TimedOut { after: self.timeout, needed, received },
            Stop::Io(error) => ExchangeError::Io { error, received },
            Stop::HungUp => ExchangeError::HungUp { needed, received },
            Stop::Malformed(error) => ExchangeError::Malformed { error, received },
        }
    }
}

/// The last message of each side of a connection.
pub(super) const READY: [u8; 4] = *b"pvok";
pub(super) const REFUSED: [u8; 4] = *b"pvno";

/// Notifies the peer that this side can receive, and waits for the same message, so that neither
/// sends too early.
pub(super) fn agree<S: Timed + ?Sized>(
    stream: &mut Until<'_, S>,
    timeout: Duration,
) -> Result<(), ConnectError> {
    let mut dialogue = Dialogue::of_verdicts(timeout);
    let run = dialogue.run(stream);
    if dialogue.sent == 0 {
        refuse(stream); // connecting took until the deadline
    }
    dialogue.verdict(run)
}

/// Notifies the peer, if the stream accepts the message, that this side will not connect.
pub(super) fn refuse<S: Timed + ?Sized>(stream: &mut Until<'_, S>) {
    let _ = stream.once(|stream| stream.write_all(&REFUSED).and_then(|()| stream.flush()));
}

impl ExchangeError {
    /// The bytes that the peer had sent.
    pub fn received(&self) -> &[u8] {
        match self {
            ExchangeError::Io { received, .. }
            | ExchangeError::TimedOut { received, .. }
            | ExchangeError::HungUp { received, .. }
            | ExchangeError::Malformed { received, .. } => received,
        }
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExchangeError::Io { error, received } => {
                write!(f, "the stream to the peer failed after {} bytes: {error}", received.len())
            }
            ExchangeError::TimedOut { after, needed, received } => {
                let came = received.len();
                write!(f, "received {came} of {needed} bytes from the peer within {after:?}")
            }
            ExchangeError::HungUp { needed, received } => {
                write!(f, "the peer closed the stream after {} of {needed} bytes", received.len())
            }
            ExchangeError::Malformed { error, .. } => {
                write!(f, "the peer sent an invalid endpoint: {error}")
            }
        }
    }
}

impl std::error::Error for ExchangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExchangeError::Io { error, .. } => Some(error),
            ExchangeError::TimedOut { .. } | ExchangeError::HungUp { .. } => None,
            ExchangeError::Malformed { error, .. } => Some(error),
        }
    }
}
