//! What the hot path of a post leaves to cold functions: buffers to look at, no room by what is
//! known, something wrong, a refusal by the device.
//!
//! They are `extern "C"` for its promise not to unwind, and write what is large to an `out` of the
//! caller's (`cold` says why); nothing here is for C.

#![allow(unsafe_code, improper_ctypes_definitions)] // goes through lists that were emitted

use std::ffi::c_int;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use crate::cold::out_of_line;
use crate::in_flight::InFlight;
use crate::memory::entry::Entry;
use crate::memory::header::word;
use crate::memory::header::{Header, Word};
use crate::post::path::Posted;
use crate::post::queue::{Kind, Queue};
use crate::post::refusal::{PostError, Rejected};
use crate::sys::control::status;
use crate::sys::data::{Link, Verb};
use crate::work::chain::{self, index_of};
use crate::work::refusal::{Faults, PostErrorKind, fault};
use crate::work::request::Found;

/// Posts a list that is not straightforward, and says whether that went well.
///
/// # Safety
/// `first` is a list of `n` work requests that were emitted and entered, and are not spent; their
/// entries are given up. `out` is written if the answer is no.
#[cold]
#[inline(never)]
pub(super) unsafe extern "C" fn slow<Q: Kind>(
    queue: &mut Queue<Q>,
    found: Found,
    n: u32,
    first: *mut Q::Wr,
    out: &mut MaybeUninit<PostError<Q::Entry>>,
) -> bool {
    #[cfg(all(test, feature = "loopback"))]
    crate::cold_calls::note();
    // SAFETY: the list is the caller's, and the queue's verb posts it to its object, which is live.
    let posted = unsafe {
        look_and_post(queue, found, n, first, |object, first, bad| {
            Q::Verb::post(object, first, bad)
        })
    };
    posted.map_err(|error| out.write(error)).is_ok()
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
    // SAFETY: the list is the caller's (this function's contract). Its entries are taken once, if
    // it is refused.
    let list = || unsafe { Entered::all(first) };
    if let Some(kind) = why_not(queue, found, n, list()) {
        return Err(PostError::refused(Some(queue), kind, 0, take_entries(queue, list())));
    }
    list().for_each(|wr| wr.give(queue));
    let mut bad = ptr::null_mut();
    match verb(queue.object, first, &raw mut bad) {
        0 => Ok(()),
        errno => {
            // SAFETY: the list was spent, and is still there; the error is written.
            let error =
                unsafe { out_of_line(|out| refused_by_device(queue, n, first, bad, errno, out)) };
            Err(error)
        }
    }
}

/// Why a list of `n` cannot be posted. If it can, it is spent.
fn why_not<Q: Kind>(
    queue: &mut Queue<Q>,
    found: Found,
    n: u32,
    list: impl Iterator<Item = Entered<Q>>,
) -> Option<PostErrorKind> {
    if queue.in_flight.is_poisoned() {
        return Some(PostErrorKind::Poisoned);
    }
    let mut faults = Faults::of(found);
    if found.is_open() {
        list.for_each(|wr| wr.look(queue, found, &mut faults));
    }
    let in_flight = &mut queue.in_flight;
    let wrong = faults.first(Q::MAX_SGE, Q::MAX_INLINE).or_else(|| {
        let fits = in_flight.spend(n) || in_flight.look_and_spend(n);
        (!fits).then(|| in_flight.why_full(n))
    });
    if wrong.is_some() {
        in_flight.give_back_held();
    }
    wrong
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
                queue.in_flight.take_back(n - accepted);
                let kind = Q::meaning(queue, bad, errno);
                let rejected = take_entries(queue, Entered::all(bad));
                PostError::refused(Some(queue), kind, accepted, rejected)
            }
            None => {
                queue.in_flight.poison();
                let kind = PostErrorKind::OutcomeUnknown { errno };
                PostError::refused(Some(queue), kind, 0, Rejected::new())
            }
        };
        out.write(error);
    }
}

