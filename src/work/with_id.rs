//! A number that the program sets on a work request without a buffer.

#![allow(unsafe_code)] // declares an unsafe method

use crate::allows::{Allows, call};
use crate::memory::entry::Owned;
use crate::memory::header::word;
use crate::sys::types::ibv_sge;
use crate::work::data::{Data, sealed};
use crate::work::inline::{Empty, Inline, InlineList, InlineSlice};
use crate::work::request::{Check, Emitted, How, WorkRequest};

/// Data without a buffer (inline or [`Empty`](crate::wr::Empty)), with a number that the program
/// sets: see [`with_id`](WorkRequest::with_id).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WithId<D> {
    data: D,
    id: u16,
}

/// Data without a buffer: inline bytes, and [`Empty`](crate::wr::Empty).
///
/// Data with a buffer returns the buffer, not a number ([R17.7](crate::guide::rules#r17-7)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot carry a number",
    label = "not inline, and not `wr::Empty`",
    note = "a `Buf` returns with a context of any type; shared buffers and pieces have `set_id`"
)]
pub trait NoBuffer: sealed::Sealed {}

impl<const N: usize> NoBuffer for Inline<'_, N> {}
impl NoBuffer for InlineSlice<'_> {}
impl<const N: usize> NoBuffer for InlineList<'_, N> {}
impl NoBuffer for Empty {}

allows! { [O, D: NoBuffer, A, F, G] WorkRequest<O, D, A, F, G>: WithId; }

impl<O, D, A, F, G> WorkRequest<O, D, A, F, G> {
    /// Sets a number that the completion returns ([`Completion::id`](crate::Completion::id)), for
    /// work requests without a buffer: C's `wr_id` (ibv_post_send(3)).
    ///
    /// The number has 16 bits, enough to distinguish the work requests that are outstanding on one
    /// queue; the other bits of the `wr_id` identify the queue. The number of a shared buffer
    /// ([`set_id`](crate::memory::SharedBuf::set_id)) or a piece has 64 bits, and the context of a
    /// `Buf` can have any type.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// # let region = pd.register::<RemoteWrite>(64)?;
    /// # let at = region.remote().write();
    /// for (id, part) in [(1, b"one"), (2, b"two")] {
    ///     a.post_send(wr::RdmaWrite::inline(part, at).with_id(id))?;
    /// }
    /// let mut done = Vec::new();
    /// while done.len() < 2 {
    ///     done.extend(cq.poll()?.map(|completion| completion.id()));
    /// }
    /// assert_eq!(done, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn with_id(self, id: u16) -> WorkRequest<O, WithId<D>, A, F, G>
    where
        Self: Allows<call::WithId>,
    {
        self.with_data(|data| WithId { data, id })
    }
}

impl<E: Owned, D: NoBuffer + Data<E>> crate::work::data::sealed::Of<E> for WithId<D> {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<E: Owned, D: NoBuffer + Data<E>> Data<E> for WithId<D> {
    type Sges = D::Sges;

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<E> {
        // SAFETY: there is room for the same elements.
        let emitted = unsafe { self.data.emit(sges, how, check) };
        debug_assert!(emitted.entry.is_none());
        Emitted { wr_id: (self.id as u64) << word::ID, ..emitted }
    }
}
