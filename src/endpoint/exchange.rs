//! The exchange of endpoints over a stream.
//!
//! Both sides do the same, so neither has to be the server. They alternate between writing and
//! reading a chunk, so that two long endpoints cannot block each other: at most two chunks are
//! under way in each direction.

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
/// The error has the bytes that the peer had sent: nothing that was read is lost.
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
    /// The time-out expired.
    TimedOut {
        /// The time-out.
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
    /// The bytes received are not an endpoint.
    Malformed {
        /// The reason.
        error: WireError,
        /// The bytes received.
        received: Vec<u8>,
    },
}

/// Sends `mine` and receives the peer's endpoint, which is checked, within `timeout`. The peer does
/// the same at the same time; it does not matter which of them connected the stream.
///
/// Not one byte behind the peer's endpoint is read, and no more than
/// [`MAX_WIRE_LEN`](Endpoint::MAX_WIRE_LEN) in all, whatever the peer claims. A peer that sends a
/// byte now and then delays the call no longer than a silent one. The stream's own time-outs are
/// restored afterwards. A non-blocking stream is polled every millisecond. `Duration::MAX` means
/// for ever.
///
/// # Errors
/// [`ExchangeError`]: the stream failed, the time-out expired, the peer closed the stream, or the
/// bytes received, which the error has, are not an endpoint.
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
    Exchange::new(mine, timeout).run(&mut stream)
}

/// An exchange in progress.
pub(super) struct Exchange {
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    pub(super) received: Vec<u8>,
    pub(super) needed: usize,
    timeout: Duration,
}

impl Exchange {
    pub(super) fn new(mine: &Endpoint, timeout: Duration) -> Self {
        let needed = Endpoint::MIN_WIRE_LEN;
        Exchange { out: mine.to_bytes(), sent: 0, received: Vec::new(), needed, timeout }
    }

    /// Whether the peer has received, or will receive, all that this side sends.
    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.out.len()
    }

    pub(super) fn run<S: Timed + ?Sized>(
        &mut self,
        stream: &mut Until<'_, S>,
    ) -> Result<Endpoint, ExchangeError> {
        while !self.is_sent() || self.received.len() < self.needed {
            if !self.is_sent() {
                let end = self.out.len().min(self.sent + CHUNK);
                let mut sent = self.sent;
                let result = stream.write(&self.out[self.sent..end], &mut sent);
                self.sent = sent;
                result.map_err(|stop| self.stopped(stop))?;
            }
            self.read_chunk(stream)?;
        }
        self.peer()
    }

    fn read_chunk<S: Timed + ?Sized>(
        &mut self,
        stream: &mut Until<'_, S>,
    ) -> Result<(), ExchangeError> {
        let end = self.received.len() + CHUNK;
        // At first only the fixed part is read, which has the length.
        while self.received.len() < end.min(self.needed) {
            let at = self.received.len();
            self.received.resize(end.min(self.needed), 0);
            let result = stream.read(&mut self.received[at..]);
            self.received.truncate(at + *result.as_ref().unwrap_or(&0));
            let count = result.map_err(|stop| self.stopped(stop))?;
            self.came(count)?;
        }
        Ok(())
    }

    /// Looks at what a read brought: none is the stream's end.
    pub(super) fn came(&mut self, count: usize) -> Result<(), ExchangeError> {
        if count == 0 {
            let received = std::mem::take(&mut self.received);
            return Err(ExchangeError::HungUp { needed: self.needed, received });
        }
        match wire::announced(&self.received) {
            Ok(length) => self.needed = length,
            Err(WireError::Truncated { .. }) => {}
            Err(error) => return Err(self.malformed(error)),
        }
        Ok(())
    }

    /// The peer's endpoint, once all of it came.
    pub(super) fn peer(&mut self) -> Result<Endpoint, ExchangeError> {
        Endpoint::from_bytes(&self.received).map_err(|error| self.malformed(error))
    }

    pub(super) fn stopped(&mut self, stop: Stop) -> ExchangeError {
        stopped(stop, self.timeout, self.needed, std::mem::take(&mut self.received))
    }

    fn malformed(&mut self, error: WireError) -> ExchangeError {
        ExchangeError::Malformed { error, received: std::mem::take(&mut self.received) }
    }
}

fn stopped(stop: Stop, after: Duration, needed: usize, received: Vec<u8>) -> ExchangeError {
    match stop {
        Stop::Late => ExchangeError::TimedOut { after, needed, received },
        Stop::Io(error) => ExchangeError::Io { error, received },
    }
}

/// The last message of each side of a connection.
pub(super) const READY: [u8; 4] = *b"pvok";
pub(super) const REFUSED: [u8; 4] = *b"pvno";

/// Tells the peer that this side can receive, and waits for the same message, so that neither sends
/// too early.
pub(super) fn agree<S: Timed + ?Sized>(
    stream: &mut Until<'_, S>,
    timeout: Duration,
) -> Result<(), ConnectError> {
    let needed = READY.len();
    let written = stream.write(&READY, &mut 0);
    written.map_err(|stop| stopped(stop, timeout, needed, Vec::new()))?;
    let mut word = [0; 4];
    let mut at = 0;
    while at < word.len() {
        match stream.read(&mut word[at..]) {
            Ok(0) => {
                let received = word[..at].to_vec();
                return Err(ExchangeError::HungUp { needed, received }.into());
            }
            Ok(count) => at += count,
            Err(stop) => return Err(stopped(stop, timeout, needed, word[..at].to_vec()).into()),
        }
    }
    verdict(word)
}

/// What the peer's last message says.
pub(super) fn verdict(word: [u8; 4]) -> Result<(), ConnectError> {
    match word {
        READY => Ok(()),
        REFUSED => Err(ConnectError::PeerRefused),
        other => Err(ConnectError::NoVerdict(other)),
    }
}

/// How long a refusal may take after the time-out.
const LAST_WORD: Duration = Duration::from_millis(10);

/// Tells the peer, if it still listens, that this side will not connect.
pub(super) fn refuse<S: Timed + ?Sized>(stream: &mut Until<'_, S>) {
    stream.extend(LAST_WORD);
    let _ = stream.write(&REFUSED, &mut 0);
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
                write!(f, "the peer said {came} of {needed} bytes within {after:?}")
            }
            ExchangeError::HungUp { needed, received } => {
                write!(f, "the peer hung up after {} of {needed} bytes", received.len())
            }
            ExchangeError::Malformed { error, .. } => {
                write!(f, "what the peer sent is no endpoint: {error}")
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
