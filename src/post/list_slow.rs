//! Cold functions of lists of run-time length: more room is needed than was known, buffers need
//! inspection, there is a fault, or a list is not posted.
//!
//! They are `extern "C"` because such functions do not unwind. C code does not call them.

#![allow(unsafe_code, improper_ctypes_definitions)] // goes through lists that were emitted

use std::ptr;

use crate::in_flight::InFlight;
use crate::post::path::{Cursor, Posted};
use crate::post::queue::{Kind, Queue};
use crate::post::refusal::{PostError, Rejected};
use crate::post::slow::{Entered, take_entries};
use crate::sys::data::Link;
use crate::terms::post_error::PostErrorKind;
use crate::work::fault::Faults;
use crate::work::request::Found;

/// How many work requests a list that has `count` can have in all, when it has used the room that
/// was known.
#[cold]
#[inline(never)]
pub(super) extern "C" fn more_room<Q: Kind>(
    queue: &mut Queue<Q>,
    count: u32,
    capacity: u32,
) -> u32 {
    crate::cold_calls::note();
    queue.in_flight.room().clamp(count, capacity)
}

/// Why a list only has room for `most` work requests.
#[cold]
#[inline(never)]
pub(super) extern "C" fn why_full<Q: Kind>(
    queue: &mut Queue<Q>,
    most: u32,
    capacity: u32,
) -> PostErrorKind {
    let asked = most + 1;
    let kind = match queue.in_flight.why_full(asked) {
        PostErrorKind::CqFull { .. } if most != capacity => {
            PostErrorKind::CqFull { asked, room: most }
        }
        _ => PostErrorKind::QueueFull { asked, room: most },
    };
    queue.count_refused(kind);
    kind
}

/// Why the `i`th work request of a list is rejected. If it is not, marks its buffer as owned by the
/// queue.
///
/// # Safety
/// `wr` is that work request, emitted and entered, and the caller owns its entry.
#[cold]
#[inline(never)]
pub(super) unsafe extern "C" fn look_at_one<Q: Kind>(
    queue: &Queue<Q>,
    found: Found,
    i: u32,
    wr: *mut Q::Wr,
    slot_sges: usize,
) -> Option<PostErrorKind> {
    crate::cold_calls::note();
    // SAFETY: the work request is emitted and entered, and the caller owns its entry.
    let wr = unsafe { Entered::new(i, wr) };
    let mut faults = Faults::of(found);
    wr.look(queue, found, &mut faults);
    let kind = faults.first(Q::MAX_SGE.min(slot_sges as u32), Q::MAX_INLINE);
    match kind {
        None => wr.give(queue),
        Some(kind) => queue.count_refused(kind),
    }
    kind
}

/// The result of `look_through`.
pub(super) struct Looked<'q, Q: Kind> {
    /// The queue that was passed.
    pub queue: &'q mut Queue<Q>,
    /// The number of work requests that are kept, from the first on.
    pub kept: u32,
    /// The position after them.
    pub cursor: Cursor<Q>,
    pub result: Posted<Q>,
}

/// Inspects each of the `n` work requests of a list, and keeps those before the first that is
/// rejected. One more with `entry` was emitted after them, if something was `found` besides
/// mismatched buffers.
///
/// # Safety
/// The work requests from `first` on were emitted and entered, each is linked to the next, and the
/// caller gives up ownership of their entries. `out` is writable.
#[cold]
#[inline(never)]
pub(super) unsafe extern "C" fn look_through<'q, Q: Kind>(
    queue: &'q mut Queue<Q>,
    first: *mut Q::Wr,
    n: u32,
    slot_sges: usize,
    found: Found,
    entry: Option<Q::Entry>,
    out: *mut Looked<'q, Q>,
) {
    crate::cold_calls::note();
    let (mut kept, mut wr, mut wrong) = (0, first, None);
    let mut cursor = queue.in_flight.cursor();
    let mut rejected = Rejected::new();
    // SAFETY: `n` work requests were emitted and entered, and their entries were given up to this
    // function. If there is a fault, one more is after them.
    unsafe {
        for i in 0..n {
            wrong = wrong.or_else(|| look_at_one(queue, Found::MISMATCH, i, wr, slot_sges));
            match wrong {
                None => {
                    kept += 1;
                    Q::InFlight::advance(&mut cursor);
                }
                Some(_) => Entered::new(i, wr).reject(queue, &mut rejected),
            }
            wr = (*Link::head(wr)).next;
        }
        if found.faults != 0 {
            wrong = wrong.or_else(|| look_at_one(queue, found, n, wr, slot_sges));
            rejected.push_entry(entry);
        }
        let result = match wrong {
            None => Ok(()),
            Some(kind) => Err(PostError::refused(Some(queue), kind, kept, rejected)),
        };
        out.write(Looked { queue, kept, cursor, result });
    }
}

/// Drops the entries of a list that is not posted. It is one call, so that code that drops the list
/// is small.
///
/// # Safety
/// The work requests from `first` to `last` were emitted and entered, and the caller gives up
/// ownership of their entries.
#[cold]
#[inline(never)]
pub(super) unsafe fn drop_list<Q: Kind>(queue: &Queue<Q>, first: *mut Q::Wr, last: *mut Q::Wr) {
    // SAFETY: the list is emitted, and only this function owns its entries.
    unsafe {
        (*Link::head(last)).next = ptr::null_mut();
        // (The user's `Drop` may panic here.)
        drop(take_entries(queue, Entered::all(first)));
    }
}

/// The error of a work request that is not added to a list that has `at` work requests.
#[cold]
#[inline(never)]
pub(super) extern "C" fn not_pushed<Q: Kind>(
    at: u32,
    kind: PostErrorKind,
    entry: Option<Q::Entry>,
) -> PostError<Q::Entry> {
    let mut rejected = Rejected::new();
    rejected.push_entry(entry);
    PostError::refused::<Q>(None, kind, at, rejected)
}
