//! Bytes that are copied into the work request while it is posted, and no bytes.

#![allow(unsafe_code)] // writes C scatter/gather elements

use crate::memory::entry::Owned;
use crate::memory::span::READS_NOTHING;
use crate::sys::types::ibv_sge;
use crate::work::data::Data;
use crate::work::flags::SendFlags;
use crate::work::opcode::bounds::InlineOp;
use crate::work::refusal::fault;
use crate::work::request::{Check, Emitted, How, Use, WorkRequest, request};

/// No data: a message of zero length ([R3.2](crate::guide::rules#r3-2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Empty;

/// `N` bytes copied into the work request while it is posted ([R2.9](crate::guide::rules#r2-9)).
#[doc(alias("ibv_wr_set_inline_data", "IBV_SEND_INLINE"))]
#[derive(Clone, Copy, Debug)]
pub struct Inline<'a, const N: usize>(pub(crate) &'a [u8; N]);

/// Bytes copied into the work request while it is posted, their number checked against the inline
/// capacity at that time ([R2.7](crate::guide::rules#r2-7)).
#[derive(Clone, Copy, Debug)]
pub struct InlineSlice<'a>(pub(crate) &'a [u8]);

/// Several slices, copied one behind the other into the work request while it is posted: a header
/// and a body, say (`ibv_wr_set_inline_data_list` of ibv_wr_post(3);
/// [R2.8](crate::guide::rules#r2-8)).
///
/// Each takes one of the queue pair's scatter/gather elements, so there are at most `max_send_sge`
/// of the profile, which the compiler compares ([R3.1](crate::guide::rules#r3-1)). How long they
/// are together is checked against the inline capacity while they are posted
/// ([R2.7](crate::guide::rules#r2-7)). A slice of no bytes takes no element
/// ([R3.3](crate::guide::rules#r3-3)), and none at all are a message of no bytes.
///
/// On SRD, whose work requests have one element ([R27.6](crate::guide::rules#r27-6)), it is a list
/// of one. rdma-core's provider for Intel's irdma sends the first slice alone before version 44.
#[doc(alias("ibv_wr_set_inline_data_list", "ibv_data_buf"))]
#[derive(Clone, Copy, Debug)]
pub struct InlineList<'a, const N: usize>(pub(crate) [&'a [u8]; N]);

#[inline(always)]
pub(super) fn inline<O: InlineOp, D>(op: O, data: D, use_: Use) -> WorkRequest<O, D> {
    request(op, data, use_)
}

/// The element of inline bytes, of which it tells the lower 32 bits of their number.
#[inline(always)]
fn element(bytes: &[u8]) -> ibv_sge {
    let addr = bytes.as_ptr().expose_provenance() as u64;
    ibv_sge { addr, length: bytes.len() as u32, lkey: 0 }
}

/// As many of the bytes as an element can tell.
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
        // No sum wraps, though slices may be of the same bytes.
        let len = slices.iter().fold(0, |len: usize, bytes| len.saturating_add(bytes.len()));
        if len > check.max_inline as usize {
            check.note(fault::INLINE);
            // A longer one keeps as much of its length as an element holds.
            slices = slices.map(cut);
        }
        if how.is_beyond(len) {
            check.note(fault::BEYOND);
        }
        let mut count = 0;
        for bytes in slices {
            // SAFETY: there is room for `N` elements, and `count` is at most the number of slices
            // before this one, so less than `N`.
            unsafe { sges.add(count).write(element(bytes)) };
            // What has no bytes is written over, or is behind the last.
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
