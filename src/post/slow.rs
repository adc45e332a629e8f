//! The cold functions of a post: buffers need inspection, there may not be room, there is a fault,
//! or the device rejects the post.
//!
//! They are `extern "C"` because such functions do not unwind, and they write large results to the
//! caller's `out` (`cold` explains why). C code does not call them.

#![allow(unsafe_code, improper_ctypes_definitions)] // goes through lists that were emitted

use std::ffi::c_int;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use crate::cold::out_of_line;
use crate::in_flight::InFlight;
use crate::memory::entry::Entry;
use crate::memory::header::{Header, Word, word};
use crate::post::path::Posted;
use crate::post::queue::{Kind, Queue};
use crate::post::refusal::{PostError, Rejected};
use crate::sys::control::status;
use crate::sys::data::{Link, Verb};
use crate::terms::post_error::PostErrorKind;
use crate::work::chain::{self, index_of};
use crate::work::fault::{self, Faults};
use crate::work::request::Found;

/// Posts a list that needs inspection, and returns whether it succeeded.
///
/// # Safety
/// `first` is a list of `n` work requests that were emitted and entered, and are not spent. The
/// caller gives up ownership of their entries. `out` is written if the result is false.
#[cold]
#[inline(never)]
pub(super) unsafe extern "C" fn slow<Q: Kind>(
    queue: &mut Queue<Q>,
    found: Found,
    n: u32,
    first: *mut Q::Wr,
    out: &mut MaybeUninit<PostError<Q::Entry>>,
) -> bool {
    crate::cold_calls::note();
    // SAFETY: the caller owns the list, and the queue's verb posts it to its object, which is
    // alive.
    let posted = unsafe {
        look_and_post(queue, found, n, first, |object, first, bad| {
            Q::Verb::post(object, first, bad)
        })
    };
    posted.map_err(|error| out.write(error)).is_ok()
}

