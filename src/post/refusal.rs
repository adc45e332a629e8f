//! A rejected post: how many work requests the device accepted, and the entries of the others.

#![allow(unsafe_code)] // owns entries as linked words; reads emitted work requests

use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

use crate::cold::drop_each;
use crate::memory::entry::Entry;
use crate::memory::header::{Header, word};
use crate::terms::post_error::{PostErrorKind, Refusal};
use crate::terms::refused::drops_its_object;

/// An iterator over the entries that the device did not accept, in posting order. Returned by
/// [`PostError::into_rejected`] ([R9.1](crate::guide::rules#r9-1)).
///
/// They are linked through their headers, so a rejected post does not allocate.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::post::Rejected;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// # let region = pd.register::<RemoteWrite>(256)?;
/// # let at = region.remote().write();
/// let mut list = SendSlots::<16>::new();
/// let mut list = a.send_list(&mut list);
/// let mut refused: Option<Rejected<Buf>> = None;
/// while refused.is_none() {
///     let buf = pool.take().ok_or("no buffer")?;
///     refused = list.push(wr::RdmaWrite::new(buf, at)).err().map(PostError::into_rejected);
/// }
/// assert_eq!((list.len(), refused.into_iter().flatten().count()), (8, 1)); // the ninth was rejected
/// list.post()?;
/// # proverbs::loopback::poll(&mut cq, 8)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Rejected<E: Entry> {
    // Invariants:
    // - `first` is 0, or the word of an entry of type `E` that this list owns, and so on along
    //   `link`.
    // - The device owns none of the entries.
    first: usize,
    last: usize,
    _owns: PhantomData<E>,
}

impl<E: Entry> Rejected<E> {
    pub(crate) fn new() -> Self {
        Rejected { first: 0, last: 0, _owns: PhantomData }
    }

    /// Appends an entry, given as a word. 0 and a word without a buffer add nothing.
    ///
    /// # Safety
    /// A word with a buffer belongs to an `E` that the caller gives up. Its header is alive, and
    /// the device does not own it.
    pub(crate) unsafe fn push(&mut self, entry: usize) {
        if entry == 0 || word::is_none(entry) {
            return;
        }
        let entry = word::without_tags(entry);
        let header = word::address::<Header>(entry);
        // SAFETY: this list owns the entry from now on, like the last one, so their headers are
        // alive.
        unsafe {
            (*header).forget_queue();
            (*header).cut_len();
            if self.first == 0 {
                self.first = entry;
            } else {
                (*word::address::<Header>(self.last)).set_next_refused(entry);
            }
        }
        self.last = entry;
    }

    /// Appends an entry.
    pub(crate) fn push_entry(&mut self, entry: Option<E>) {
        if let Some(entry) = entry {
            // SAFETY: the word belongs to an `E` that is given up.
            unsafe { self.push(ManuallyDrop::new(entry).word()) };
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
        // SAFETY: the list owns the entry until it is returned here, so its header is alive.
        unsafe {
            let header = word::address::<Header>(entry);
            self.first = (*header).next_refused();
            (*header).forget_queue();
            let mut entry = E::from_word(entry);
            // The list contains only rejected entries.
            entry.refused();
            Some(entry)
        }
    }
}

impl<E: Entry> Drop for Rejected<E> {
    fn drop(&mut self) {
        drop_each(self);
    }
}

// SAFETY: the list owns entries of type `E`.
unsafe impl<E: Entry + Send> Send for Rejected<E> {}

/// A post that was rejected, completely or from some work request on (the return value and `bad_wr`
/// of ibv_post_send(3)).
///
/// The device owns the first [`accepted`](PostError::accepted) work requests. This error contains
/// the entries of the others ([R9.1](crate::guide::rules#r9-1)). Dropping it drops them, and their
/// buffers return to their pools.
///
/// `?` converts it into `Box<dyn Error + Send + Sync>`, and with the features `anyhow` and `eyre`
/// into their errors. The conversion works for every type of entry. It drops the entries and keeps
/// the [`PostFailure`], which is the [`std::error::Error`], as [`Refused`](crate::Refused)
/// explains.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::post::PostErrorKind;
/// profile! { Wide { max_send_sge: 2, max_inline: 16, entry: BufList } }
///
/// # let proverbs::loopback::Pair { mut a, pool, .. } = proverbs::loopback::pair_of::<Wide>()?;
/// let error: PostError<BufList> = a.post_send(wr::Send::inline_slice(&[0; 17])).unwrap_err();
/// assert_eq!(error.to_string(), "ibv_post_send: work request 0: an inline payload of 17 bytes exceeds \
///     the queue pair's max_inline of 16 (ask for more in the profile, or send from a buffer)");
/// assert_eq!((error.verb(), error.kind()), ("ibv_post_send", PostErrorKind::InlineTooLong { asked: 17, max: 16 }));
/// assert!(!error.is_full()); // polling does not help
///
/// let three: BufList = (0..3).filter_map(|_| pool.take()).collect();
/// let error = a.post_send(wr::Send::new(three)).unwrap_err();
/// assert_eq!((error.kind(), error.accepted()), (PostErrorKind::TooManySge { asked: 3, max: 2 }, 0));
/// let back: Vec<BufList> = error.into_rejected().collect();
/// assert_eq!((back.len(), back[0].len()), (1, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PostError<E: Entry> {
    // Without niches, so that each path of a post knows at compile time whether there is an error.
    failure: Plain<PostFailure>,
    rejected: Rejected<E>,
}

