//! The data of a work request: a buffer, several, or bytes in the work request itself.
//!
//! This module defines which data can be used where. How it is written is in other modules: one
//! buffer in `request`, several in `gather`, inline bytes in `inline`, the `unsafe` path in `sge`.

#![allow(unsafe_code)] // declares an unsafe method

use arrayvec::ArrayVec;

use crate::allows::Seal;
use crate::memory::any_list::AnyList;
use crate::memory::buf::Buf;
use crate::memory::entry::{AnyBuf, Entry};
use crate::memory::implicit::ImplicitBuf;
use crate::memory::list::BufList;
use crate::memory::open_buf::OpenBuf;
use crate::memory::read_only_buf::ReadOnlyBuf;
use crate::memory::shared::SharedBuf;
use crate::sys::types::ibv_sge;
use crate::work::inline::{Empty, Inline, InlineList, InlineSlice};
use crate::work::limits::{AtLeastOne, InlineBytes, Limit, Max, Sges};
use crate::work::opcode::{
    self, CmpAndSwp, FetchAndAdd, RdmaRead, RdmaWrite, RdmaWriteWithImm, SendWithImm,
};
use crate::work::prepared::Placeholder;
use crate::work::recv::Recv;
use crate::work::request::{Check, Emitted, How, WorkRequest};
use crate::work::sge::Sge;
use crate::work::sge_list::SgeList;
use crate::work::with_context::WithContext;
use crate::work::with_id::WithId;

/// Data of a work request (`sg_list` of ibv_post_send(3)), for a queue whose entry type is `E`.
///
/// The completion returns the buffer ([R11.1](crate::guide::rules#r11-1)).
///
/// Use these traits as bounds of functions that pass data on:
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::qp::Max;
/// /// A connection that puts a frame before each message.
/// struct Framed(QueuePair<Rc, Rts>);
///
/// impl Framed {
///     fn send<D>(&mut self, body: D) -> Result<(), PostError<Buf>>
///     where
///         D: wr::Source + wr::Data<Buf> + wr::Fits<Max<1>, Max<64>>, // the entry and the limits of `DefaultProfile`
///     {
///         post_send!(self.0, [wr::Send::inline(b"frame:"), wr::Send::new(body)])
///     }
/// }
/// ```
///
/// The kinds of data:
///
/// ```
/// # use proverbs::prelude::*;
/// fn source<D: wr::Source>() {}
/// fn sink<D: wr::Sink + wr::RecvSink + wr::SrqSink + wr::AtomicSink>() {}
/// source::<Buf>();
/// source::<SharedBuf>();
/// sink::<Buf>(); // not shared buffers: others read them
/// let bytes = *b"8 bytes!";
/// let _: wr::WorkRequest<wr::Send, wr::Inline<'_, 8>> = wr::Send::inline(&bytes);
/// let _: wr::WorkRequest<wr::Send, wr::InlineSlice<'_>> = wr::Send::inline_slice(&bytes[..3]);
/// let parts: [&[u8]; 2] = [&bytes[..3], b"behind"];
/// let _: wr::WorkRequest<wr::Send, wr::InlineList<'_, 2>> = wr::Send::inline_list(parts);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be posted to a queue whose completions return `{E}`",
    label = "completions of this queue return `{E}`",
    note = "name the entry type in the profile, `profile! {{ Lists {{ entry: BufList, max_send_sge: 2 }} }}`, and in the type of the completion queue: `BufList` for several buffers, `Buf<C>` for those with a context `C`, `SharedBuf`, `OpenBuf`, or `AnyBuf` for all of them"
)]
pub trait Data<E: Entry>: sealed::Sealed + sealed::Of<E, This = Self> {
    /// Room for the scatter/gather elements, an array of `ibv_sge`.
    #[doc(hidden)]
    type Sges;

    /// Whether it is always one buffer.
    #[doc(hidden)]
    const IS_ONE: bool = false;

    /// Writes the scatter/gather elements and gives up the handles. `limit` is the limit of a WRITE
    /// or a READ (`Opcode::limit`).
    ///
    /// # Safety
    /// `sges` has room for `Self::Sges`.
    #[doc(hidden)]
    unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<E>;
}

