//! What the hot path of a post leaves to cold functions: buffers to look at, no room by what is
//! known, something wrong, a refusal by the device.
//!
//! They are `extern "C"` for its promise not to unwind, and write what is large to an `out` of the
//! caller's (`cold` says why); nothing here is for C.

#![allow(unsafe_code, improper_ctypes_definitions)] // goes through lists that were emitted

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr;

use crate::cold::out_of_line;
use crate::ledger::Ledger;
use crate::memory::entry::Entry;
use crate::memory::header::word;
use crate::memory::header::{Header, Word};
use crate::post::path::Posted;
use crate::post::queue::{Kind, Queue};
use crate::post::refusal::{PostError, Rejected};
use crate::sys::control::status;
use crate::sys::data::{Verb, head};
use crate::work::chain::{self, index_of};
use crate::work::refusal::{Faults, PostErrorKind, fault};
use crate::work::request::Found;

/// Posts a list that is not straightforward, and says whether that went well.
///
/// # Safety
/// `first` is a list of `n` work requests that were emitted and entered, and are not spent; their
/// entries are given up. `out` is writable; it is written if the answer is no.
#[cold]
#[inline(never)]
pub(super) unsafe extern "C" fn slow<Q: Kind>(
    queue: &mut Queue<Q>,
    found: Found,
    n: u32,
    first: *mut Q::Wr,
    out: *mut PostError<Q::Entry>,
) -> bool {
    // SAFETY: the list is the caller's, and the queue's verb posts it to its object, which is live.
    let posted = unsafe {
        look_and_post(queue, found, n, first, |object, first, bad| {
            Q::Verb::post(object, first, bad)
        })
    };
    match posted {
        Ok(()) => true,
        Err(error) => {
            // SAFETY: the caller's `out` is writable.
            unsafe { out.write(error) };
            false
        }
    }
}

/// Looks at a list and posts it by `verb`.
///
/// # Safety
/// `first` is as for `slow`. `verb` posts the list to the queue's object, which is live, or gives
/// an errno; the last pointer it has is to null, or to the work request that was refused.
pub(super) unsafe fn look_and_post<Q: Kind>(
    queue: &mut Queue<Q>,
    found: Found,
    n: u32,
    first: *mut Q::Wr,
    verb: impl FnOnce(*mut Q::Object, *mut Q::Wr, *mut *mut Q::Wr) -> c_int,
) -> Posted<Q> {
    let mut bad = ptr::null_mut();
    // SAFETY: the list is the caller's, and is spent only if nothing speaks against it. It is still
    // there when the verb refused it, and the error is written.
    unsafe {
        if let Some(kind) = why_not(queue, found, n, first) {
            return Err(refuse(queue, kind, 0, first));
        }
        give_all(queue, first);
        match verb(queue.object, first, &raw mut bad) {
            0 => Ok(()),
            errno => Err(out_of_line(|out| refused_by_device(queue, n, first, bad, errno, out))),
        }
    }
}

/// Why a list cannot be posted. If it can, it is spent.
///
/// # Safety
/// As for `slow`.
unsafe fn why_not<Q: Kind>(
    queue: &mut Queue<Q>,
    found: Found,
    n: u32,
    first: *mut Q::Wr,
) -> Option<PostErrorKind> {
    if queue.ledger.is_poisoned() {
        return Some(PostErrorKind::Poisoned);
    }
    // SAFETY: the list is the caller's.
    let faults = unsafe { look_at_list(queue, found, first) };
    faults.first(Q::MAX_SGE, Q::MAX_INLINE).or_else(|| {
        let ledger = &mut queue.ledger;
        let fits = ledger.spend(n) || ledger.look_and_spend(n);
        (!fits).then(|| PostErrorKind::QueueFull { asked: n, room: ledger.room() })
    })
}

/// The device refused a list from `bad` on.
///
/// # Safety
/// `first` is a list of `n` work requests that were spent, and `bad` is what the verb said. `out`
/// is writable, and written.
#[cold]
#[inline(never)]
pub(super) unsafe extern "C" fn refused_by_device<Q: Kind>(
    queue: &mut Queue<Q>,
    n: u32,
    first: *mut Q::Wr,
    bad: *mut Q::Wr,
    errno: i32,
    out: *mut PostError<Q::Entry>,
) {
    // Nothing was called since the verb, so errno is still the verb's.
    let errno = status(errno);
    // SAFETY: the list is still there; those from `bad` on are not with the device. The queue's
    // object is live.
    unsafe {
        let error = match index_of(first, bad) {
            Some(accepted) => {
                queue.ledger.take_back(n - accepted);
                let kind = Q::meaning(queue, bad, errno);
                refuse(queue, kind, accepted, bad)
            }
            None => {
                queue.ledger.poison();
                let kind = PostErrorKind::OutcomeUnknown { errno };
                PostError::new(Q::VERB, kind, 0, Rejected::new())
            }
        };
        out.write(error);
    }
}

