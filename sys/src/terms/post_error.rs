//! Why a post is rejected.

use std::fmt;

use crate::terms::error::Errno;

/// Displays a number of work requests.
pub struct WorkRequests(pub u32);

impl fmt::Display for WorkRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} work request{s}", self.0)
    }
}

/// Why a post was rejected. Returned by [`PostError::kind`] (ibv_post_send(3), [R9.1]).
///
/// [`PostError::kind`]:
/// https://docs.rs/proverbs/latest/proverbs/post/struct.PostError.html#method.kind
/// [R9.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r9-1
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PostErrorKind {
    /// The queue does not have enough room: poll, or post fewer ([R9.6]).
    ///
    /// [R9.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r9-6
    QueueFull {
        /// The number of work requests in the list.
        asked: u32,
        /// How many work requests fit now.
        room: u32,
    },
    /// The queue has room, but its completion queue does not: its queue pairs [share] its entries.
    /// Poll, or post fewer ([R9.9]).
    ///
    /// [share]:
    /// https://docs.rs/proverbs/latest/proverbs/completion/struct.CqBuilder.html#method.shared_budget
    /// [R9.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r9-9
    CqFull {
        /// Work requests in the list.
        asked: u32,
        /// Work requests that fit now.
        room: u32,
    },
    /// A run-time inline payload exceeds the queue pair's inline capacity ([R2.7]).
    ///
    /// [R2.7]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r2-7
    InlineTooLong {
        /// Its length in bytes. For a list of slices this is the sum of their lengths, each counted
        /// as at most 2^32 - 1.
        asked: u64,
        /// The inline capacity in bytes.
        max: u32,
    },
    /// A run-time list of buffers exceeds the SGE limit of the queue, or of the slots of a list
    /// ([R3.1]).
    ///
    /// [R3.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r3-1
    TooManySge {
        /// The number of buffers in the list.
        asked: u32,
        /// The most that fit.
        max: u32,
    },
    /// A message is longer than the port allows ([R3.5]).
    ///
    /// [R3.5]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r3-5
    ExceedsMessage {
        /// Its length in bytes.
        asked: u64,
        /// The port's `max_msg_sz` in bytes.
        max: u32,
    },
    /// A UD message is longer than a packet's payload ([R3.6]).
    ///
    /// [R3.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r3-6
    ExceedsMtu {
        /// Its length in bytes.
        asked: u64,
        /// The port's active MTU in bytes, when the queue pair moved to RTS.
        max: u32,
    },
    /// An RDMA WRITE is longer than its remote slice ([R6.7]).
    ///
    /// [R6.7]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r6-7
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
    /// An atomic returns 8 bytes, but its buffer was narrowed to fewer ([R4.1]).
    ///
    /// [R4.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-1
    AtomicExceedsBuffer {
        /// The capacity of the buffer in bytes.
        max: u64,
    },
    /// A buffer and the queue belong to different protection domains ([R6.8]).
    ///
    /// [R6.8]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r6-8
    PdMismatch,
    /// A buffer does not belong to the pool that the shared receive queue was created with.
    ForeignPool,
    /// A receive of a shared receive queue does not have a buffer. Every such receive needs one,
    /// because only the number of buffers limits the number of receives.
    NoBuffer,
    /// A list for a READ or a receive contains a shared buffer or a piece of read-only memory
    /// ([R4.5]).
    ///
    /// [R4.5]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-5
    NotWritable,
    /// The address handle was removed, or belongs to another queue pair ([R5.3]).
    ///
    /// [R5.3]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-3
    UnknownAddressHandle,
    /// The window was allocated for another queue pair, or became invalid when this queue pair was
    /// reset or the device refused to destroy this queue pair ([R19.4]).
    ///
    /// [R19.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r19-4
    ForeignWindow,
    /// The post contains a LOCAL_INV of a window, and the device is Soft-RoCE. There, LOCAL_INV
    /// crashes the kernel if a message from the peer has already invalidated the key, and this side
    /// may not have polled that message yet ([R1.6]).
    ///
    /// [R1.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r1-6
    LocalInvOnSoftRoce,
    /// An earlier post ended with [`OutcomeUnknown`](PostErrorKind::OutcomeUnknown), or a
    /// connection attempt ended and the queue pair could not be moved to the error state. Reset or
    /// destroy the queue pair.
    Poisoned,
    /// The device failed without reporting which work requests it accepted. Every buffer stays with
    /// the device, and the queue rejects further posts until it is reset or destroyed ([R8.20]).
    ///
    /// [R8.20]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-20
    OutcomeUnknown {
        /// The errno.
        errno: i32,
    },
    /// The device rejected the work request at index `accepted` (EINVAL), which is an atomic or has
    /// an immediate. The device speaks iWARP, which has neither ([R24.4]).
    ///
    /// [R24.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r24-4
    NotOnIwarp,
    /// The device rejected the work request at index `accepted` (EINVAL), which is a SEND_WITH_INV
    /// with inline data. The [provider] is siw, which supports it only with buffers.
    ///
    /// [provider]: https://docs.rs/proverbs/latest/proverbs/struct.Context.html#method.provider
    InlineInvOnSiw,
    /// The device rejected the work request at index `accepted` (EINVAL), which is a READ with a
    /// fence. The [provider] is siw, which does not support it.
    ///
    /// [provider]: https://docs.rs/proverbs/latest/proverbs/struct.Context.html#method.provider
    FencedReadOnSiw,
    /// The device rejected the work request at index `accepted` (EINVAL), which is a READ of no
    /// bytes. The [provider] is siw, which would read into the buffer of an earlier work request
    /// ([R24.18]).
    ///
    /// [provider]: https://docs.rs/proverbs/latest/proverbs/struct.Context.html#method.provider
    /// [R24.18]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r24-18
    EmptyReadOnSiw,
    /// The device rejected the work request at index `accepted`.
    Refused {
        /// The errno. ENOMEM means that the device's queue is full.
        errno: i32,
    },
}

