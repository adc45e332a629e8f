//! Why a post is rejected.

use std::fmt;

use crate::terms::error::Errno;
use crate::work::gather::MAX_LIST;
use crate::work::request::Found;

/// The faults of a work request, one bit each.
pub(crate) mod fault {
    /// A buffer belongs to another protection domain.
    pub const PD: u32 = 1;
    pub const INLINE: u32 = 2;
    pub const SGE: u32 = 4;
    pub const AH: u32 = 8;
    /// A buffer does not belong to the pool of the shared receive queue.
    pub const POOL: u32 = 16;
    pub const NO_BUFFER: u32 = 32;
    /// A WRITE without buffers exceeds its remote slice, or a READ without buffers has a slice that
    /// is not empty. Cold code reads the lengths from the C struct.
    pub const BEYOND: u32 = 64;
    /// A window does not belong to this queue pair.
    pub const WINDOW: u32 = 128;
    /// LOCAL_INV of a window on Soft-RoCE.
    pub const LOCAL_INV: u32 = 256;
    /// A list for a READ or a receive has an element that the device may not write.
    pub const NOT_WRITABLE: u32 = 512;
}

/// Displays a number of work requests.
pub(crate) struct WorkRequests(pub u32);

impl fmt::Display for WorkRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} work request{s}", self.0)
    }
}

/// Why a post was rejected. Returned by [`PostError::kind`](crate::PostError::kind)
/// (ibv_post_send(3), [R9.1](crate::guide::rules#r9-1)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PostErrorKind {
    /// The queue does not have enough room: poll, or post fewer ([R9.6](crate::guide::rules#r9-6)).
    QueueFull {
        /// The number of work requests in the list.
        asked: u32,
        /// How many work requests fit now.
        room: u32,
    },
    /// The queue has room, but its completion queue does not: its queue pairs
    /// [share](crate::completion::CqBuilder::shared_budget) its entries. Poll, or post fewer
    /// ([R9.9](crate::guide::rules#r9-9)).
    CqFull {
        /// Work requests in the list.
        asked: u32,
        /// Work requests that fit now.
        room: u32,
    },
    /// A run-time inline payload exceeds the queue pair's inline capacity
    /// ([R2.7](crate::guide::rules#r2-7)).
    InlineTooLong {
        /// Its length in bytes. For a list of slices this is their total, with each counted as at
        /// most 2^32 - 1.
        asked: u64,
        /// The inline capacity in bytes.
        max: u32,
    },
    /// A run-time list of buffers exceeds the SGE limit of the queue, or of the slots of a list
    /// ([R3.1](crate::guide::rules#r3-1)).
    TooManySge {
        /// The number of buffers in the list.
        asked: u32,
        /// The most that fit.
        max: u32,
    },
    /// A message is longer than the port allows ([R3.5](crate::guide::rules#r3-5)).
    ExceedsMessage {
        /// Its length in bytes.
        asked: u64,
        /// The port's `max_msg_sz` in bytes.
        max: u32,
    },
    /// A UD message is longer than a packet's payload ([R3.6](crate::guide::rules#r3-6)).
    ExceedsMtu {
        /// Its length in bytes.
        asked: u64,
        /// The port's active MTU in bytes, when the queue pair moved to RTS.
        max: u32,
    },
    /// An RDMA WRITE is longer than its remote slice ([R6.7](crate::guide::rules#r6-7)).
    ExceedsSlice {
        /// The length of the WRITE in bytes.
        asked: u64,
        /// The length of the slice in bytes.
        max: u64,
    },
    /// The remote slice of an RDMA READ is longer than its buffers.
    ExceedsBuffers {
        /// The length of the slice in bytes; 2^32 - 2 means at least this many.
        asked: u64,
        /// The total capacity of the buffers in bytes.
        max: u64,
    },
    /// An atomic returns 8 bytes, but its buffer was narrowed to fewer
    /// ([R4.1](crate::guide::rules#r4-1)).
    AtomicExceedsBuffer {
        /// The capacity of the buffer in bytes.
        max: u64,
    },
    /// A buffer and the queue belong to different protection domains
    /// ([R6.8](crate::guide::rules#r6-8)).
    PdMismatch,
    /// A buffer does not belong to the pool that the shared receive queue was created with.
    ForeignPool,
    /// A receive of a shared receive queue does not have a buffer. Only buffers limit the number of
    /// receives.
    NoBuffer,
    /// A list for a READ or a receive contains a shared buffer or a piece of read-only memory
    /// ([R4.5](crate::guide::rules#r4-5)).
    NotWritable,
    /// The address handle was removed, or belongs to another queue pair
    /// ([R5.3](crate::guide::rules#r5-3)).
    UnknownAddressHandle,
    /// The window was allocated for another queue pair, or became invalid when this one was reset,
    /// or when the device refused to destroy it ([R19.4](crate::guide::rules#r19-4)).
    ForeignWindow,
    /// LOCAL_INV of a window on Soft-RoCE. It crashes the kernel if a message from the peer has
    /// invalidated the key already, and this side may not have polled that message yet
    /// ([R1.6](crate::guide::rules#r1-6)).
    LocalInvOnSoftRoce,
    /// An earlier post ended with [`OutcomeUnknown`](PostErrorKind::OutcomeUnknown), or the
    /// connection was given up and the device did not move to the error state. Reset or destroy the
    /// queue pair.
    Poisoned,
    /// The device failed without reporting which work requests it accepted. Every buffer stays with
    /// the device, and the queue rejects further posts until it is reset or destroyed
    /// ([R8.20](crate::guide::rules#r8-20)).
    OutcomeUnknown {
        /// The errno.
        errno: i32,
    },
    /// The device rejected the work request at index `accepted` (EINVAL), which is an atomic or has
    /// an immediate. The device speaks iWARP, which has neither
    /// ([R24.4](crate::guide::rules#r24-4)).
    NotOnIwarp,
    /// The device rejected the work request at index `accepted` (EINVAL), which is a SEND_WITH_INV
    /// with inline data. The [provider](crate::Context::provider) is siw, which supports it only
    /// with buffers.
    InlineInvOnSiw,
    /// The device rejected the work request at index `accepted` (EINVAL), which is a READ with a
    /// fence. The [provider](crate::Context::provider) is siw, which does not support it.
    FencedReadOnSiw,
    /// The device rejected the work request at index `accepted` (EINVAL), which is a READ of no
    /// bytes. The [provider](crate::Context::provider) is siw, which would read into the buffer of
    /// an earlier work request ([R24.18](crate::guide::rules#r24-18)).
    EmptyReadOnSiw,
    /// The device rejected the work request at index `accepted`.
    Refused {
        /// The errno. ENOMEM means that the device's queue is full.
        errno: i32,
    },
}

