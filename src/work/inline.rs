//! Bytes that are copied into the work request during the post, and empty data.

#![allow(unsafe_code)] // writes C scatter/gather elements

use crate::memory::entry::Owned;
use crate::memory::span::READS_NOTHING;
use crate::sys::types::ibv_sge;
use crate::work::data::Data;
use crate::work::fault;
use crate::work::flags::SendFlags;
use crate::work::opcode::bounds::InlineOp;
use crate::work::request::{Check, Emitted, How, Use, WorkRequest, request};

/// No data: a zero-length message ([R3.2](crate::guide::rules#r3-2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Empty;

/// `N` bytes that are copied into the work request during the post
/// ([R2.9](crate::guide::rules#r2-9)).
#[doc(alias("ibv_wr_set_inline_data", "IBV_SEND_INLINE"))]
#[derive(Clone, Copy, Debug)]
pub struct Inline<'a, const N: usize>(pub(crate) &'a [u8; N]);

/// Bytes that are copied into the work request during the post. Their number is checked against the
/// inline capacity at that time ([R2.7](crate::guide::rules#r2-7)).
#[derive(Clone, Copy, Debug)]
pub struct InlineSlice<'a>(pub(crate) &'a [u8]);

/// Several slices that are copied into the work request during the post, one after the other, such
/// as a header and a body (`ibv_wr_set_inline_data_list` of ibv_wr_post(3);
/// [R2.8](crate::guide::rules#r2-8)).
///
/// Each slice counts as one scatter/gather element, so there can be at most as many as the
/// profile's `max_send_sge`; the compiler checks this ([R3.1](crate::guide::rules#r3-1)). Their
/// total length is checked against the inline capacity during the post
/// ([R2.7](crate::guide::rules#r2-7)). An empty slice is left out of the posted list
/// ([R3.3](crate::guide::rules#r3-3)). Without slices, the message is empty.
///
/// On SRD, where work requests have one element ([R27.6](crate::guide::rules#r27-6)), the list has
/// one slice. Before version 44, rdma-core's provider for Intel's irdma sends only the first slice.
#[doc(alias("ibv_wr_set_inline_data_list", "ibv_data_buf"))]
#[derive(Clone, Copy, Debug)]
pub struct InlineList<'a, const N: usize>(pub(crate) [&'a [u8]; N]);

#[inline(always)]
pub(crate) fn inline<O: InlineOp, D>(op: O, data: D, use_: Use) -> WorkRequest<O, D> {
    request(op, data, use_)
}

/// The element of inline bytes. It contains the lower 32 bits of their length.
#[inline(always)]
fn element(bytes: &[u8]) -> ibv_sge {
    let addr = bytes.as_ptr().expose_provenance() as u64;
    ibv_sge { addr, length: bytes.len() as u32, lkey: 0 }
}

/// The bytes, truncated to the longest length of an element.
#[inline(always)]
fn cut(bytes: &[u8]) -> &[u8] {
    bytes.get(..u32::MAX as usize).unwrap_or(bytes)
}

impl<E: Owned, const N: usize> crate::work::data::sealed::Of<E> for Inline<'_, N> {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<E: Owned, const N: usize> Data<E> for Inline<'_, N> {
    type Sges = [ibv_sge; 1];

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<E> {
        if how.is_beyond(N) {
            check.note(fault::BEYOND);
        }
        // SAFETY: there is room for one element.
        unsafe { sges.write(element(self.0)) };
        let flags = SendFlags::INLINE.bits();
        Emitted { sges, count: (N != 0) as i32, entry: None, flags, wr_id: 0 }
    }
}

impl<E: Owned> crate::work::data::sealed::Of<E> for InlineSlice<'_> {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<E: Owned> Data<E> for InlineSlice<'_> {
    type Sges = [ibv_sge; 1];

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<E> {
        // SAFETY: there is room for one element.
        unsafe { InlineList([self.0]).emit(sges, how, check) }
    }
}

impl<E: Owned, const N: usize> crate::work::data::sealed::Of<E> for InlineList<'_, N> {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<E: Owned, const N: usize> Data<E> for InlineList<'_, N> {
    type Sges = [ibv_sge; N];

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<E> {
        let mut slices = self.0;
        // The sum saturates, because several slices may be of the same bytes.
        let len = slices.iter().fold(0, |len: usize, bytes| len.saturating_add(bytes.len()));
        if len > check.max_inline as usize {
            check.note(fault::INLINE);
            // A slice that is too long keeps the longest length that an element can have.
            slices = slices.map(cut);
        }
        if how.is_beyond(len) {
            check.note(fault::BEYOND);
        }
        let mut count = 0;
        for bytes in slices {
            // SAFETY: there is room for `N` elements. `count` is at most the number of slices
            // before this one, which is less than `N`.
            unsafe { sges.add(count).write(element(bytes)) };
            // The next slice overwrites an empty one, or it is after the last element.
            count += usize::from(!bytes.is_empty());
        }
        let flags = SendFlags::INLINE.bits();
        Emitted { sges, count: count as i32, entry: None, flags, wr_id: 0 }
    }
}

impl<E: Owned> crate::work::data::sealed::Of<E> for Empty {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<E: Owned> Data<E> for Empty {
    type Sges = [ibv_sge; 0];

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<E> {
        if how.use_ == Use::Read && how.limit != READS_NOTHING {
            check.note(fault::BEYOND);
        }
        Emitted { sges, count: 0, entry: None, flags: 0, wr_id: 0 }
    }
}
