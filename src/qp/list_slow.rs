//! What becomes of a list of run-time length that is not straightforward: no room by what was known, buffers to look at,
//! something wrong, or a list that is not posted.

#![allow(unsafe_code)] // goes through lists that were emitted

use std::ptr;

use super::send::Cursor;
use super::send_slow::{queue, words};
use super::{Core, SendQueue};
use crate::buf::header::{Header, word};
use crate::entry::Entry;
use crate::in_flight::{PostError, PostErrorKind, Rejected, SendBooks};
use crate::limits::Limit;
use crate::profile::Profile;
use crate::sys::types::ibv_send_wr;
use crate::wr::chain;
use crate::wr::port::Findings;

const VERB: &str = "ibv_post_send";

/// How many work requests a list of `count` can have in all, now that as many are there as were known to fit.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) extern "C" fn more_room<P: Profile>(
    core: &mut Core<P>,
    count: u32,
    capacity: u32,
) -> u32 {
    if count == capacity { capacity } else { core.send.room().clamp(count, capacity) }
}

/// What is wrong with the `i`th work request of a list, which is emitted and entered. If nothing is, its buffer shows that
/// the queue has it.
///
/// # Safety
/// `wr` is that work request, and its entry the caller's.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) unsafe extern "C" fn look_at<P: Profile>(
    core: &Core<P>,
    findings: Findings,
    i: u32,
    wr: *mut ibv_send_wr,
    slot_sges: usize,
) -> Option<PostErrorKind> {
    let books = &core.send;
    // SAFETY: it is emitted.
    unsafe { (*wr).next = ptr::null_mut() };
    // SAFETY: a list of one.
    unsafe { chain::drop_empty(wr) };
    // SAFETY: entered as the `i`th.
    let word = unsafe { books.word(i, wr) };
    // SAFETY: the caller's contract.
    let faults =
        unsafe { findings.settle_sends::<P::Entry>(queue(books), [(wr, word)].into_iter()) };
    let kind = faults.first(P::MaxSendSge::VALUE.min(slot_sges as u32), P::MaxInline::VALUE);
    if kind.is_none() && SendQueue::<P>::MARKED && word != 0 {
        // SAFETY: the caller has the entry, so the header is alive.
        unsafe { (*word::address::<Header>(word)).give_attached() };
    }
    kind
}

/// What `look_through` left of a list.
pub(super) struct Looked<'c, P: Profile> {
    /// That of the queue, as it was given.
    pub core: &'c mut Core<P>,
    /// Work requests, the first ones.
    pub kept: u32,
    /// Behind them.
    pub cursor: Cursor<P>,
    pub result: Result<(), PostError<P::Entry>>,
}

/// Looks at each of the `n` work requests of a list, and keeps those before the first with which something is wrong. One
/// with `entry` was emitted behind them, if `findings` say what is wrong with it.
///
/// # Safety
/// The work requests from `first` on were emitted and entered, each linked to the next, and their entries are given up;
/// `out` is writable.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) unsafe extern "C" fn look_through<'c, P: Profile>(
    core: &'c mut Core<P>,
    first: *mut ibv_send_wr,
    n: u32,
    slot_sges: usize,
    findings: Findings,
    entry: Option<P::Entry>,
    out: *mut Looked<'c, P>,
) {
    let books = &core.send;
    let (mut kept, mut wr, mut wrong, mut cursor) = (0, first, None, books.cursor());
    let mut rejected = Rejected::new();
    for i in 0..n {
        // SAFETY: it was linked, and is given an end only while it is looked at.
        let next = unsafe { (*wr).next };
        if wrong.is_none() {
            // SAFETY: emitted and entered as the `i`th; its entry is given up to us.
            wrong = unsafe { look_at::<P>(core, Findings::LOOK, i, wr, slot_sges) };
            // SAFETY: as above.
            unsafe { (*wr).next = next };
        }
        match wrong {
            None => {
                kept += 1;
                SendQueue::<P>::advance(&mut cursor);
            }
            Some(_) => {
                // SAFETY: as above.
                let word = unsafe { books.word(i, wr) };
                // SAFETY: as above.
                unsafe { rejected.push(word) };
            }
        }
        wr = next;
    }
    if findings.is_fault() {
        if wrong.is_none() {
            // SAFETY: emitted and entered behind the others, to which it is linked.
            wrong = unsafe { look_at::<P>(core, findings, n, wr, slot_sges) };
        }
        rejected.push_entry(entry);
    }
    let result = match wrong {
        None => Ok(()),
        Some(kind) => Err(PostError::new(VERB, kind, kept, rejected)),
    };
    // SAFETY: the caller's contract.
    unsafe { out.write(Looked { core, kept, cursor, result }) };
}

/// Drops the entries of a list that is not posted: one call, so that what drops the list is small.
///
/// # Safety
/// The work requests from `first` to `last` were emitted and entered, and their entries are given up.
#[cold]
#[inline(never)]
pub(super) unsafe fn drop_list<P: Profile>(
    core: &Core<P>,
    first: *mut ibv_send_wr,
    last: *mut ibv_send_wr,
) {
    // SAFETY: the caller's contract.
    unsafe { (*last).next = ptr::null_mut() };
    let mut rejected = Rejected::<P::Entry>::new();
    // SAFETY: as above.
    for word in unsafe { words(&core.send, first) } {
        // SAFETY: as above.
        unsafe { rejected.push(word) };
    }
    // Here, where the user's `Drop` may panic.
    drop(rejected);
}

#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) extern "C" fn not_pushed<E: Entry>(
    verb: &'static str,
    at: u32,
    kind: PostErrorKind,
    entry: Option<E>,
) -> PostError<E> {
    let mut rejected = Rejected::new();
    rejected.push_entry(entry);
    PostError::new(verb, kind, at, rejected)
}

/// As `not_pushed`, where only `room` work requests fit, and are there.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) extern "C" fn full<E: Entry>(
    verb: &'static str,
    room: u32,
    entry: Option<E>,
) -> PostError<E> {
    not_pushed(verb, room, PostErrorKind::QueueFull { asked: room + 1, room }, entry)
}