/// The entries of a list.
pub(super) fn take_entries<Q: Kind>(
    queue: &Queue<Q>,
    list: impl Iterator<Item = Entered<Q>>,
) -> Rejected<Q::Entry> {
    let mut rejected = Rejected::new();
    list.for_each(|wr| wr.reject(queue, &mut rejected));
    rejected
}

/// The `i`th work request of a list.
///
/// # Invariants
/// It was emitted and entered, and its entry is the holder's. It is not spent, or its in-flight
/// table is `MARKED`, which needs no more than the wr_id.
pub(super) struct Entered<Q: Kind> {
    i: u32,
    at: *mut Q::Wr,
}

impl<Q: Kind> Entered<Q> {
    /// # Safety
    /// `at` is the `i`th work request of a list, as the invariants say.
    pub unsafe fn new(i: u32, at: *mut Q::Wr) -> Self {
        Entered { i, at }
    }

    /// Those of a list, from its first on.
    ///
    /// # Safety
    /// All of them are as the invariants say.
    pub unsafe fn all(first: *mut Q::Wr) -> impl Iterator<Item = Self> {
        // SAFETY: the list was emitted (this function's contract).
        let all = unsafe { chain::iter(first) };
        (0..).zip(all).map(|(i, at)| Entered { i, at })
    }

    /// The word of its entry, 0 if it has none.
    fn word(&self, queue: &Queue<Q>) -> usize {
        // SAFETY: it was emitted (invariant), so it has its wr_id.
        queue.in_flight.word(self.i, unsafe { (*Link::head(self.at)).wr_id })
    }

    /// Looks at it, and at its buffers if they may be mismatched.
    pub fn look(&self, queue: &Queue<Q>, found: Found, faults: &mut Faults) {
        let word = self.word(queue);
        let is_mismatch = found.is_mismatch() && word != 0;
        let mut too_short = None;
        if is_mismatch || faults.bits & fault::SGE != 0 && word != 0 {
            // SAFETY: the word is that of an entry that the holder has, and keeps.
            let entry = ManuallyDrop::new(unsafe { Q::Entry::from_word(word) });
            let mut sges = 0;
            entry.each_header(&mut |header| {
                sges += 1;
                if !is_mismatch {
                    return;
                }
                faults.bits |= why_mismatch(queue, header);
                if header.len() > header.capacity() {
                    // An atomic's 8 bytes.
                    let max = header.capacity().into();
                    too_short = Some(PostErrorKind::AtomicExceedsBuffer { max });
                }
            });
            faults.sges = faults.sges.max(sges);
        }
        // SAFETY: it was emitted (invariant), and the queue's object is live (its invariant).
        let (too_long, inline) =
            unsafe { (Q::measure(queue, self.at, is_mismatch), Q::inline_bytes(self.at)) };
        faults.inline = faults.inline.max(inline);
        faults.too_long = faults.too_long.or(too_short).or(too_long);
    }

    /// Shows in the header of its entry that the queue has it.
    pub fn give(&self, queue: &Queue<Q>) {
        let word = if Q::InFlight::MARKED { self.word(queue) } else { 0 };
        if word != 0 {
            // SAFETY: the entry is the holder's (invariant), so its header is alive.
            unsafe { (*word::address::<Header>(word)).give(queue.in_flight.state().counter) };
        }
    }

    /// Adds its entry to those that were refused.
    pub fn reject(self, queue: &Queue<Q>, rejected: &mut Rejected<Q::Entry>) {
        // SAFETY: the word is that of an entry that the holder has, and gives up here.
        unsafe { rejected.push(self.word(queue)) };
    }
}

/// Compares pool and protection domain of a buffer; what is wrong.
fn why_mismatch<Q: Kind>(queue: &Queue<Q>, header: &Header) -> u32 {
    let slab = Q::slab(queue);
    if slab != 0 && header.slab.addr() != slab {
        return fault::POOL;
    }
    if header.pd() != queue.in_flight.state().counters.pd {
        return fault::PD;
    }
    if !Q::RECEIVES {
        header.looked_at();
    }
    0
}