/// The argument of [`Send::new`](crate::wr::Send::new) and of other constructors: data that a work
/// request can name ([R2.10](crate::guide::rules#r2-10)).
///
/// The types that implement [`Source`] or [`Sink`] implement it, and no others. The compiler infers
/// the type of the work request from it. So memory that is not registered causes one error, at
/// `new`, without a second one at the post.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not registered memory, so a work request cannot name it",
    label = "not registered memory",
    note = "give it a buffer by value: `wr::Send::new(buf)`, with a `Buf` of `pool.take()` or a piece of a region, `region.piece(offset, len)`",
    note = "or, to send bytes from anywhere, let the post copy them: `wr::Send::inline(b\"..\")`, `wr::Send::inline_slice(&bytes)`"
)]
pub trait IntoData: sealed::Sealed {
    /// The type of the data: this type.
    type Data;

    #[doc(hidden)]
    fn into_data(self) -> Self::Data;

    /// Calls `see` with each piece.
    #[doc(hidden)]
    fn each_piece(&self, _see: &mut dyn FnMut(&OpenBuf)) {}
}

macro_rules! into_data {
    ($([$($generics:tt)*] $t:ty $(: |$it:ident, $see:ident| $each:expr)?;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> IntoData for $t {
            type Data = Self;

            #[inline(always)]
            fn into_data(self) -> Self {
                self
            }

            $(fn each_piece(&$it, $see: &mut dyn FnMut(&OpenBuf)) {
                $each
            })?
        }

        impl<$($generics)*> sealed::Sealed for $t {}
    )*};
}

into_data! {
    [C: 'static] Buf<C>;
    [] SharedBuf;
    [] OpenBuf: |self, see| see(self);
    [] ReadOnlyBuf;
    [C: 'static, const N: usize] [Buf<C>; N];
    [C: 'static, const N: usize] ArrayVec<Buf<C>, N>;
    [C: 'static] BufList<C>;
    [C: 'static] AnyList<C>: |self, see| self.iter().for_each(|element| {
        if let AnyBuf::Open(piece) = &*element {
            see(piece);
        }
    });
    [const N: usize] [OpenBuf; N]: |self, see| self.iter().for_each(see);
    [const N: usize] [SharedBuf; N];
    [const N: usize] [ReadOnlyBuf; N];
    [C: 'static] (Buf<C>, SharedBuf);
    [C: 'static] (Buf<C>, ReadOnlyBuf);
    [C: 'static] (Buf<C>, OpenBuf): |self, see| see(&self.1);
    [] Empty;
    [] Placeholder;
    [const N: usize] Sge<'_, N>;
    [] SgeList<'_>;
}

/// Several pieces, or a buffer and a piece.
macro_rules! pieces {
    ($($piece:ty)*) => {$(
        pieces!(@of [const N: usize] [$piece; N], N);
        pieces!(@of [C: 'static] (Buf<C>, $piece), 2);
    )*};
    (@of [$($generics:tt)*] $t:ty, $n:tt) => {
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> Source for $t {}
        impl<$($generics)*, M: Limit + Sges<$n>, I: Limit> Fits<M, I> for $t {}
    };
}

pieces! { OpenBuf SharedBuf ReadOnlyBuf }

#[diagnostic::do_not_recommend]
impl<const N: usize> Sink for [OpenBuf; N] {}
#[diagnostic::do_not_recommend]
impl<C: 'static> Sink for (Buf<C>, OpenBuf) {}

/// An opcode or a receive that accepts the data `D`. The rules are [`Source`], [`Sink`],
/// [`RecvSink`] and [`AtomicSink`] ([R2.10](crate::guide::rules#r2-10),
/// [R4.5](crate::guide::rules#r4-5), [R4.1](crate::guide::rules#r4-1)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::wr::{IntoData, Send, Takes};
/// /// Sends any data that a SEND accepts.
/// fn urgent<D: IntoData<Data = D>>(data: D) -> wr::WorkRequest<Send, D>
/// where
///     Send: Takes<D>,
/// {
///     Send::new(data).solicited()
/// }
/// let _ = (urgent::<Buf>, urgent::<SharedBuf>);
/// ```
pub trait Takes<D> {
    #[doc(hidden)]
    const SEAL: Seal;
}

macro_rules! takes {
    ($($rule:ident: $($t:ty)+;)+) => {$($(
        impl<D: $rule> Takes<D> for $t {
            const SEAL: Seal = Seal;
        }
    )+)+};
}

takes! {
    Source: opcode::Send SendWithImm RdmaWrite RdmaWriteWithImm;
    Sink: RdmaRead;
    AtomicSink: CmpAndSwp FetchAndAdd;
    RecvSink: Recv<D>;
}

/// Data that a SEND or an RDMA WRITE can send: the device reads it
/// ([R2.10](crate::guide::rules#r2-10)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the data of a SEND or an RDMA WRITE",
    label = "not registered memory",
    note = "send a `Buf`, an array of them, a `BufList`, a `SharedBuf`, an `OpenBuf` or `wr::Empty`; send unregistered bytes with `inline`, `inline_slice` or `inline_list`"
)]
pub trait Source: IntoData<Data = Self> {}

/// Data that a receive or an RDMA READ can fill: the device writes it
/// ([R4.5](crate::guide::rules#r4-5), [R6.7](crate::guide::rules#r6-7)).
#[diagnostic::on_unimplemented(
    message = "the device cannot write to `{Self}`",
    label = "not writable by the device",
    note = "a receive, an RDMA READ and an atomic's result need exclusive memory with LOCAL_WRITE: a `Buf`, or several"
)]
pub trait Sink: IntoData<Data = Self> {}

/// Memory that a receive can fill: exclusive buffers ([R4.5](crate::guide::rules#r4-5),
/// [R11.2](crate::guide::rules#r11-2)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be posted as a receive",
    label = "not exclusive memory with LOCAL_WRITE",
    note = "a receive needs memory that no other code accesses until its completion: a `Buf`, or several; for a piece of a writable region use `wr::Recv::at(piece)?`"
)]
pub trait RecvSink: Sink {}

/// Memory that a receive of a shared receive queue can fill: at least one buffer, because the
/// number of buffers in its pool limits the number of receives ([R9.9](crate::guide::rules#r9-9)).
/// A receive into a piece also needs such a buffer: before the piece, or only [for its
/// context](Recv::with_context).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be posted to a shared receive queue",
    label = "needs a buffer of the queue's pool",
    note = "post one or several `Buf`s of the pool that the shared receive queue was created with; add one to an empty receive or a receive at a piece, `wr::Recv::empty().with_context(buf)`"
)]
pub trait SrqSink: sealed::Sealed {}

