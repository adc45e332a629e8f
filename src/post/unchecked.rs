//! The `unsafe` path: the caller chooses wr_ids and does the bookkeeping.

#![allow(unsafe_code)] // that is what it is for

use std::fmt;
use std::ptr;

use crate::cold::out_of_line;
use crate::memory::entry::{Entry, Raw};
use crate::post::chain::Post;
use crate::post::next_slot::next_slot;
use crate::post::queue::Kind;
use crate::sys::control::status;
use crate::sys::data::{Link, Verb};
use crate::sys::types::ibv_sge;
use crate::terms::error::Errno;
use crate::terms::transport::Transport;
use crate::work::chain::index_of;
use crate::work::data::Data;
use crate::work::request::{Slot, Work};

/// The device refused a post of the `unsafe` path (the return value and `bad_wr` of
/// ibv_post_send(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::post::RawPostError;
/// let error = RawPostError { verb: "ibv_post_send", errno: 12, bad_wr: Some(2) };
/// assert!(error.to_string().starts_with("ibv_post_send: work request 2: ENOMEM"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPostError {
    /// The verb, as C names it.
    pub verb: &'static str,
    /// The errno.
    pub errno: i32,
    /// The index of C's `bad_wr`: those before it were accepted. `None` if the device did not say;
    /// then all of them may have been ([R8.20](crate::guide::rules#r8-20)).
    pub bad_wr: Option<usize>,
}

impl fmt::Display for RawPostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bad_wr {
            Some(index) => {
                write!(f, "{}: work request {index}: {}", self.verb, Errno(self.errno))
            }
            None => write!(
                f,
                "{}: {} (no bad_wr: all of them may be with the device)",
                self.verb,
                Errno(self.errno)
            ),
        }
    }
}

impl std::error::Error for RawPostError {}

impl RawPostError {
    /// There is no slot for work request `index` of a list, and none was posted.
    pub(crate) fn no_slot<Q: Kind>(index: usize) -> Self {
        RawPostError { verb: Q::VERB, errno: libc::ENOMEM, bad_wr: Some(index) }
    }
}

impl<T: Transport, Q: Kind<Entry = Raw>> Post<'_, T, Q> {
    /// Posts one work request that the in-flight table does not know.
    ///
    /// # Safety
    /// The queue may have it by the rules; the rest as for `QueuePair::post_send_unchecked`.
    #[inline(always)]
    pub(crate) unsafe fn one_unchecked<W: Work<Raw, Wr = Q::Wr>>(
        self,
        wr: W,
    ) -> Result<(), RawPostError> {
        let mut slot = Slot::<Q::Wr, <W::Data as Data<Raw>>::Sges>::new();
        // SAFETY: the slot is a local for the elements of this work request, and stays until the
        // post; the rest is this function's contract.
        unsafe { self.one_unchecked_at(wr, &raw mut slot) }
    }

    /// Like `one_unchecked`, in `slot`.
    ///
    /// # Safety
    /// The slot is as for `put`; the rest as for `one_unchecked`.
    #[inline(always)]
    pub(crate) unsafe fn one_unchecked_at<W: Work<Raw, Wr = Q::Wr>, S>(
        mut self,
        wr: W,
        slot: *mut Slot<Q::Wr, S>,
    ) -> Result<(), RawPostError> {
        // SAFETY: the slot is as `put` asks; what is in it is the caller's contract.
        unsafe {
            self.put(0, wr, slot, ptr::null_mut());
            self.post_raw([], slot.cast(), slot.cast())
        }
    }

    /// Posts `n` work requests that the in-flight table does not know, which `wr` gives by their
    /// place.
    ///
    /// # Safety
    /// There are `n` slots from `first` on, at least one, each with room for the elements of a work
    /// request; the rest as for `one_unchecked`.
    #[inline(always)]
    pub(crate) unsafe fn list_unchecked<W: Work<Raw, Wr = Q::Wr>, const G: usize>(
        mut self,
        first: *mut Slot<Q::Wr, [ibv_sge; G]>,
        n: usize,
        mut wr: impl FnMut(usize) -> W,
    ) -> Result<(), RawPostError> {
        let mut end = first;
        for i in 0..n {
            let wr = wr(i);
            // SAFETY: a slot is left, with room enough; it is ours until the post.
            unsafe {
                let (at, next) = next_slot(end);
                self.put(0, wr, at, ptr::null_mut());
                (*Link::head(at.cast::<Q::Wr>())).next = next.cast();
                end = next;
            }
        }
        // SAFETY: one past a slot that was emitted, as those before were; what they name is the
        // caller's contract.
        unsafe { self.post_raw([], first.cast(), end.sub(1).cast()) }
    }

    /// Like `list_unchecked`, of any `n`, in `most` slots.
    ///
    /// # Safety
    /// There are `most` slots from `first` on; the rest as for `list_unchecked`.
    #[inline(always)]
    pub(crate) unsafe fn listed<W: Work<Raw, Wr = Q::Wr>, const G: usize>(
        self,
        first: *mut Slot<Q::Wr, [ibv_sge; G]>,
        most: usize,
        n: usize,
        wr: impl FnMut(usize) -> W,
    ) -> Result<(), RawPostError> {
        if n > most {
            return Err(RawPostError::no_slot::<Q>(0));
        }
        if n == 0 {
            return Ok(());
        }
        // SAFETY: there are `n` slots, at least one; the rest is this function's contract.
        unsafe { self.list_unchecked(first, n, wr) }
    }
}

/// The entry of the `unsafe` path: `Raw`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue of `{Self}` entries does bookkeeping: it has no `unchecked` chains",
    label = "this queue gives `{Self}` back",
    note = "leave `unchecked` out, or use a profile with `entry: Raw` (R11.1)"
)]
pub trait Unbooked: Entry {}

impl Unbooked for Raw {}

impl<T: Transport, Q: Kind> Post<'_, T, Q> {
    /// Posts the list `first..=last`.
    ///
    /// # Safety
    /// The list was emitted by `emit`, in order; the rest as for `QueuePair::post_send_unchecked`.
    ///
    /// # Errors
    /// As for `post_send_unchecked`.
    #[inline(always)]
    pub unsafe fn post_raw<const N: usize>(
        self,
        _: [Option<Q::Entry>; N],
        first: *mut Q::Wr,
        last: *mut Q::Wr,
    ) -> Result<(), RawPostError>
    where
        Q::Entry: Unbooked,
    {
        let mut bad = ptr::null_mut();
        // SAFETY: the queue is alive and the list valid; the buffers are the caller's contract.
        let code = unsafe {
            (*Link::head(last)).next = ptr::null_mut();
            Q::Verb::post(self.queue.object, first, &mut bad)
        };
        match code {
            0 => Ok(()),
            // SAFETY: the list is still there, and `out` is written.
            errno => Err(unsafe { out_of_line(|out| raw_error::<Q>(first, bad, errno, out)) }),
        }
    }
}

/// # Safety
/// `first` is a valid list, `out` writable.
#[cold]
#[inline(never)]
unsafe extern "C" fn raw_error<Q: Kind>(
    first: *mut Q::Wr,
    bad: *mut Q::Wr,
    errno: i32,
    out: *mut RawPostError,
) {
    // SAFETY: the list is valid, and `out` the caller's.
    unsafe {
        // Nothing was called since the verb, so errno is still the verb's.
        let errno = status(errno);
        let bad_wr = index_of(first, bad).map(|index| index as usize);
        out.write(RawPostError { verb: Q::VERB, errno, bad_wr });
    }
}