/// The error of a list that was entered and is not spent, from the work request at index `accepted`
/// on.
///
/// # Safety
/// `first` is that list, its entries given up.
unsafe fn refuse<Q: Kind>(
    queue: &Queue<Q>,
    kind: PostErrorKind,
    accepted: u32,
    first: *mut Q::Wr,
) -> PostError<Q::Entry> {
    // SAFETY: the list is the caller's.
    PostError::new(Q::VERB, kind, accepted, unsafe { take_entries(queue, first) })
}

/// The entries of a list that was entered and is not spent.
///
/// # Safety
/// `first` is that list, its entries given up.
pub(super) unsafe fn take_entries<Q: Kind>(
    queue: &Queue<Q>,
    first: *mut Q::Wr,
) -> Rejected<Q::Entry> {
    let mut rejected = Rejected::new();
    // SAFETY: the list is emitted, and its words are those of entries that nobody else has.
    unsafe {
        for (i, wr) in (0..).zip(chain::iter(first)) {
            rejected.push(word_of(queue, i, wr));
        }
    }
    rejected
}

/// The word of the entry of the `i`th work request of a list, 0 if it has none.
///
/// # Safety
/// It is emitted and entered, and not spent, or not needed from a ledger that is not `MARKED`.
pub(super) unsafe fn word_of<Q: Kind>(queue: &Queue<Q>, i: u32, wr: *mut Q::Wr) -> usize {
    // SAFETY: an emitted work request has its wr_id.
    queue.ledger.word(i, unsafe { (*head(wr)).wr_id })
}

/// Looks at the work requests of a list, as far as `found` says that it must.
///
/// # Safety
/// The list was emitted and entered, and its entries are the caller's.
unsafe fn look_at_list<Q: Kind>(queue: &Queue<Q>, found: Found, first: *mut Q::Wr) -> Faults {
    let mut faults = Faults::of(found);
    if found.is_open() {
        // SAFETY: the list is emitted, and the caller's.
        unsafe {
            for (i, wr) in (0..).zip(chain::iter(first)) {
                look_at(queue, found, i, wr, &mut faults);
            }
        }
    }
    faults
}

/// Looks at the `i`th work request of a list, and at strange buffers.
///
/// # Safety
/// It was emitted and entered, and its entry is the caller's.
pub(super) unsafe fn look_at<Q: Kind>(
    queue: &Queue<Q>,
    found: Found,
    i: u32,
    wr: *mut Q::Wr,
    faults: &mut Faults,
) {
    // SAFETY: it is emitted and entered.
    let word = unsafe { word_of(queue, i, wr) };
    let is_strange = found.is_strange() && word != 0;
    let mut too_short = None;
    if is_strange || faults.bits & fault::SGE != 0 && word != 0 {
        // SAFETY: the word is that of an entry that the caller has, and keeps.
        let entry = ManuallyDrop::new(unsafe { Q::Entry::from_word(word) });
        let mut sges = 0;
        entry.each_header(&mut |header| {
            sges += 1;
            if !is_strange {
                return;
            }
            faults.bits |= why_strange(queue, header);
            if header.len() > header.capacity() {
                // An atomic's 8 bytes.
                let max = header.capacity().into();
                too_short = Some(PostErrorKind::AtomicExceedsBuffer { max });
            }
        });
        faults.sges = faults.sges.max(sges);
    }
    // SAFETY: it is emitted.
    let (too_long, inline) = unsafe { (Q::measure(queue, wr, is_strange), Q::inline_bytes(wr)) };
    faults.inline = faults.inline.max(inline);
    faults.too_long = faults.too_long.or(too_short).or(too_long);
}

/// Compares pool and protection domain of a buffer; what is wrong.
fn why_strange<Q: Kind>(queue: &Queue<Q>, header: &Header) -> u32 {
    let home = Q::home(queue);
    if home != 0 && header.home.addr() != home {
        return fault::POOL;
    }
    if header.pd() != queue.ledger.account().books.pd {
        return fault::PD;
    }
    if !Q::RECEIVES {
        header.looked_at();
    }
    0
}

/// Shows in the headers of a list's entries that the queue has them.
///
/// # Safety
/// The list was emitted and entered, and its entries are the caller's.
unsafe fn give_all<Q: Kind>(queue: &Queue<Q>, first: *mut Q::Wr) {
    // SAFETY: the list is emitted.
    for wr in unsafe { chain::iter(first) } {
        // SAFETY: it is entered, and its entry the caller's.
        unsafe { give(queue, 0, wr) };
    }
}

/// Shows in the header of an entry that the queue has it.
///
/// # Safety
/// As for `give_all`, for the `i`th of a list.
pub(super) unsafe fn give<Q: Kind>(queue: &Queue<Q>, i: u32, wr: *mut Q::Wr) {
    if Q::Ledger::MARKED {
        // SAFETY: the entry is the caller's, so its header is alive.
        unsafe {
            let word = word_of(queue, i, wr);
            if word != 0 {
                (*word::address::<Header>(word)).give(queue.ledger.account().counter);
            }
        }
    }
}
