//! A refused post: why, how far it came, and the entries that stayed with the program.

#![allow(unsafe_code)] // owns entries as linked words

use std::fmt;
use std::marker::PhantomData;

use crate::buf::header::{Header, word};
use crate::cold::{Plain, drop_each};
use crate::entry::Entry;
use crate::error::Errno;

/// The entries that the device did not take, in posting order: an iterator, from
/// [`PostError::into_rejected`] (R9.1).
///
/// They are linked through their headers, so that a refused post allocates nothing.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends()?;
/// # let region = pd.register::<RemoteWrite>(256)?;
/// # let at = region.remote().write();
/// let mut list = SendSlots::<16>::new();
/// let mut list = a.send_list(&mut list);
/// let mut refused: Option<Rejected<Buf>> = None;
/// while refused.is_none() {
///     let buf = pool.take().ok_or("no buffer")?;
///     refused = list.push(RdmaWrite::new(buf, at)).err().map(PostError::into_rejected);
/// }
/// assert_eq!((list.len(), refused.into_iter().flatten().count()), (8, 1)); // the ninth came back
/// list.post()?;
/// # proverbs::guide::poll(&mut cq, 8)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Invariants
/// `first` is 0 or the word of an entry of type `E` that this list owns, and so on along `link`.
pub struct Rejected<E: Entry> {
    first: usize,
    last: usize,
    _owns: PhantomData<E>,
}

impl<E: Entry> Rejected<E> {
    pub(crate) fn new() -> Self {
        Rejected { first: 0, last: 0, _owns: PhantomData }
    }

    /// Adds an entry at the end, given as a word; 0 and a word without a buffer add nothing.
    ///
    /// # Safety
    /// A word with a buffer is that of an `E` that the caller gives up, and its header is alive.
    pub(crate) unsafe fn push(&mut self, entry: usize) {
        if entry == 0 || word::is_none(entry) {
            return;
        }
        let entry = entry & !(word::RECEIVE | word::DATAGRAM);
        let header = word::address::<Header>(entry);
        // SAFETY: the entry is owned by this list from now on, so its header is alive.
        unsafe { (*header).forget_queue() };
        // SAFETY: as above.
        unsafe { (*header).set_link(0) };
        if self.first == 0 {
            self.first = entry;
        } else {
            let last = word::address::<Header>(self.last);
            // SAFETY: the last entry is owned by this list.
            unsafe { (*last).set_link(entry) };
        }
        self.last = entry;
    }

    /// Adds an entry at the end.
    pub(crate) fn push_entry(&mut self, entry: Option<E>) {
        if let Some(entry) = entry {
            // SAFETY: the word is that of an `E`, given up.
            unsafe { self.push(entry.into_word()) };
        }
    }
}

impl<E: Entry> Iterator for Rejected<E> {
    type Item = E;

    fn next(&mut self) -> Option<E> {
        if self.first == 0 {
            return None;
        }
        let entry = self.first;
        let header = word::address::<Header>(entry);
        // SAFETY: the list owns the entry, so its header is alive.
        self.first = unsafe { (*header).link() };
        // SAFETY: the entry leaves the list here.
        Some(unsafe { E::from_word(entry) })
    }
}

impl<E: Entry> Drop for Rejected<E> {
    fn drop(&mut self) {
        drop_each(self);
    }
}

// SAFETY: the list owns entries of type `E`.
unsafe impl<E: Entry + Send> Send for Rejected<E> {}

/// A post that was refused, wholly or from some work request on (the return value and `bad_wr` of
/// ibv_post_send(3)).
///
/// The first [`accepted`](PostError::accepted) work requests are with the device; the entries of the
/// others are here (rules R9.1, R11.6). Dropping the error drops them.
///
/// ```
/// # use proverbs::*;
/// profile! { Wide { max_send_sge: 2, max_inline: 16, entry: BufList } }
///
/// # let proverbs::guide::Ends { mut a, pool, .. } = proverbs::guide::ends_of::<Wide>()?;
/// let error: PostError<BufList> = a.post_send(Send::inline_slice(&[0; 17])).unwrap_err();
/// assert_eq!(error.to_string(), "ibv_post_send: work request 0: inline payload exceeds the queue pair's 16 bytes");
/// assert_eq!((error.verb(), error.kind()), ("ibv_post_send", PostErrorKind::InlineTooLong { max: 16 }));
/// assert!(!error.is_full()); // polling will not help
///
/// let three: BufList = (0..3).filter_map(|_| pool.take()).collect();
/// let error = a.post_send(Send::new(three)).unwrap_err();
/// assert_eq!((error.kind(), error.accepted()), (PostErrorKind::TooManySge { max: 2 }, 0));
/// let back: Vec<BufList> = error.into_rejected().collect();
/// assert_eq!((back.len(), back[0].len()), (1, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PostError<E: Entry> {
    // Without niches, so that whether there is an error is a constant on each path of a post.
    verb: Plain<&'static str>,
    kind: Plain<PostErrorKind>,
    accepted: u32,
    rejected: Rejected<E>,
}

/// Why a post was refused: [`PostError::kind`] (ibv_post_send(3), R9.1).
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
    /// An RDMA READ brings a remote slice that is longer than what its buffers take.
    ExceedsBuffers {
        /// The length of the slice, bytes; 2^32 - 2 also stands for more.
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
    /// An earlier post ended with [`OutcomeUnknown`](PostErrorKind::OutcomeUnknown), or the connection was given up and the
    /// device did not take the error state: reset or destroy the queue.
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

impl<E: Entry> PostError<E> {
    #[cold]
    pub(crate) fn new(
        verb: &'static str,
        kind: PostErrorKind,
        accepted: u32,
        rejected: Rejected<E>,
    ) -> Self {
        PostError { verb: Plain::new(verb), kind: Plain::new(kind), accepted, rejected }
    }

    /// Why.
    pub fn kind(&self) -> PostErrorKind {
        self.kind.get()
    }

    /// The verb, as C names it.
    pub fn verb(&self) -> &'static str {
        self.verb.get()
    }

    /// How many work requests of the list the device took: the index of C's `bad_wr`.
    pub fn accepted(&self) -> usize {
        self.accepted as usize
    }

    /// The entries of the work requests that the device did not take, in order.
    pub fn into_rejected(self) -> Rejected<E> {
        self.rejected
    }

    /// Whether the queue had no room, by our count or by the device's.
    pub fn is_full(&self) -> bool {
        matches!(
            self.kind(),
            PostErrorKind::QueueFull { .. } | PostErrorKind::Refused { errno: libc::ENOMEM }
        )
    }
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

impl<E: Entry> fmt::Display for PostError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: work request {}: {}", self.verb(), self.accepted, self.kind())
    }
}

impl<E: Entry> fmt::Debug for PostError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<E: Entry> std::error::Error for PostError<E> {}
