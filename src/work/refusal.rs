//! Why a post is refused.

use std::fmt;

use crate::terms::error::Errno;

/// Why a post was refused: [`PostError::kind`](crate::PostError::kind) (ibv_post_send(3), R9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostErrorKind {
    /// The queue has not enough room: poll, or post fewer (R9.6).
    QueueFull {
        /// Work requests in the list.
        asked: u32,
        /// Work requests that fit now.
        room: u32,
    },
    /// A run-time inline payload exceeds the queue pair's inline capacity (R2.7).
    InlineTooLong {
        /// The most that fits, bytes.
        max: u32,
    },
    /// A run-time list of buffers exceeds the queue's SGE limit (R3.1).
    TooManySge {
        /// The most that fits.
        max: u32,
    },
    /// A message is longer than the port takes (R3.5).
    ExceedsMessage {
        /// Its length, bytes.
        asked: u64,
        /// The port's `max_msg_sz`, bytes.
        max: u32,
    },
    /// A UD message is longer than a packet's payload (R3.6).
    ExceedsMtu {
        /// Its length, bytes.
        asked: u64,
        /// The port's active MTU, bytes, as the queue pair came to RTS.
        max: u32,
    },
    /// An RDMA WRITE is longer than the remote slice that it goes to (R6.7).
    ExceedsSlice {
        /// The length of the WRITE, bytes.
        asked: u64,
        /// The length of the slice, bytes.
        max: u64,
    },
    /// An RDMA READ brings a remote slice that is longer than what its buffers take, or the buffer
    /// of an atomic was narrowed to fewer than 8 bytes (R4.1).
    ExceedsBuffers {
        /// The length of the slice, bytes; 2^32 - 2 also stands for more. 8 for an atomic.
        asked: u64,
        /// What the buffers take together, bytes.
        max: u64,
    },
    /// A buffer belongs to another protection domain than the queue (R6.8).
    PdMismatch,
    /// A buffer belongs to a pool that the shared receive queue was not made with.
    ForeignPool,
    /// A receive of a shared receive queue has no buffer, which alone bounds how many there are.
    NoBuffer,
    /// The address handle was removed, or belongs to another queue pair (R5.3).
    UnknownAddressHandle,
    /// An earlier post ended with [`OutcomeUnknown`](PostErrorKind::OutcomeUnknown), or the
    /// connection was given up and the device did not take the error state: reset or destroy the
    /// queue.
    Poisoned,
    /// The device refused and did not say from where on: every entry stays with it, and the queue
    /// takes no more until it is reset or destroyed (R8.20).
    OutcomeUnknown {
        /// The errno.
        errno: i32,
    },
    /// The device refused the work request at index `accepted`.
    Refused {
        /// The errno; ENOMEM says that the device's queue is full.
        errno: i32,
    },
}

impl fmt::Display for PostErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PostErrorKind::QueueFull { asked, room } => {
                write!(f, "queue full: {asked} work requests exceed the {room} that fit")
            }
            PostErrorKind::InlineTooLong { max } => {
                write!(f, "inline payload exceeds the queue pair's {max} bytes")
            }
            PostErrorKind::TooManySge { max } => {
                write!(f, "scatter/gather list exceeds the queue's {max} elements")
            }
            PostErrorKind::ExceedsMessage { asked, max } => {
                write!(f, "a message of {asked} bytes exceeds the port's max_msg_sz of {max}")
            }
            PostErrorKind::ExceedsMtu { asked, max } => {
                write!(f, "a UD message of {asked} bytes exceeds the active MTU of {max}")
            }
            PostErrorKind::ExceedsSlice { asked, max } => {
                write!(f, "an RDMA WRITE of {asked} bytes exceeds the remote slice of {max}")
            }
            PostErrorKind::ExceedsBuffers { asked, max } => {
                write!(
                    f,
                    "an RDMA READ of a slice of {asked} bytes exceeds the {max} of its buffers"
                )
            }
            PostErrorKind::PdMismatch => {
                f.write_str("a buffer belongs to another protection domain than the queue")
            }
            PostErrorKind::ForeignPool => {
                f.write_str("a buffer belongs to a pool that the shared receive queue does not use")
            }
            PostErrorKind::NoBuffer => {
                f.write_str("a receive of a shared receive queue needs a buffer")
            }
            PostErrorKind::UnknownAddressHandle => {
                f.write_str("the address handle was removed, or belongs to another queue pair")
            }
            PostErrorKind::Poisoned => f.write_str(
                "an earlier post had no known outcome, or the device did not take the error state: \
                 reset or destroy the queue pair first",
            ),
            PostErrorKind::OutcomeUnknown { errno } => {
                write!(f, "{} (no bad_wr: every entry stays with the device)", Errno(errno))
            }
            PostErrorKind::Refused { errno } => Errno(errno).fmt(f),
        }
    }
}