/// Memory for the result of an atomic: the first 8 bytes of one buffer
/// ([R4.1](crate::guide::rules#r4-1)).
#[diagnostic::on_unimplemented(
    message = "the result of an atomic cannot go to `{Self}`",
    label = "not one exclusive buffer",
    note = "an atomic returns 8 bytes: give it one `Buf`"
)]
pub trait AtomicSink: Sink {}

/// Data that is within the SGE limit `M` and the inline capacity `I` of a queue, or a work request
/// with such data ([R3.1](crate::guide::rules#r3-1), [R2.7](crate::guide::rules#r2-7),
/// [R7.10](crate::guide::rules#r7-10)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the data of a work request",
    label = "not registered memory",
    note = "post a `Buf`, several of them, or another handle to registered memory"
)]
pub trait Fits<M: Limit, I: Limit>: sealed::Sealed {}

impl<C: 'static> Source for Buf<C> {}
impl Source for SharedBuf {}
impl Source for OpenBuf {}
impl Source for ReadOnlyBuf {}
impl<C: 'static, const N: usize> Source for [Buf<C>; N] {}
impl<C: 'static, const N: usize> Source for ArrayVec<Buf<C>, N> {}
impl<C: 'static> Source for BufList<C> {}
impl<C: 'static> Source for AnyList<C> {}
impl Source for Empty {}
impl Source for Placeholder {}
impl<const N: usize> Source for Sge<'_, N> {}
impl Source for SgeList<'_> {}

impl<C: 'static> Sink for Buf<C> {}
#[diagnostic::do_not_recommend]
impl Sink for OpenBuf {}
#[diagnostic::do_not_recommend]
impl<C: 'static, const N: usize> Sink for [Buf<C>; N] {}
#[diagnostic::do_not_recommend]
impl<C: 'static, const N: usize> Sink for ArrayVec<Buf<C>, N> {}
#[diagnostic::do_not_recommend]
impl<C: 'static> Sink for BufList<C> {}
#[diagnostic::do_not_recommend]
impl<C: 'static> Sink for AnyList<C> {}
#[diagnostic::do_not_recommend]
impl Sink for Empty {}
#[diagnostic::do_not_recommend]
impl Sink for Placeholder {}
#[diagnostic::do_not_recommend]
impl<const N: usize> Sink for Sge<'_, N> {}
impl Sink for SgeList<'_> {}

