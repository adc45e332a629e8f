//! What is in the messages, and what must have arrived.
//!
//! The C programs have one buffer for all they send and receive, so each message is what they
//! received last; the first is a constant. With -c the client sets the first byte of each page to
//! 0, and the server looks at these at the end. Without -c the Rust programs do the same.
//!
//! With -c they send a pattern that differs from message to message, 0 at the start of each page,
//! and check every byte: against the peer's own pattern if it is one of ours, and against what C
//! must send back otherwise. The first message tells which it is. Receives are poisoned before they
//! are posted, so nothing that was there before can pass for a message.

use proverbs::Buf;

use super::exchange::Role;

/// C's -c looks at the start of each page of its machine, which has pages of a multiple of this.
const PAGE: usize = 4096;

/// In no message.
const POISON: u8 = 0xff;

/// Fills a buffer that is to be received into.
pub fn poison(mut buf: Buf) -> Buf {
    buf.set_len(buf.capacity());
    // `Buf::fill` copies a slice, and hides that of slices.
    buf[..].fill(POISON);
    buf
}

/// The bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// The first of a C program.
    First { byte: u8, page_start: u8 },
    /// The `number`th between the two ends on a stream, both directions counted.
    Pattern { stream: u32, number: u32 },
}

impl Message {
    fn byte(self, at: usize) -> u8 {
        let start = at % PAGE == 0;
        match self {
            Message::First { page_start, .. } if start => page_start,
            Message::First { byte, .. } => byte,
            Message::Pattern { .. } if start => 0,
            Message::Pattern { stream, number } => {
                // The first two are for all streams the same: by them the ends know each other.
                let stream = if number < 2 { 0 } else { u64::from(stream) };
                let at = at as u64;
                let mixed = u64::from(number) * 97 + at * (stream + 1) + at / 251;
                1 + (mixed % 251) as u8
            }
        }
    }

    /// Where `bytes` is something else.
    fn differs(self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().enumerate().position(|(at, &byte)| byte != self.byte(at))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Unknown,
    /// Sends a pattern of its own.
    Ours,
    /// Sends back what it received; `first` is what it sent before, if it was the first to send.
    Echo {
        first: Message,
    },
}

/// What one end sends and expects.
pub struct Content {
    check: bool,
    role: Role,
    /// The first message of the C namesake.
    first: u8,
    /// Whether several streams share the peer's one buffer, if it is a C program.
    shared: bool,
    peer: Peer,
}

impl Content {
    pub fn new(check: bool, role: Role, first: u8, streams: usize) -> Content {
        Content { check, role, first, shared: streams > 1, peer: Peer::Unknown }
    }

    /// The buffer, ready to be received into.
    pub fn blank(&self, buf: Buf) -> Buf {
        if self.check { poison(buf) } else { buf }
    }

    /// Writes the `n`th message on `stream`; without -c only the client's first, as all later ones
    /// are what has arrived.
    pub fn write(&self, stream: usize, n: u32, bytes: &mut [u8]) {
        let message = match (self.check, self.role, n) {
            (true, ..) => self.outgoing(stream, n),
            (false, Role::Client, 0) => Message::First { byte: self.first, page_start: 0 },
            (false, ..) => return,
        };
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = message.byte(at));
    }

    fn outgoing(&self, stream: usize, n: u32) -> Message {
        let own = match self.role {
            Role::Client => 2 * n,
            Role::Server => 2 * n + 1,
        };
        match self.peer {
            // While we overwrite its buffer it sends from it: only one content can be told.
            Peer::Echo { first } if self.shared => first,
            _ => Message::Pattern { stream: stream as u32, number: own },
        }
    }

    /// Checks the `n`th message from the peer on `stream`.
    pub fn check(&mut self, stream: usize, n: u32, bytes: &[u8]) -> Result<(), String> {
        if !self.check {
            return Ok(());
        }
        if self.peer == Peer::Unknown {
            self.peer = self.meet(bytes);
        }
        let expected = self.incoming(stream, n);
        let Some(at) = expected.differs(bytes) else { return Ok(()) };
        let (is, should) = (bytes[at], expected.byte(at));
        let poison = if is == POISON { " (as before the message arrived)" } else { "" };
        let whose = match self.peer {
            Peer::Ours => "the peer's pattern",
            _ => "what the C program sends",
        };
        Err(format!(
            "message {n} of QP {stream}: byte {at} is {is:#04x}{poison}, not {should:#04x} as in {whose}"
        ))
    }

    /// Who sent this first message?
    fn meet(&self, bytes: &[u8]) -> Peer {
        let opening = Message::Pattern { stream: 0, number: 0 };
        let is_opening = opening.differs(bytes).is_none();
        match self.role {
            Role::Server if is_opening => Peer::Ours,
            Role::Server => {
                let page_start =
                    bytes.first().copied().filter(|&byte| byte == self.first).unwrap_or(0);
                Peer::Echo { first: Message::First { byte: self.first, page_start } }
            }
            Role::Client if is_opening => Peer::Echo { first: opening },
            Role::Client => Peer::Ours,
        }
    }

    fn incoming(&self, stream: usize, n: u32) -> Message {
        let pattern = |number| Message::Pattern { stream: stream as u32, number };
        match (self.peer, self.role) {
            (Peer::Echo { first }, _) if self.shared => first,
            (Peer::Echo { first }, Role::Server) if n == 0 => first,
            (Peer::Echo { .. }, Role::Server) => pattern(2 * n - 1),
            (Peer::Echo { .. }, Role::Client) => pattern(2 * n),
            (_, Role::Server) => pattern(2 * n),
            (_, Role::Client) => pattern(2 * n + 1),
        }
    }
}
