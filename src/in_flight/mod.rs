//! What the device owns, and how it comes back.
//!
//! Two kinds of books. Where every work request completes, the handle is the `wr_id` and there is
//! nothing to search: [`handles`]. Where only some complete, a ring holds the entries, and a completion
//! releases all up to its own: [`ring`]. Both count what is outstanding, because devices free slots
//! before their completions are polled (R9.7) and a completion queue must not overrun (R9.9).

#![allow(unsafe_code)] // owns entries as words

pub(crate) mod books;
pub(crate) mod handles;
mod ids;
mod pending;
mod rejected;
pub(crate) mod ring;
#[cfg(all(test, feature = "loopback"))]
mod tests;

pub(crate) use books::{Books, Counter, Quiet};
pub use rejected::{PostError, PostErrorKind, Rejected};

use std::sync::Arc;

use crate::entry::Entry;
use crate::profile::{Selective, SignalAll};
use crate::sys::types::{ibv_send_flags, ibv_send_wr};

/// Chooses the books of a send queue by how it signals.
#[doc(hidden)]
pub trait SendMode {
    type Books<E: Entry>: SendBooks<E>;
    /// `sq_sig_all` of `ibv_qp_init_attr`.
    const SIG_ALL: bool;
    /// What the last work request of a list carries unless told otherwise.
    const SIGNAL_LAST: u32;
}

impl SendMode for SignalAll {
    type Books<E: Entry> = handles::Handles<E>;
    const SIG_ALL: bool = true;
    const SIGNAL_LAST: u32 = 0;
}

impl SendMode for Selective {
    type Books<E: Entry> = ring::Ring<E>;
    const SIG_ALL: bool = false;
    const SIGNAL_LAST: u32 = ibv_send_flags::IBV_SEND_SIGNALED.0;
}

/// Most work requests of a chain that a macro posts.
pub(crate) const MOST: u32 = 128;

/// The books of a send queue.
#[doc(hidden)]
pub trait SendBooks<E: Entry> {
    /// Whether the header of an entry shows that the device has it (a ring needs no mark).
    const MARKED: bool;

    /// # Safety
    /// `books` outlives the value.
    unsafe fn new(books: *const Books, depth: u32) -> Self;

    /// The address that stands in for a buffer where there is none, and to compare attachments.
    fn books(&self) -> *const Books;

    /// What the headers of buffers show that were posted here last and need no look.
    fn mark(&self) -> u64;

    /// Moves `n` work requests to the device, if as many fit by what is known already. If not, `unspend`
    /// must follow. (For a few that do fit it may say no.)
    fn spend(&mut self, n: u32) -> bool;

    /// Undoes a `spend` that said no.
    fn unspend(&mut self, n: u32);

    /// Moves `n` work requests to the device, of which `reserve` just said that they fit.
    fn spend_reserved(&mut self, n: u32);

    /// Whether `n` more work requests fit. May look at what was polled, but only when it must.
    fn reserve(&mut self, n: u32) -> bool;

    /// How many work requests fit by what is known already; none if it is negative.
    fn known_room(&self) -> i32;

    /// How many work requests fit now.
    fn room(&mut self) -> u32;

    /// Where the entries of a list that is being put together are noted, and what names them.
    type Cursor: Copy;

    /// The cursor of a list that begins now; good until a work request is spent.
    fn cursor(&self) -> Self::Cursor;

    /// The cursor of the next work request.
    fn advance(cursor: &mut Self::Cursor);

    /// The wr_id of the `i`th work request from `cursor` on whose entry is `word` (0 if none).
    fn wr_id(&self, cursor: &Self::Cursor, i: u32, word: usize) -> u64;

    /// Notes the entry (0 if none) of the `i`th work request from `cursor` on. It stays the caller's until `spend`.
    ///
    /// # Safety
    /// The cursor is good, and the list has no more work requests than `MOST`, or than there is room for.
    unsafe fn enter(&mut self, cursor: &Self::Cursor, i: u32, word: usize);

    /// The word that was entered as the `i`th of a list; `wr` is its work request.
    ///
    /// # Safety
    /// It was entered, and `wr` emitted.
    unsafe fn word(&self, i: u32, wr: *mut ibv_send_wr) -> usize;

    /// Takes back the entries of the last `n - accepted` of `n` committed work requests.
    ///
    /// # Safety
    /// The device has not accepted them; `rejected` is the first of them, in a valid list.
    unsafe fn take_back(
        &mut self,
        n: u32,
        accepted: u32,
        rejected: *mut ibv_send_wr,
    ) -> Rejected<E>;

    /// No more posts until the queue is reset: what was posted stays with the device.
    fn poison(&mut self);

    /// Whether only a sentinel can tell that all is done (some work requests do not complete).
    fn needs_sentinel(&self) -> bool;

    /// Enters a work request without a buffer beyond the capacity, and gives its wr_id.
    fn push_sentinel(&mut self) -> u64;

    /// Takes it back: it was not posted.
    fn pop_sentinel(&mut self);

    /// The entries that the completion with this wr_id releases; `None` if it is not of this queue, or
    /// carries its entry itself.
    fn release_if_owned(&mut self, wr_id: u64) -> Option<ring::Released<'_, E>>;

    /// The entries that completions released that were dropped; `None` if none was.
    fn release_dropped(&mut self) -> Option<ring::Released<'_, E>>;

    /// Whether `poison` was called.
    fn is_poisoned(&self) -> bool;

    /// Work requests posted since the queue was made, wrapping.
    fn posted(&self) -> u32;

    /// Those of them whose entry is in the wr_id, so that the shared books count their completions.
    fn posted_as_wr_ids(&self) -> u32;

    /// Work requests known to have completed since the queue was made, wrapping.
    fn completed(&self) -> u32;

    /// Opens new books after a reset; `release_all` has been called. The completions of `left` work requests of
    /// before may still be in the completion queue.
    ///
    /// # Safety
    /// `books` outlives the value.
    unsafe fn reopen(&mut self, old: &Arc<Books>, left: u32, books: *const Books, depth: u32);

    /// Gives up all entries that are kept here, because the queue is gone or reset.
    fn release_all(&mut self) -> Vec<E>;
}
