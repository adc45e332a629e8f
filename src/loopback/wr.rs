//! Work requests, as the device keeps them.

use super::faults::Doom;

#[derive(Clone, Copy)]
pub(super) struct Sge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// The length of the message that a list holds, without wrapping (R2.8).
pub(super) fn length(list: &[Sge]) -> u64 {
    list.iter().map(|sge| u64::from(sge.length)).sum()
}

pub(super) struct Recv {
    pub(super) wr_id: u64,
    pub(super) list: Vec<Sge>,
}

pub(super) struct Send {
    pub(super) wr_id: u64,
    pub(super) op: Op,
    /// In network order, as it stood in the work request.
    pub(super) imm: Option<u32>,
    pub(super) signaled: bool,
    pub(super) solicited: bool,
    pub(super) payload: Payload,
    pub(super) doom: Doom,
}

pub(super) enum Payload {
    /// Copied during the post.
    Inline(Vec<u8>),
    List(Vec<Sge>),
}

impl Payload {
    pub(super) fn length(&self) -> u64 {
        match self {
            Payload::Inline(bytes) => bytes.len() as u64,
            Payload::List(list) => length(list),
        }
    }
}

/// A place in the peer's memory.
#[derive(Clone, Copy)]
pub(super) struct Remote {
    pub(super) addr: u64,
    pub(super) rkey: u32,
}

#[derive(Clone, Copy)]
pub(super) enum Op {
    Send,
    Datagram { ah: u32, qpn: u32, qkey: u32 },
    Write(Remote),
    Read(Remote),
    CompareSwap { at: Remote, expected: u64, new: u64 },
    FetchAdd { at: Remote, add: u64 },
}

impl Op {
    pub(super) fn is_atomic(&self) -> bool {
        matches!(self, Op::CompareSwap { .. } | Op::FetchAdd { .. })
    }

    /// Whether it brings data back, and counts against the initiator depth.
    pub(super) fn fetches(&self) -> bool {
        self.is_atomic() || matches!(self, Op::Read(_))
    }
}