/// A group of reasons why posts are rejected ([`PostErrorKind::group`]), as used by the counters.
///
/// [`PostErrorKind::group`]:
/// https://docs.rs/proverbs/latest/proverbs/post/enum.PostErrorKind.html#method.group
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The queue did not have enough room ([`QueueFull`](PostErrorKind::QueueFull)).
    QueueFull,
    /// The completion queue did not have enough room ([`CqFull`](PostErrorKind::CqFull)).
    CqFull,
    /// The device did not have enough room: ENOMEM, or ENOSPC of a session on librxe
    /// ([`Refused`](PostErrorKind::Refused)).
    DeviceFull,
    /// The device rejected a work request for another reason, or failed
    /// ([`OutcomeUnknown`](PostErrorKind::OutcomeUnknown)), now or in an earlier post
    /// ([`Poisoned`](PostErrorKind::Poisoned)).
    Device,
    /// The crate rejected a work request that does not fit the queue, its buffers or the remote
    /// slice.
    Invalid,
}

impl Refusal {
    /// All groups.
    pub const ALL: [Refusal; 5] = [
        Refusal::QueueFull,
        Refusal::CqFull,
        Refusal::DeviceFull,
        Refusal::Device,
        Refusal::Invalid,
    ];
}

impl PostErrorKind {
    /// The group of the reason, for counts.
    pub fn group(&self) -> Refusal {
        match self {
            PostErrorKind::QueueFull { .. } => Refusal::QueueFull,
            PostErrorKind::CqFull { .. } => Refusal::CqFull,
            PostErrorKind::Refused { errno: libc::ENOMEM | libc::ENOSPC } => Refusal::DeviceFull,
            PostErrorKind::Refused { .. }
            | PostErrorKind::OutcomeUnknown { .. }
            | PostErrorKind::Poisoned
            | PostErrorKind::NotOnIwarp
            | PostErrorKind::InlineInvOnSiw
            | PostErrorKind::FencedReadOnSiw
            | PostErrorKind::EmptyReadOnSiw => Refusal::Device,
            _ => Refusal::Invalid,
        }
    }
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
                 part of the slice, or into more buffers)"
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
                 the pool that the queue was created with)",
            ),
            PostErrorKind::NoBuffer => f.write_str(
                "a receive of a shared receive queue needs a buffer (take one of the pool that the \
                 queue was created with)",
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
                "the memory window was allocated for another queue pair, or became invalid when this \
                 queue pair was reset or could not be destroyed (allocate one by `alloc_mw` of this \
                 queue pair)",
            ),
            PostErrorKind::LocalInvOnSoftRoce => f.write_str(
                "LOCAL_INV of a memory window is refused on Soft-RoCE, where it crashes the kernel \
                 if a message of the peer has invalidated the key (destroy the window and allocate \
                 another, or lend it with `BindMw::lend` and have the peer invalidate it)",
            ),
            PostErrorKind::Poisoned => f.write_str(
                "an earlier post had no known outcome, or the device did not enter the error state: \
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