impl<C: 'static> RecvSink for Buf<C> {}
impl<C: 'static, const N: usize> RecvSink for [Buf<C>; N] {}
impl<C: 'static, const N: usize> RecvSink for ArrayVec<Buf<C>, N> {}
impl<C: 'static> RecvSink for BufList<C> {}
impl RecvSink for Empty {}
impl<const N: usize> RecvSink for Sge<'_, N> {}
impl RecvSink for SgeList<'_> {}

impl<C: 'static> SrqSink for Buf<C> {}
impl<C: 'static, const N: usize> SrqSink for [Buf<C>; N] where Max<N>: AtLeastOne {}
impl<C: 'static, const N: usize> SrqSink for ArrayVec<Buf<C>, N> {}
impl<C: 'static> SrqSink for BufList<C> {}
impl<C: 'static> SrqSink for AnyList<C> {}
impl<C: 'static> SrqSink for (Buf<C>, OpenBuf) {}
impl<C: 'static, D: Sink> SrqSink for WithContext<D, C> {}
impl<const N: usize> SrqSink for Sge<'_, N> {}
impl SrqSink for SgeList<'_> {}

impl<C: 'static> AtomicSink for Buf<C> {}
#[diagnostic::do_not_recommend]
impl AtomicSink for Placeholder {}
#[diagnostic::do_not_recommend]
impl AtomicSink for Sge<'_, 1> {}

impl<C: 'static, M: Limit + Sges<1>, I: Limit> Fits<M, I> for Buf<C> {}
impl<M: Limit + Sges<1>, I: Limit> Fits<M, I> for SharedBuf {}
impl<M: Limit + Sges<1>, I: Limit> Fits<M, I> for OpenBuf {}
impl<M: Limit + Sges<1>, I: Limit> Fits<M, I> for ReadOnlyBuf {}
impl<T: 'static, O: 'static, M: Limit + Sges<1>, I: Limit> Fits<M, I> for ImplicitBuf<T, O> {}
impl<C: 'static, const N: usize, M: Limit + Sges<N>, I: Limit> Fits<M, I> for [Buf<C>; N] {}
impl<C: 'static, const N: usize, M: Limit + Sges<N>, I: Limit> Fits<M, I> for ArrayVec<Buf<C>, N> {}
impl<C: 'static, M: Limit, I: Limit> Fits<M, I> for BufList<C> {}
impl<C: 'static, M: Limit, I: Limit> Fits<M, I> for AnyList<C> {}
impl<M: Limit, I: Limit> Fits<M, I> for Empty {}
impl<M: Limit, I: Limit> Fits<M, I> for Placeholder {}
impl<const N: usize, M: Limit, I: Limit + InlineBytes<N>> Fits<M, I> for Inline<'_, N> {}
impl<M: Limit, I: Limit> Fits<M, I> for InlineSlice<'_> {}
impl<const N: usize, M: Limit + Sges<N>, I: Limit> Fits<M, I> for InlineList<'_, N> {}
impl<D: Fits<M, I>, M: Limit, I: Limit> Fits<M, I> for WithId<D> {}
impl<D: Fits<M, I>, C: 'static, M: Limit, I: Limit> Fits<M, I> for WithContext<D, C> {}
impl<const N: usize, M: Limit + Sges<N>, I: Limit> Fits<M, I> for Sge<'_, N> {}
impl<M: Limit, I: Limit> Fits<M, I> for SgeList<'_> {}
impl<O, D: Fits<M, I>, A, F, G, M: Limit, I: Limit> Fits<M, I> for WorkRequest<O, D, A, F, G> {}
impl<D: Fits<M, I>, M: Limit, I: Limit> Fits<M, I> for Recv<D> {}

pub(crate) mod sealed {
    use super::*;
    pub trait Sealed {}

    /// The data itself, if it can be posted to a queue with the entry type `E`. If there is no
    /// impl, bounds on `This` are not checked, so the compiler reports only `Data`.
    pub trait Of<E> {
        type This;
    }

    impl<T: 'static, O: 'static> Sealed for ImplicitBuf<T, O> {}
    impl<const N: usize> Sealed for Inline<'_, N> {}
    impl Sealed for InlineSlice<'_> {}
    impl<const N: usize> Sealed for InlineList<'_, N> {}
    impl<D> Sealed for WithId<D> {}
    impl<D, C: 'static> Sealed for WithContext<D, C> {}
    impl<O, D, A, F, G> Sealed for WorkRequest<O, D, A, F, G> {}
    impl<D> Sealed for Recv<D> {}
}