impl fmt::Display for PostErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PostErrorKind::QueueFull { asked, room } => {
                let asked = WorkRequests(asked);
                write!(
                    f,
                    "queue full: posting {asked}, room for {room} (poll the completion queue to \
                     free room)"
                )
            }
            PostErrorKind::CqFull { asked, room } => {
                let asked = WorkRequests(asked);
                write!(
                    f,
                    "completion queue full: posting {asked}, room for {room} (poll it: each \
                     completion frees an entry for any of its queue pairs)"
                )
            }
            PostErrorKind::InlineTooLong { asked, max } => {
                write!(
                    f,
                    "an inline payload of {asked} bytes exceeds the queue pair's max_inline of {max} \
                     (ask for more in the profile, or send from a buffer)"
                )
            }
            PostErrorKind::TooManySge { asked, max } => write!(
                f,
                "a list of {asked} buffers exceeds the {max} elements of a work request (ask for \
                 more in the profile and in a list's slots, or post it in parts)"
            ),
            PostErrorKind::ExceedsMessage { asked, max } => write!(
                f,
                "a message of {asked} bytes exceeds the port's max_msg_sz of {max} (send it in \
                 parts)"
            ),
            PostErrorKind::ExceedsMtu { asked, max } => write!(
                f,
                "a UD message of {asked} bytes exceeds the active MTU of {max} (send it in parts, \
                 or on RC)"
            ),
            PostErrorKind::ExceedsSlice { asked, max } => write!(
                f,
                "an RDMA WRITE of {asked} bytes exceeds the remote slice of {max} (write fewer, or \
                 have the peer offer a longer slice)"
            ),
            PostErrorKind::ExceedsBuffers { asked, max } => write!(
                f,
                "an RDMA READ of a slice of {asked} bytes exceeds the {max} of its buffers (read a \
                 part of the slice, or into more)"
            ),
            PostErrorKind::AtomicExceedsBuffer { max } => write!(
                f,
                "the 8 bytes that an atomic returns exceed its buffer, which was narrowed to {max} \
                 (widen it, or take another)"
            ),
            PostErrorKind::PdMismatch => f.write_str(
                "a buffer belongs to another protection domain than the queue (take one of a pool \
                 of the queue's domain)",
            ),
            PostErrorKind::ForeignPool => f.write_str(
                "a buffer belongs to a pool that the shared receive queue does not use (take one of \
                 the pool that the queue was made with)",
            ),
            PostErrorKind::NoBuffer => f.write_str(
                "a receive of a shared receive queue needs a buffer (take one of the pool that the \
                 queue was made with)",
            ),
            PostErrorKind::NotWritable => f.write_str(
                "a list for a READ or a receive contains a shared buffer or a piece of read-only \
                 memory (use buffers and pieces of writable regions)",
            ),
            PostErrorKind::UnknownAddressHandle => f.write_str(
                "the address handle was removed, or belongs to another queue pair (add one to this \
                 queue pair by `add_address_handle`)",
            ),
            PostErrorKind::ForeignWindow => f.write_str(
                "the memory window was allocated for another queue pair, or ended with a reset or \
                 an attempt to destroy this one (allocate one by `alloc_mw` of this queue pair)",
            ),
            PostErrorKind::LocalInvOnSoftRoce => f.write_str(
                "LOCAL_INV of a memory window is refused on Soft-RoCE, where it crashes the kernel \
                 if a message of the peer has invalidated the key (destroy the window and allocate \
                 another, or lend it with `BindMw::lend` and have the peer give it back)",
            ),
            PostErrorKind::Poisoned => f.write_str(
                "an earlier post had no known outcome, or the device did not take the error state: \
                 reset or destroy the queue pair first",
            ),
            PostErrorKind::OutcomeUnknown { errno } => {
                write!(
                    f,
                    "{} (no bad_wr: the provider did not say which work requests it accepted, so \
                     their buffers stay in flight until the queue is reset or destroyed)",
                    Errno(errno)
                )
            }
            PostErrorKind::NotOnIwarp => write!(
                f,
                "{} (the device speaks iWARP, which has neither immediates nor atomics: send a \
                 message instead)",
                Errno(libc::EINVAL)
            ),
            PostErrorKind::InlineInvOnSiw => write!(
                f,
                "{} (siw does not support SEND_WITH_INV with inline data: send from a buffer, or \
                 post a SEND)",
                Errno(libc::EINVAL)
            ),
            PostErrorKind::FencedReadOnSiw => write!(
                f,
                "{} (siw does not support a READ with a fence: post the READ after the earlier \
                 completions)",
                Errno(libc::EINVAL)
            ),
            PostErrorKind::EmptyReadOnSiw => write!(
                f,
                "{} (siw does not support a READ of no bytes: leave it out)",
                Errno(libc::EINVAL)
            ),
            PostErrorKind::Refused { errno } => Errno(errno).fmt(f),
        }
    }
}