/// Why a post was rejected: a [`PostError`] without the entries, so that it fits in every error
/// type.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::post::PostFailure;
/// # let proverbs::loopback::Pair { mut a, pool, .. } = proverbs::loopback::pair()?;
/// let failure: PostFailure = loop {
///     if let Err(error) = a.post_send(wr::Send::new(pool.take().ok_or("no buffer")?)) {
///         break error.into_error(); // the buffer returns to its pool
///     }
/// };
/// assert!(failure.is_full());
/// assert_eq!((failure.verb(), failure.accepted()), ("ibv_post_send", 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PostFailure {
    verb: &'static str,
    kind: PostErrorKind,
    accepted: u32,
}

impl PostFailure {
    /// The reason.
    pub fn kind(&self) -> PostErrorKind {
        self.kind
    }

    /// The verb, by its C name.
    pub fn verb(&self) -> &'static str {
        self.verb
    }

    /// How many work requests of the list the device accepted: the index of C's `bad_wr`.
    pub fn accepted(&self) -> usize {
        self.accepted as usize
    }

    /// Whether the queue or its completion queue did not have room, by this crate's count or by the
    /// device's error: ENOMEM, or ENOSPC from a session on librxe.
    pub fn is_full(&self) -> bool {
        use Refusal::{CqFull, DeviceFull, QueueFull};
        matches!(self.kind.group(), QueueFull | CqFull | DeviceFull)
    }
}

impl fmt::Display for PostFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: work request {}: {}", self.verb, self.accepted, self.kind)
    }
}

impl_debug!(PostFailure, |it| "{it}");

impl std::error::Error for PostFailure {}

impl<E: Entry> PostError<E> {
    #[cold]
    pub(crate) fn new(
        verb: &'static str,
        kind: PostErrorKind,
        accepted: u32,
        rejected: Rejected<E>,
    ) -> Self {
        PostError { failure: Plain::new(PostFailure { verb, kind, accepted }), rejected }
    }

    /// The same failure with another verb.
    pub(super) fn of(self, verb: &'static str) -> Self {
        let failure = PostFailure { verb, ..*self.error() };
        PostError { failure: Plain::new(failure), ..self }
    }

    /// The reason.
    pub fn kind(&self) -> PostErrorKind {
        self.error().kind()
    }

    /// The verb, by its C name.
    pub fn verb(&self) -> &'static str {
        self.error().verb()
    }

    /// How many work requests of the list the device accepted: the index of C's `bad_wr`.
    pub fn accepted(&self) -> usize {
        self.error().accepted()
    }

    /// Whether the queue did not have room: [`PostFailure::is_full`].
    pub fn is_full(&self) -> bool {
        self.error().is_full()
    }

    /// The entries of the work requests that the device did not accept, in order.
    pub fn into_rejected(self) -> Rejected<E> {
        self.rejected
    }

    /// The error without its entries.
    pub fn error(&self) -> &PostFailure {
        self.failure.get()
    }

    /// Returns the error without its entries. They are dropped, and their buffers return to their
    /// pools.
    pub fn into_error(self) -> PostFailure {
        *self.error()
    }

    /// Returns the entries, like [`into_rejected`](Self::into_rejected), and the error without
    /// them.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, pool, .. } = proverbs::loopback::pair()?;
    /// let error = loop {
    ///     if let Err(error) = a.post_send(wr::Send::new(pool.take().ok_or("no buffer")?)) {
    ///         break error;
    ///     }
    /// };
    /// let (rejected, error) = error.into_parts();
    /// assert!(error.is_full());
    /// let again: Vec<Buf> = rejected.collect();
    /// assert_eq!(again.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_parts(self) -> (Rejected<E>, PostFailure) {
        let failure = *self.error();
        (self.rejected, failure)
    }
}

impl<E: Entry> fmt::Display for PostError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl_debug!([E: Entry] PostError<E>, |it| "{it}");

drops_its_object!([E: Entry] PostError<E>);

/// A value without the niche of `T`.
///
/// `Result<(), PostError>` would keep its discriminant in a niche of the error's fields, so each
/// path through a post would write them. Without niches the discriminant is a separate byte, a
/// constant on each path. (With the queue beside `bad_wr`, this saves 4 instructions per post.)
#[derive(Clone, Copy)]
struct Plain<T: Copy>(MaybeUninit<T>);

impl<T: Copy> Plain<T> {
    fn new(value: T) -> Self {
        Plain(MaybeUninit::new(value))
    }

    fn get(&self) -> &T {
        // SAFETY: `new` wrote it, and nothing else creates one.
        unsafe { self.0.assume_init_ref() }
    }
}

impl_debug!([E: Entry] Rejected<E>, |it|
    "Rejected({})", if it.first == 0 { "none" } else { ".." });
