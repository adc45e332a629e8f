//! A buffer that travels with a work request for its context only.

#![allow(unsafe_code)] // declares an unsafe method

use crate::allows::{Allows, RuledBy, call};
use crate::counters::type_tag;
use crate::memory::any_list::AnyList;
use crate::memory::buf::Buf;
use crate::memory::entry::Entry;
use crate::memory::header::Handle;
use crate::memory::list::BufList;
use crate::memory::open_buf::OpenBuf;
use crate::memory::read_only_buf::ReadOnlyBuf;
use crate::memory::shared::SharedBuf;
use crate::sys::types::ibv_sge;
use crate::work::data::{Data, sealed};
use crate::work::inline::{Empty, Inline, InlineList, InlineSlice};
use crate::work::recv::Recv;
use crate::work::request::{Check, Emitted, How, Use, WorkRequest};
use crate::work::with_id::NoBuffer;

/// Data that does not contain a [`Buf`], and a buffer whose context the completion returns: see
/// [`with_context`](WorkRequest::with_context).
#[derive(Debug)]
pub struct WithContext<D, C: 'static = ()> {
    pub(super) data: D,
    buf: Buf<C>,
}

/// Data whose completion does not return a context: bytes without a buffer, and pieces
/// ([R17.7](crate::guide::rules#r17-7)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot carry a buffer for its context",
    label = "not a piece, not inline, and not `wr::Empty`",
    note = "a `Buf` comes back with its own context; a list may begin with a `Buf`"
)]
pub trait NoContext: sealed::Sealed {}

impl<const N: usize> NoContext for Inline<'_, N> {}
impl NoContext for InlineSlice<'_> {}
impl<const N: usize> NoContext for InlineList<'_, N> {}
impl NoContext for Empty {}
impl NoContext for OpenBuf {}
impl NoContext for SharedBuf {}
impl NoContext for ReadOnlyBuf {}
impl<const N: usize> NoContext for [OpenBuf; N] {}
impl<const N: usize> NoContext for [SharedBuf; N] {}
impl<const N: usize> NoContext for [ReadOnlyBuf; N] {}

allows! { [R: RuledBy<call::WithContext, Part: NoContext>] R: WithContext; }

ruled_by! { WithContext: [O, D, A, F, G] WorkRequest<O, D, A, F, G>, D; [D] Recv<D>, D; }

impl<O, D, A, F, G> WorkRequest<O, D, A, F, G> {
    /// Adds a buffer for its context only: the completion returns the buffer, and its bytes are not
    /// sent. C programs use the `wr_id` for this (ibv_post_send(3)). The data must be inline,
    /// [`Empty`](crate::wr::Empty), or pieces of regions.
    ///
    /// The entry of the completion is the buffer. If the entry type is
    /// [`AnyBuf`](crate::memory::AnyBuf), the entry is a list: first the buffer, then the pieces.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Tasks { entry: AnyBuf<String> } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Tasks>()?;
    /// # let theirs = pd.register::<RemoteWrite>(64)?;
    /// # let at = theirs.remote().write();
    /// // Small buffers, for their contexts.
    /// let tasks = pd.pool(8).contexts(|_| String::new()).create(8)?;
    /// let blocks = pd.register::<LocalWrite>(4096)?;
    /// let mut task = tasks.take().ok_or("too many tasks")?;
    /// task.context_mut().push_str("of block 3");
    /// a.post_send(wr::RdmaWrite::new(blocks.piece(1536, 32)?, at).with_context(task))?;
    ///
    /// let entry = proverbs::loopback::poll(&mut cq, 1)?.remove(0);
    /// let Some(AnyBuf::List(mut list)) = entry else { return Err("it had a list".into()) };
    /// let task = list.pop_front().and_then(AnyBuf::into_buf).ok_or("the first")?;
    /// assert_eq!((task.context().as_str(), list.len()), ("of block 3", 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn with_context<C>(self, buf: Buf<C>) -> WorkRequest<O, WithContext<D, C>, A, F, G>
    where
        Self: Allows<call::WithContext>,
    {
        self.with_data(|data| WithContext { data, buf })
    }
}