/// Inspects a list and posts it with `verb`.
///
/// # Safety
/// `first` is as for `slow`. `verb` posts the list to the queue's object, which is alive, or
/// returns an errno. Its last argument points to null, or is set to the rejected work request.
pub(super) unsafe fn look_and_post<Q: Kind>(
    queue: &mut Queue<Q>,
    found: Found,
    n: u32,
    first: *mut Q::Wr,
    verb: impl FnOnce(*mut Q::Object, *mut Q::Wr, *mut *mut Q::Wr) -> c_int,
) -> Posted<Q> {
    // SAFETY: the caller owns the list, by the contract. Its entries are taken once, if it is
    // rejected.
    let list = || unsafe { Entered::all(first) };
    if let Some(kind) = why_not(queue, found, n, list()) {
        queue.count_refused(kind);
        return Err(PostError::refused(Some(queue), kind, 0, take_entries(queue, list())));
    }
    list().for_each(|wr| wr.give(queue));
    let mut bad = ptr::null_mut();
    // SAFETY: the list is emitted, by the contract.
    unsafe { queue.count_next(first) };
    match verb(queue.object, first, &raw mut bad) {
        0 => {
            queue.count_posted(n);
            Ok(())
        }
        errno => {
            // SAFETY: the list was spent, and still exists. The error is written.
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

/// Handles a list that the device rejected from `bad` on.
///
/// # Safety
/// `first` is a list of `n` work requests that were spent, and `bad` is what the verb set. `out` is
/// writable, and is written.
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
    // No function was called since the verb, so errno is still the verb's.
    let errno = status(errno);
    // SAFETY: the list still exists, and the device does not own the work requests from `bad` on.
    // The queue's object is alive.
    unsafe {
        let error = match index_of(first, bad) {
            Some(accepted) => {
                queue.in_flight.take_back(n - accepted);
                let kind = Q::meaning(queue, bad, errno);
                queue.count_accepted(accepted, bad);
                queue.count_refused(kind);
                let rejected = take_entries(queue, Entered::all(bad));
                PostError::refused(Some(queue), kind, accepted, rejected)
            }
            None => {
                queue.in_flight.poison();
                let kind = PostErrorKind::OutcomeUnknown { errno };
                queue.count_refused(kind);
                PostError::refused(Some(queue), kind, 0, Rejected::new())
            }
        };
        out.write(error);
    }
}

/// Takes the entries of a list.
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
/// It was emitted and entered, and the holder of this value owns its entry. It is not spent, or its
/// in-flight table is `MARKED` and needs only the wr_id.
pub(super) struct Entered<Q: Kind> {
    i: u32,
    at: *mut Q::Wr,
}

impl<Q: Kind> Entered<Q> {
    /// # Safety
    /// `at` is the `i`th work request of a list, as the invariants require.
    pub unsafe fn new(i: u32, at: *mut Q::Wr) -> Self {
        Entered { i, at }
    }

    /// The work requests of a list, from its first on.
    ///
    /// # Safety
    /// All of them satisfy the invariants.
    pub unsafe fn all(first: *mut Q::Wr) -> impl Iterator<Item = Self> {
        // SAFETY: the list was emitted, by the contract.
        let all = unsafe { chain::iter(first) };
        (0..).zip(all).map(|(i, at)| Entered { i, at })
    }

    /// The word of its entry, or 0.
    fn word(&self, queue: &Queue<Q>) -> usize {
        // SAFETY: it was emitted (invariant), so its wr_id is written.
        queue.in_flight.word(self.i, unsafe { (*Link::head(self.at)).wr_id })
    }

    /// Inspects it, and its buffers if they may be mismatched. Counts its elements.
    pub fn look(&self, queue: &Queue<Q>, found: Found, faults: &mut Faults) {
        let word = self.word(queue);
        let is_mismatch = found.is_mismatch() && word != 0;
        let mut too_short = None;
        if word != 0 {
            // SAFETY: the word belongs to an entry that the holder owns and keeps.
            let entry = ManuallyDrop::new(unsafe { Q::Entry::from_word(word) });
            let mut sges = 0;
            entry.each_header(&mut |header| {
                sges += 1;
                if !is_mismatch {
                    return;
                }
                faults.bits |= why_mismatch(queue, header, sges == 1);
                if header.len() > header.capacity() {
                    // An atomic has 8 bytes.
                    let max = header.capacity().into();
                    too_short = Some(PostErrorKind::AtomicExceedsBuffer { max });
                }
            });
            faults.sges = faults.sges.max(sges);
        }
        // SAFETY: it was emitted (invariant), and the queue's object is alive (its invariant).
        let (too_long, inline) =
            unsafe { (Q::measure(queue, self.at, is_mismatch), Q::inline_bytes(self.at)) };
        faults.inline = faults.inline.max(inline);
        faults.too_long = faults.too_long.or(too_short).or(too_long);
    }

    /// Marks its entry as owned by the queue, in its header.
    pub fn give(&self, queue: &Queue<Q>) {
        let word = if Q::InFlight::MARKED { self.word(queue) } else { 0 };
        if word != 0 {
            // SAFETY: the holder owns the entry (invariant), so its header is alive.
            unsafe { (*word::address::<Header>(word)).give(queue.in_flight.state().counter) };
        }
    }

    /// Adds its entry to the rejected ones.
    pub fn reject(self, queue: &Queue<Q>, rejected: &mut Rejected<Q::Entry>) {
        // SAFETY: the word belongs to an entry that the holder owns, and gives up here.
        unsafe { rejected.push(self.word(queue)) };
    }
}

/// Compares the pool and the protection domain of a buffer. Returns the faults.
fn why_mismatch<Q: Kind>(queue: &Queue<Q>, header: &Header, is_first: bool) -> u32 {
    let slab = Q::slab(queue);
    // (A piece may follow a buffer of the pool, as in `Gather::emit`.)
    if slab != 0 && header.slab.addr() != slab && (is_first || header.is_of_buf()) {
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
