//! What becomes of a post of sends that is not straightforward: buffers to look at, no room by what was known,
//! something wrong, or a refusal of the device's.

#![allow(unsafe_code)] // goes through lists that were emitted

use std::ptr;

use super::send::doorbell;
use super::{Core, SendQueue};
use crate::buf::header::{Header, word};
use crate::entry::Entry;
use crate::in_flight::{PostError, PostErrorKind, Rejected, SendBooks};
use crate::limits::Limit;
use crate::profile::Profile;
use crate::sys::types::ibv_send_wr;
use crate::wr::chain::{self, index_of};
use crate::wr::port::{Faults, Findings, Queue};

const VERB: &str = "ibv_post_send";

/// The rest of a post that is not straightforward: buffers to look at, no room by what was known, or something wrong.
///
/// # Safety
/// As for `post_list`; what `spend` took is still spent if there is nothing to look at. `out` is writable, and
/// written if the answer is no.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) unsafe extern "C" fn slow<P: Profile>(
    core: &mut Core<P>,
    findings: Findings,
    n: u32,
    first: *mut ibv_send_wr,
    out: *mut PostError<P::Entry>,
) -> bool {
    let is_clear = findings.is_clear();
    if is_clear {
        core.send.unspend(n);
    }
    // Most often there is only room to be found.
    if !(is_clear && core.send.reserve(n)) {
        // SAFETY: the caller's contract.
        let faults = unsafe { settle(&core.send, findings, first) };
        if !faults.is_none() || !core.send.reserve(n) {
            // SAFETY: as above.
            unsafe { refuse(core, faults, n, first, out) };
            return false;
        }
    }
    if SendQueue::<P>::MARKED {
        // SAFETY: as above.
        for word in unsafe { words(&core.send, first) }.filter(|&word| word != 0) {
            // SAFETY: the list's entries are ours until it is posted, so the header is alive.
            unsafe { (*word::address::<Header>(word)).give_attached() };
        }
    }
    core.send.spend_reserved(n);
    // SAFETY: the entries are committed and the list is linked.
    match unsafe { doorbell(core, n, first) } {
        Ok(()) => true,
        Err(error) => {
            // SAFETY: the caller's contract.
            unsafe { out.write(error) };
            false
        }
    }
}

/// The words of the entries of a list, 0 where there is none.
///
/// # Safety
/// The list was put together for these books and is not spent.
pub(super) unsafe fn words<E: Entry>(
    books: &impl SendBooks<E>,
    first: *mut ibv_send_wr,
) -> impl Iterator<Item = usize> {
    // SAFETY: the caller's contract.
    let list = unsafe { chain::iter(first) }.zip(0..);
    // SAFETY: as above.
    list.map(|(wr, i)| unsafe { books.word(i, wr) })
}

/// Looks at the buffers of a list of sends, and leaves out elements of no bytes.
///
/// # Safety
/// As for `words`.
pub(super) unsafe fn settle<E: Entry>(
    books: &impl SendBooks<E>,
    findings: Findings,
    first: *mut ibv_send_wr,
) -> Faults {
    // SAFETY: the caller's contract.
    unsafe { chain::drop_empty(first) };
    // SAFETY: as above.
    let words = unsafe { words(books, first) };
    // SAFETY: as above.
    let wrs = unsafe { chain::iter(first) }.zip(words);
    // SAFETY: the entries are the caller's until the list is posted.
    unsafe { findings.settle_sends::<E>(queue(books), wrs) }
}

/// What buffers are looked at for.
pub(super) fn queue<E: Entry>(books: &impl SendBooks<E>) -> Queue {
    Queue { books: books.books(), mark: books.mark(), home: ptr::null() }
}

/// The list was not posted: no room, or something is wrong with it.
///
/// # Safety
/// As for `slow`.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn refuse<P: Profile>(
    core: &mut Core<P>,
    faults: Faults,
    n: u32,
    first: *mut ibv_send_wr,
    out: *mut PostError<P::Entry>,
) {
    let mut rejected = Rejected::new();
    // SAFETY: the caller's contract.
    for word in unsafe { words(&core.send, first) } {
        // SAFETY: the entry was given up by the post.
        unsafe { rejected.push(word) };
    }
    let kind = match faults.first(P::MaxSendSge::VALUE, P::MaxInline::VALUE) {
        Some(kind) => kind,
        None if core.send.is_poisoned() => PostErrorKind::Poisoned,
        None => PostErrorKind::QueueFull { asked: n, room: core.send.room() },
    };
    // SAFETY: the caller's `out` is writable.
    unsafe { out.write(PostError::new(VERB, kind, 0, rejected)) };
}

/// # Safety
/// The device refused the list `first` of `n`, from `bad` on.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) unsafe extern "C" fn send_failed<P: Profile>(
    core: &mut Core<P>,
    n: u32,
    first: *mut ibv_send_wr,
    bad: *mut ibv_send_wr,
    errno: i32,
    out: *mut PostError<P::Entry>,
) {
    // SAFETY: a valid list.
    let Some(accepted) = (unsafe { index_of(first, bad) }) else {
        core.send.poison();
        let kind = PostErrorKind::OutcomeUnknown { errno };
        // SAFETY: the caller's `out` is writable.
        unsafe { out.write(PostError::new(VERB, kind, 0, Rejected::new())) };
        return;
    };
    // SAFETY: the device has not accepted those from `bad` on.
    let rejected = unsafe { core.send.take_back(n, accepted, bad) };
    // SAFETY: the caller's `out` is writable.
    unsafe {
        out.write(PostError::new(VERB, PostErrorKind::Refused { errno }, accepted, rejected))
    };
}