impl<D> Recv<D> {
    /// Adds a buffer for its context only, to an empty receive or to a receive
    /// [at a piece](Recv::at). The completion returns it, as for
    /// [`WorkRequest::with_context`](crate::wr::WorkRequest::with_context).
    ///
    /// The message does not use the bytes of the buffer. The buffer comes back narrowed to zero
    /// bytes; [`Buf::widen`] restores them. If you post it again without `widen`, it receives
    /// nothing ([R3.3](crate::guide::rules#r3-3)).
    ///
    /// Each receive of a shared receive queue needs a buffer of the queue's pool
    /// ([R9.9](crate::guide::rules#r9-9)). With this method, you can also post empty receives and
    /// receives at a piece there:
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, pool, .. } = proverbs::loopback::pair()?;
    /// let mut srq: SharedReceiveQueue<Rc, AnyBuf> = pd.create_srq(&pool)?;
    /// let cache = pd.register::<LocalWrite>(1 << 16)?;
    /// let mut take = || pool.take().ok_or("no buffer");
    /// srq.post_srq_recv(wr::Recv::empty().with_context(take()?))?;
    /// srq.post_srq_recv(wr::Recv::at(cache.piece(4096, 512)?)?.with_context(take()?))?;
    /// assert_eq!(srq.recvs_outstanding(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn with_context<C>(self, buf: Buf<C>) -> Recv<WithContext<D, C>>
    where
        Self: Allows<call::WithContext>,
    {
        Recv { data: WithContext { data: self.data, buf } }
    }
}

impl<D, C: 'static> WithContext<D, C> {
    /// Writes the elements of the data. `see` puts the buffer before the entry of the data.
    ///
    /// # Safety
    /// As for `Data::emit`.
    #[inline(always)]
    unsafe fn emit_as<E: Entry, F: Entry>(
        self,
        sges: *mut ibv_sge,
        how: How,
        check: &mut Check,
        join: impl FnOnce(Buf<C>, Option<E>) -> F,
    ) -> Emitted<F>
    where
        D: Data<E>,
    {
        let before = check.seen;
        // SAFETY: there is room for the same elements.
        let emitted = unsafe { self.data.emit(sges, how, check) };
        // The buffer is first, so the data is behind it, as in `Gather::emit`.
        check.seen = before | type_tag::of_any_pool(check.seen);
        let header = self.buf.header();
        if how.use_ == Use::Fill {
            header.set_bytes(header.addr(), 0, 0);
        }
        check.see(type_tag::of_any_size(header.type_tag()));
        let Emitted { sges, count, entry, flags, wr_id } = emitted;
        Emitted { sges, count, entry: Some(join(self.buf, entry)), flags, wr_id }
    }
}

impl<C: 'static, E: From<AnyList<C>> + Entry, D: Data<AnyList<C>>> sealed::Of<E>
    for WithContext<D, C>
{
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<C: 'static, E: From<AnyList<C>> + Entry, D: Data<AnyList<C>>> Data<E> for WithContext<D, C> {
    type Sges = D::Sges;

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<E> {
        // SAFETY: the contract of this function is the same.
        unsafe {
            self.emit_as(sges, how, check, |buf, list: Option<AnyList<C>>| {
                let mut list = list.unwrap_or_default();
                list.push_front(buf);
                E::from(list)
            })
        }
    }
}

macro_rules! without_pieces {
    ($($entry:ident)*) => {$(
        impl<C: 'static, D: NoBuffer + Data<$entry<C>>> sealed::Of<$entry<C>> for WithContext<D, C> {
            type This = Self;
        }

        #[diagnostic::do_not_recommend]
        impl<C: 'static, D: NoBuffer + Data<$entry<C>>> Data<$entry<C>> for WithContext<D, C> {
            type Sges = D::Sges;

            #[inline(always)]
            unsafe fn emit(
                self,
                sges: *mut ibv_sge,
                how: How,
                check: &mut Check,
            ) -> Emitted<$entry<C>> {
                // SAFETY: the contract of this function is the same.
                unsafe { self.emit_as(sges, how, check, |buf, _: Option<$entry<C>>| buf.into()) }
            }
        }
    )*};
}

without_pieces! { Buf BufList }
