//! The `unsafe` path: the caller chooses wr_ids and does the bookkeeping.

#![allow(unsafe_code)] // the path is unsafe

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

/// The device rejected a post of the `unsafe` path (the return value and `bad_wr` of
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
    /// The verb, by its C name.
    pub verb: &'static str,
    /// The errno.
    pub errno: i32,
    /// The index of C's `bad_wr`. The work requests before it were accepted. `None` if the device
    /// did not report it; then all of them may have been accepted
    /// ([R8.20](crate::guide::rules#r8-20)).
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
                "{}: {} (no bad_wr: the device may have accepted all of them)",
                self.verb,
                Errno(self.errno)
            ),
        }
    }
}

impl std::error::Error for RawPostError {}

impl RawPostError {
    /// There is no slot for work request `index` of a list, and nothing was posted.
    pub(crate) fn no_slot<Q: Kind>(index: usize) -> Self {
        RawPostError { verb: Q::VERB, errno: libc::ENOMEM, bad_wr: Some(index) }
    }
}

impl<T: Transport, Q: Kind<Entry = Raw>> Post<'_, T, Q> {
    /// Posts one work request without entering it in the in-flight table.
    ///
    /// # Safety
    /// The rules allow the work request on this queue. The rest is as for
    /// `QueuePair::post_send_unchecked`.
    #[inline(always)]
    pub(crate) unsafe fn one_unchecked<W: Work<Raw, Wr = Q::Wr>>(
        self,
        wr: W,
    ) -> Result<(), RawPostError> {
        let mut slot = Slot::<Q::Wr, <W::Data as Data<Raw>>::Sges>::new();
        // SAFETY: the slot is a local with room for the elements of this work request, and lives
        // until the post. The rest is the contract of this function.
        unsafe { self.one_unchecked_at(wr, &raw mut slot) }
    }

    /// Like `one_unchecked`, in `slot`.
    ///
    /// # Safety
    /// The slot is as for `put`. The rest is as for `one_unchecked`.
    #[inline(always)]
    pub(crate) unsafe fn one_unchecked_at<W: Work<Raw, Wr = Q::Wr>, S>(
        mut self,
        wr: W,
        slot: *mut Slot<Q::Wr, S>,
    ) -> Result<(), RawPostError> {
        // SAFETY: the slot satisfies the contract of `put`. The caller's contract covers its
        // contents.
        unsafe {
            self.put(0, wr, slot, ptr::null_mut());
            self.post_raw([], slot.cast(), slot.cast())
        }
    }

    /// Posts `n` work requests in `most` slots, without entering them in the in-flight table. `wr`
    /// creates each from its index.
    ///
    /// # Safety
    /// There are `most` slots from `first` on, each with room for the elements of a work request.
    /// The rest is as for `one_unchecked`.
    #[inline(always)]
    pub(crate) unsafe fn listed<W: Work<Raw, Wr = Q::Wr>, const G: usize>(
        mut self,
        first: *mut Slot<Q::Wr, [ibv_sge; G]>,
        most: usize,
        n: usize,
        mut wr: impl FnMut(usize) -> W,
    ) -> Result<(), RawPostError> {
        if n > most {
            return Err(RawPostError::no_slot::<Q>(0));
        }
        if n == 0 {
            return Ok(());
        }
        let mut end = first;
        for i in 0..n {
            let wr = wr(i);
            // SAFETY: a slot is left, with enough room, and is not used elsewhere until the post.
            unsafe {
                let (at, next) = next_slot(end);
                self.put(0, wr, at, ptr::null_mut());
                (*Link::head(at.cast::<Q::Wr>())).next = next.cast();
                end = next;
            }
        }
        // SAFETY: the pointer is one past an emitted slot, and the slots before are emitted too.
        // The caller's contract covers what they name.
        unsafe { self.post_raw([], first.cast(), end.sub(1).cast()) }
    }
}

/// The entry of the `unsafe` path: `Raw`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue of `{Self}` entries does bookkeeping: it has no `unchecked` chains",
    label = "completions of this queue return `{Self}`",
    note = "leave `unchecked` out, or use a profile with `entry: Raw` (R11.1)"
)]
pub trait Unbooked: Entry {}

impl Unbooked for Raw {}

impl<T: Transport, Q: Kind> Post<'_, T, Q> {
    /// Posts the list `first..=last`.
    ///
    /// # Safety
    /// `emit` emitted the list, in order. The rest is as for `QueuePair::post_send_unchecked`.
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
        // SAFETY: the queue is alive and the list valid. The caller's contract covers the buffers.
        let code = unsafe {
            (*Link::head(last)).next = ptr::null_mut();
            Q::Verb::post(self.queue.object, first, &mut bad)
        };
        match code {
            0 => Ok(()),
            // SAFETY: the list still exists, and `out` is written.
            errno => Err(unsafe { out_of_line(|out| raw_error::<Q>(first, bad, errno, out)) }),
        }
    }
}

/// # Safety
/// `first` is a valid list, and `out` is writable.
#[cold]
#[inline(never)]
unsafe extern "C" fn raw_error<Q: Kind>(
    first: *mut Q::Wr,
    bad: *mut Q::Wr,
    errno: i32,
    out: *mut RawPostError,
) {
    // SAFETY: the list is valid, and `out` belongs to the caller.
    unsafe {
        // No function was called since the verb, so errno is still the verb's.
        let errno = status(errno);
        let bad_wr = index_of(first, bad).map(|index| index as usize);
        out.write(RawPostError { verb: Q::VERB, errno, bad_wr });
    }
}
