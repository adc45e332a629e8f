//! What becomes of a list of receives that is not straightforward, as `list_slow` has it for sends.

#![allow(unsafe_code)] // goes through lists that were emitted

use std::ptr;

use super::Core;
use crate::buf::header::{Header, word};
use crate::entry::Owned;
use crate::in_flight::handles::{entry_of, take_back_from};
use crate::in_flight::{PostError, PostErrorKind, Rejected};
use crate::limits::Limit;
use crate::profile::Profile;
use crate::sys::types::ibv_recv_wr;
use crate::wr::port::Findings;

pub(super) const VERB: &str = "ibv_post_recv";

/// As for sends.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) extern "C" fn more_room<P: Profile>(
    core: &mut Core<P>,
    count: u32,
    capacity: u32,
) -> u32 {
    if count == capacity { capacity } else { core.recv.free().clamp(count, capacity) }
}

/// What is wrong with a receive that is emitted. If nothing is, its buffer shows that the queue has it.
///
/// # Safety
/// `wr` is that work request, and its entry the caller's.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) unsafe extern "C" fn look_at<P: Profile>(
    core: &Core<P>,
    findings: Findings,
    wr: *mut ibv_recv_wr,
    slot_sges: usize,
) -> Option<PostErrorKind>
where
    P::Entry: Owned,
{
    // SAFETY: the caller's contract.
    let word = unsafe { entry_of(wr) };
    // SAFETY: as above.
    let faults =
        unsafe { findings.settle_receives::<P::Entry>(core.recv.queue(), std::iter::once(word)) };
    let kind = faults.first(P::MaxRecvSge::VALUE.min(slot_sges as u32), 0);
    if kind.is_none() && word != 0 {
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
    pub result: Result<(), PostError<P::Entry>>,
}

/// As for sends.
///
/// # Safety
/// The work requests from `first` on were emitted, each linked to the next, and their entries are given up; `out` is
/// writable.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) unsafe extern "C" fn look_through<'c, P: Profile<Entry: Owned>>(
    core: &'c mut Core<P>,
    first: *mut ibv_recv_wr,
    n: u32,
    slot_sges: usize,
    findings: Findings,
    entry: Option<P::Entry>,
    out: *mut Looked<'c, P>,
) {
    let (mut kept, mut wr, mut wrong) = (0, first, None);
    let mut rejected = Rejected::new();
    for _ in 0..n {
        if wrong.is_none() {
            // SAFETY: emitted; its entry is given up to us.
            wrong = unsafe { look_at::<P>(core, Findings::LOOK, wr, slot_sges) };
        }
        match wrong {
            None => kept += 1,
            Some(_) => {
                // SAFETY: as above.
                let word = unsafe { entry_of(wr) };
                // SAFETY: as above.
                unsafe { rejected.push(word) };
            }
        }
        // SAFETY: it was linked.
        wr = unsafe { (*wr).next };
    }
    if findings.is_fault() {
        if wrong.is_none() {
            // SAFETY: emitted behind the others, to which it is linked.
            wrong = unsafe { look_at::<P>(core, findings, wr, slot_sges) };
        }
        rejected.push_entry(entry);
    }
    let result = match wrong {
        None => Ok(()),
        Some(kind) => Err(PostError::new(VERB, kind, kept, rejected)),
    };
    // SAFETY: the caller's contract.
    unsafe { out.write(Looked { core, kept, result }) };
}

/// Drops the entries of a list that is not posted.
///
/// # Safety
/// The work requests from `first` to `last` were emitted, and their entries are given up.
#[cold]
#[inline(never)]
pub(super) unsafe fn drop_list<P: Profile<Entry: Owned>>(
    first: *mut ibv_recv_wr,
    last: *mut ibv_recv_wr,
) {
    // SAFETY: the caller's contract.
    unsafe { (*last).next = ptr::null_mut() };
    // SAFETY: the wr_ids hold entries of this type.
    let rejected: Rejected<P::Entry> = unsafe { take_back_from(first) };
    // Here, where the user's `Drop` may panic.
    drop(rejected);
}
