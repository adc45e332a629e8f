//! The exchange of endpoints over a stream.
//!
//! Both sides do the same, so neither has to be the server. They write and read by turns, a chunk at a time,
//! so that two long endpoints cannot block each other: at most two chunks are on the way in each direction.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

use super::wire::{self, WireError};
use super::{ConnectError, Endpoint};

/// Bytes that a side of an [`exchange`] writes before it reads again. A stream must hold two of them each way:
/// sockets and pipes hold more.
pub const CHUNK: usize = 1024;

/// Why the peer's endpoint did not come.
///
/// What it had sent so far is in the error: nothing that was read is lost.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
///
/// use proverbs::{endpoint::*, *};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut here, mut there) = UnixStream::pair()?;
/// there.write_all(b"pvep, but no")?;
/// let (qpn, psn) = (Qpn::try_from(17)?, Psn::try_from(0)?);
/// let mine = Endpoint::new(Service::UnreliableConnection, qpn, psn, Mtu::Bytes1024)?;
/// let error = exchange(&mut here, &mine).unwrap_err();
/// assert_eq!(error.received(), b"pvep, but no");
/// assert!(matches!(error, ExchangeError::Malformed { error: WireError::Version { .. }, .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The stream failed, or timed out.
    Io {
        /// Why.
        error: io::Error,
        /// What had come.
        received: Vec<u8>,
    },
    /// The peer hung up.
    HungUp {
        /// Bytes that were expected, as far as known.
        needed: usize,
        /// What had come.
        received: Vec<u8>,
    },
    /// What came is no endpoint.
    Malformed {
        /// Why not.
        error: WireError,
        /// What had come.
        received: Vec<u8>,
    },
}

/// Sends `mine` and receives the peer's endpoint, which is checked. The peer does the same at the same time;
/// which of them connected the stream does not matter.
///
/// Not one byte behind the peer's endpoint is read, and no more than
/// [`MAX_WIRE_LEN`](Endpoint::MAX_WIRE_LEN), whatever the peer claims. It waits as long as the stream does: set a
/// time-out on it. On a stream that does not block `WouldBlock` is a failure.
///
/// # Errors
/// [`ExchangeError`]: the stream failed, the peer hung up, or what came is no endpoint. What had come is in it.
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// use proverbs::{endpoint::*, *};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut here, mut there) = UnixStream::pair()?;
/// let endpoint = |number| {
///     let (qpn, psn) = (Qpn::new(number).unwrap(), Psn::new(0).unwrap());
///     Endpoint::new(Service::UnreliableConnection, qpn, psn, Mtu::Bytes1024).unwrap()
/// };
/// let other = std::thread::spawn(move || exchange(&mut there, &endpoint(17)));
/// assert_eq!(exchange(&mut here, &endpoint(18))?, endpoint(17));
/// assert_eq!(other.join().unwrap()?, endpoint(18));
/// # Ok(())
/// # }
/// ```
pub fn exchange<S: Read + Write + ?Sized>(
    stream: &mut S,
    mine: &Endpoint,
) -> Result<Endpoint, ExchangeError> {
    Exchange::new(mine).run(stream)
}

/// An exchange under way.
pub(super) struct Exchange {
    out: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    needed: usize,
}

impl Exchange {
    pub(super) fn new(mine: &Endpoint) -> Self {
        let needed = Endpoint::MIN_WIRE_LEN;
        Exchange { out: mine.to_bytes(), sent: 0, received: Vec::new(), needed }
    }

    /// Whether the peer has, or will have, all that this side says.
    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.out.len()
    }

    pub(super) fn run<S: Read + Write + ?Sized>(
        &mut self,
        stream: &mut S,
    ) -> Result<Endpoint, ExchangeError> {
        while !self.is_sent() || self.received.len() < self.needed {
            if !self.is_sent() {
                let end = self.out.len().min(self.sent + CHUNK);
                let chunk = &self.out[self.sent..end];
                stream.write_all(chunk).map_err(|error| self.io(error))?;
                stream.flush().map_err(|error| self.io(error))?;
                self.sent = end;
            }
            self.read_chunk(stream)?;
        }
        Endpoint::from_bytes(&self.received).map_err(|error| self.malformed(error))
    }

    fn read_chunk<S: Read + ?Sized>(&mut self, stream: &mut S) -> Result<(), ExchangeError> {
        let end = self.received.len() + CHUNK;
        // At first only what every endpoint has; that tells how much there is.
        while self.received.len() < end.min(self.needed) {
            let at = self.received.len();
            self.received.resize(end.min(self.needed), 0);
            let result = stream.read(&mut self.received[at..]);
            // A reader that claims more than it was given room for is not believed.
            let count = *result.as_ref().unwrap_or(&0).min(&(self.received.len() - at));
            self.received.truncate(at + count);
            match result {
                Ok(0) => {
                    let received = std::mem::take(&mut self.received);
                    return Err(ExchangeError::HungUp { needed: self.needed, received });
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.io(error)),
            }
            match wire::announced(&self.received) {
                Ok(length) => self.needed = length,
                Err(WireError::Truncated { .. }) => {}
                Err(error) => return Err(self.malformed(error)),
            }
        }
        Ok(())
    }

    fn io(&mut self, error: io::Error) -> ExchangeError {
        ExchangeError::Io { error, received: std::mem::take(&mut self.received) }
    }

    fn malformed(&mut self, error: WireError) -> ExchangeError {
        ExchangeError::Malformed { error, received: std::mem::take(&mut self.received) }
    }
}

/// The last word of each side of a connection.
const READY: [u8; 4] = *b"pvok";
const REFUSED: [u8; 4] = *b"pvno";

/// Tells the peer that this side can receive and hears the same of it, so that nothing is sent too early.
pub(super) fn agree<S: Read + Write + ?Sized>(stream: &mut S) -> Result<(), ConnectError> {
    let failed = |error| ExchangeError::Io { error, received: Vec::new() };
    stream.write_all(&READY).map_err(failed)?;
    stream.flush().map_err(failed)?;
    let mut word = [0; 4];
    let mut at = 0;
    while at < word.len() {
        let received = |word: &[u8; 4]| word[..at].to_vec();
        match stream.read(&mut word[at..]) {
            Ok(0) => {
                let received = received(&word);
                return Err(ExchangeError::HungUp { needed: READY.len(), received }.into());
            }
            Ok(count) => at = word.len().min(at + count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(ExchangeError::Io { error, received: received(&word) }.into());
            }
        }
    }
    match word {
        READY => Ok(()),
        REFUSED => Err(ConnectError::PeerRefused),
        other => Err(ConnectError::NoVerdict(other)),
    }
}

/// Tells the peer, if it still listens, that this side will not connect.
pub(super) fn refuse<S: Write + ?Sized>(stream: &mut S) {
    let _ = stream.write_all(&REFUSED).and_then(|()| stream.flush());
}

impl ExchangeError {
    /// What the peer had sent.
    pub fn received(&self) -> &[u8] {
        match self {
            ExchangeError::Io { received, .. }
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
            ExchangeError::HungUp { .. } => None,
            ExchangeError::Malformed { error, .. } => Some(error),
        }
    }
}
