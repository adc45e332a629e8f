//! Batches of operations, and the tickets that return their results.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fmt, sync::Arc};

use proverbs::{completion::WcError, memory::OutOfBounds};

/// A peer of an engine: its number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(pub usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Copies local bytes to the peer.
    Write,
    /// Copies bytes of the peer to local memory.
    Read,
}

/// One operation of a batch: `len` bytes between an offset of the engine's memory and an address of
/// the peer.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub operation: Operation,
    pub local: usize,
    pub remote: u64,
    pub len: usize,
}

/// The first failure of a batch. Its other operations may have been done.
#[derive(Clone, Debug)]
pub struct Failure {
    pub peer: Peer,
    pub reason: Reason,
}

#[derive(Clone, Debug)]
pub enum Reason {
    /// The operation exceeds the memory of this side or of the peer. No part of it was posted.
    OutOfBounds(OutOfBounds),
    /// The device reported this status.
    Status(WcError),
    /// The peer is not connected.
    Down(Arc<str>),
    /// The engine has ended.
    Stopped,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { peer: Peer(peer), reason } = self;
        match reason {
            Reason::OutOfBounds(error) => write!(f, "peer {peer}: {error}"),
            Reason::Status(error) => write!(f, "peer {peer}: {error}"),
            Reason::Down(why) => write!(f, "peer {peer} is not connected: {why}"),
            Reason::Stopped => write!(f, "peer {peer}: the engine has ended"),
        }
    }
}

impl std::error::Error for Failure {}

/// The result of a batch, for the thread that waits for it.
pub struct Ticket {
    peer: Peer,
    parts: usize,
    results: Receiver<Result<u64, Reason>>,
}

impl Ticket {
    /// Waits until the batch has ended, and returns the number of bytes that were copied. No device
    /// of this side accesses the memory of the batch after that.
    ///
    /// # Errors
    /// The first failure of an operation.
    pub fn wait(self) -> Result<u64, Failure> {
        let results: Vec<_> = self.results.iter().collect();
        // A part without a result was dropped with the engine.
        let all = results.len() == self.parts;
        let bytes = results.into_iter().sum::<Result<u64, Reason>>();
        let bytes = bytes.and_then(|bytes| all.then_some(bytes).ok_or(Reason::Stopped));
        bytes.map_err(|reason| Failure { peer: self.peer, reason })
    }
}

/// A part of an operation, small enough for one work request.
pub struct Part {
    /// The whole operation.
    pub op: Op,
    /// The offset of the part in the operation.
    pub from: usize,
    pub len: usize,
    results: Sender<Result<u64, Reason>>,
}

impl Part {
    pub fn finish(self, result: Result<(), Reason>) {
        // The thread may have dropped the ticket.
        let _ = self.results.send(result.map(|()| self.len as u64));
    }
}

/// Cuts a batch into parts of at most `longest` bytes, and deals them out in `count` shares.
pub fn split(peer: Peer, ops: &[Op], longest: usize, count: usize) -> (Ticket, Vec<Vec<Part>>) {
    let (sender, results) = channel();
    let mut shares: Vec<Vec<Part>> = (0..count).map(|_| Vec::new()).collect();
    let mut parts = 0;
    for &op in ops {
        for from in (0..op.len).step_by(longest) {
            let (len, results) = (longest.min(op.len - from), sender.clone());
            shares[parts % count].push(Part { op, from, len, results });
            parts += 1;
        }
    }
    (Ticket { peer, parts, results }, shares)
}
