//! The messages. Numbers are in network byte order.

use proverbs::prelude::*;

/// Bytes of a block, and so of the longest PUT.
pub const BLOCK: usize = 4096;
/// How many requests of a connection may be unanswered.
pub const WINDOW: usize = 8;

const MAGIC: u32 = 0x7072_7632;

/// A request: "read these bytes of mine, and store them in that block".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// The client's name for the request, which the answer repeats.
    pub tag: u32,
    pub block: u32,
    /// FNV-1a of the bytes.
    pub sum: u64,
    /// The bytes, in the client's memory.
    pub from: RemoteSlice<RemoteRead>,
}

impl Put {
    pub const WIRE_LEN: usize = 44;

    pub fn to_wire(self) -> [u8; Self::WIRE_LEN] {
        let mut wire = [0; Self::WIRE_LEN];
        let words = [MAGIC, self.tag, self.block].map(u32::to_be_bytes);
        wire[..12].copy_from_slice(words.as_flattened());
        wire[12..20].copy_from_slice(&self.sum.to_be_bytes());
        wire[20..].copy_from_slice(&self.from.to_bytes());
        wire
    }

    /// Parses a message of a client. Returns `None` if it is not a request.
    pub fn from_wire(bytes: &[u8]) -> Option<Put> {
        let bytes: &[u8; Self::WIRE_LEN] = bytes.try_into().ok()?;
        let word = |at: usize| Some(u32::from_be_bytes(*bytes[at..].first_chunk()?));
        let sum = u64::from_be_bytes(*bytes[12..].first_chunk()?);
        let from = RemoteSlice::from_bytes(bytes[20..].first_chunk()?)?;
        let put = Put { tag: word(4)?, block: word(8)?, sum, from };
        (word(0)? == MAGIC).then_some(put)
    }
}

/// The result of a request that the target understood. The connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Stored,
    /// The target has no such block.
    NoBlock,
    /// A PUT has from 1 to [`BLOCK`] bytes.
    WrongLength,
    /// The bytes that were read do not have the sum of the request. Nothing was stored.
    WrongSum,
}

/// The answer to the request with this tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub tag: u32,
    pub status: Status,
}

impl Answer {
    pub const WIRE_LEN: usize = 8;

    pub fn to_wire(self) -> [u8; Self::WIRE_LEN] {
        let [a, b, c, d] = self.tag.to_be_bytes();
        [a, b, c, d, 0, 0, 0, self.status as u8]
    }

    pub fn from_wire(bytes: &[u8]) -> Option<Answer> {
        let &[a, b, c, d, 0, 0, 0, status] = bytes else { return None };
        use Status::*;
        let status = *[Stored, NoBlock, WrongLength, WrongSum].get(usize::from(status))?;
        Some(Answer { tag: u32::from_be_bytes([a, b, c, d]), status })
    }
}

/// The private data of a rejection begins with this. The reason follows, in English.
pub const REJECTION: &str = "target: ";

/// FNV-1a, which detects accidental changes, but not malicious ones.
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