impl Found {
    /// Buffers need inspection, and no other fault is known.
    pub(crate) const MISMATCH: Found = Found { faults: 0, mismatch: 1 };

    /// Whether buffers need inspection.
    pub(crate) fn is_mismatch(self) -> bool {
        self.mismatch != 0
    }

    /// Whether cold code can find more than was recorded.
    pub(crate) fn is_open(self) -> bool {
        self.is_mismatch() || self.faults & (fault::BEYOND | fault::INLINE | fault::SGE) != 0
    }
}

/// The faults of a list, after cold code has inspected it.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    pub bits: u32,
    /// The first message that is too long.
    pub too_long: Option<PostErrorKind>,
    /// The longest inline payload in bytes.
    pub inline: u64,
    /// The longest list of buffers, if one is too long.
    pub sges: u32,
}

impl Faults {
    /// The recorded faults.
    pub fn of(found: Found) -> Self {
        Faults { bits: found.faults, too_long: None, inline: 0, sges: 0 }
    }

    /// The first fault, or `None`, with the limits of the queue.
    pub fn first(self, max_sge: u32, max_inline: u32) -> Option<PostErrorKind> {
        Some(match self.bits {
            f if f & fault::PD != 0 => PostErrorKind::PdMismatch,
            f if f & fault::INLINE != 0 => {
                PostErrorKind::InlineTooLong { asked: self.inline, max: max_inline }
            }
            f if f & fault::SGE != 0 => {
                let max = max_sge.min(MAX_LIST as u32);
                PostErrorKind::TooManySge { asked: self.sges, max }
            }
            f if f & fault::POOL != 0 => PostErrorKind::ForeignPool,
            f if f & fault::NO_BUFFER != 0 => PostErrorKind::NoBuffer,
            f if f & fault::NOT_WRITABLE != 0 => PostErrorKind::NotWritable,
            f if f & fault::WINDOW != 0 => PostErrorKind::ForeignWindow,
            f if f & fault::LOCAL_INV != 0 => PostErrorKind::LocalInvOnSoftRoce,
            f if f & fault::AH != 0 && self.too_long.is_none() => {
                PostErrorKind::UnknownAddressHandle
            }
            _ => return self.too_long,
        })
    }
}
