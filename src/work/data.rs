//! Where the bytes of a work request are: a buffer, several, or the work request itself.

#![allow(unsafe_code)] // writes C scatter/gather elements

use arrayvec::ArrayVec;

use crate::memory::buf::Buf;
use crate::memory::entry::{AnyBuf, Entry, Raw};
use crate::memory::header::Header;
use crate::memory::list::BufList;
use crate::memory::open_buf::OpenBuf;
use crate::memory::shared::SharedBuf;
use crate::memory::span::READS_NOTHING;
use crate::sys::types::ibv_sge;
use crate::work::check::{Check, fault};
use crate::work::limits::{AtLeastOne, InlineBytes, Limit, Max, Sges};
use crate::work::sge::Sge;

/// Data of a work request (`sg_list` of ibv_post_send(3)), for a queue whose entry type is `E`.
///
/// These traits are bounds for functions that pass data on:
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
/// What is what:
///
/// ```
/// # use proverbs::prelude::*;
/// fn source<D: wr::Source>() {}
/// fn sink<D: wr::Sink + wr::RecvSink + wr::SrqSink + wr::AtomicSink>() {}
/// source::<Buf>();
/// source::<SharedBuf>();
/// sink::<Buf>(); // shared buffers are none: others read them
/// let bytes = *b"8 bytes!";
/// let _: wr::WorkRequest<wr::Send, wr::Inline<'_, 8>> = wr::Send::inline(&bytes);
/// let _: wr::WorkRequest<wr::Send, wr::InlineSlice<'_>> = wr::Send::inline_slice(&bytes[..3]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be posted to a queue that gives back `{E}`",
    label = "this queue's completions give back `{E}`",
    note = "choose the profile's `Entry` (and the completion queue's) to hold what is posted: `Buf`, `BufList`, `SharedBuf`, `OpenBuf`, or `AnyBuf` for all of them"
)]
pub trait Data<E: Entry>: sealed::Sealed {
    /// An array of `ibv_sge`.
    #[doc(hidden)]
    type Sges;

    /// Whether it is always one buffer.
    #[doc(hidden)]
    const IS_ONE: bool = false;

    /// Writes the scatter/gather elements and gives up the handles. `limit` is that of a WRITE or a
    /// READ (`Opcode::limit`).
    ///
    /// # Safety
    /// `sges` has room for `Self::Sges`.
    #[doc(hidden)]
    unsafe fn emit(
        self,
        sges: *mut ibv_sge,
        use_: Use,
        limit: u32,
        check: &mut Check,
    ) -> Emitted<E>;
}

/// Whether a buffer is sent (its length counts; up to the limit, if that is a WRITE), filled by
/// what a READ brings, or by a receive (its capacity counts), or is an atomic's result.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Send,
    Write,
    Read,
    Fill,
    Atomic,
}

/// The elements written, the entry, and the address of the elements if it is not the slot.
#[doc(hidden)]
pub struct Emitted<E> {
    pub count: i32,
    pub entry: Option<E>,
    pub flags: u32,
    /// The wr_id of the `unsafe` path.
    pub wr_id: u64,
}

/// Data that a SEND or an RDMA WRITE may send: the device reads it (R2.10).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no data for a SEND or an RDMA WRITE",
    label = "not registered memory",
    note = "send a `Buf`, an array of them, a `BufList`, a `SharedBuf`, an `OpenBuf` or `wr::Empty`; bytes that are not registered go with `inline` or `inline_slice` (R2.10)"
)]
pub trait Source: sealed::Sealed {}

/// Data that a receive or an RDMA READ may fill: the device writes it (R4.5, R6.7).
#[diagnostic::on_unimplemented(
    message = "the device cannot write to `{Self}`",
    label = "not writable by the device",
    note = "a receive, an RDMA READ and an atomic's result need exclusive memory with LOCAL_WRITE: a `Buf`, or several (R4.5)"
)]
pub trait Sink: sealed::Sealed {}

/// Memory that a receive may fill: exclusive buffers (R4.5, R11.2).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be posted as a receive",
    label = "not exclusive memory with LOCAL_WRITE",
    note = "a receive needs memory that nobody else touches until its completion: a `Buf`, or several (R4.5, R11.2)"
)]
pub trait RecvSink: Sink {}

/// Memory that a receive of a shared receive queue may fill: at least one buffer, because the
/// buffers of its pool are what bounds how many receives there are (R9.9).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be posted to a shared receive queue",
    label = "no buffer of the queue's pool",
    note = "post a `Buf` of the pool that the shared receive queue was made with, or several"
)]
pub trait SrqSink: RecvSink {}

/// What an atomic may return its result in: one buffer, of which the first 8 bytes are used (R4.1).
#[diagnostic::on_unimplemented(
    message = "the result of an atomic cannot go to `{Self}`",
    label = "not one exclusive buffer",
    note = "an atomic returns 8 bytes: give it one `Buf` (R4.1)"
)]
pub trait AtomicSink: Sink {}

/// Data that fits the SGE limit `M` and the inline capacity `I` of a queue (R3.1, R2.7).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no data of a work request",
    label = "not registered memory",
    note = "post a `Buf`, several of them, or another handle to registered memory (R7.10)"
)]
pub trait Fits<M: Limit, I: Limit>: sealed::Sealed {}

/// No data: a message of zero length (R3.2).
#[derive(Clone, Copy, Debug)]
pub struct Empty;

/// `N` bytes copied into the work request while it is posted (R2.9).
pub struct Inline<'a, const N: usize>(pub(crate) &'a [u8; N]);

/// Bytes copied into the work request while it is posted, their number checked against the inline
/// capacity at that time (R2.7).
pub struct InlineSlice<'a>(pub(crate) &'a [u8]);

/// Most elements of a run-time list of buffers, whatever the profile says.
pub(crate) const MAX_LIST: usize = 32;

/// Writes the element of a buffer. One of no bytes must be left out, because some devices read
/// length 0 as 2^31 (R3.3): its mark says so, and it is looked at before the post.
///
/// A WRITE sends at most `limit` bytes of it. A READ fills its first `limit` bytes, which are its
/// length then, if it has one that changes. What does not fit is marked to be looked at as well, so
/// this costs no more than the comparison.
///
/// # Safety
/// `sge` is writable, and the header belongs to a handle that the caller owns.
#[inline(always)]
unsafe fn emit_one(
    header: &Header,
    sge: *mut ibv_sge,
    (use_, limit): (Use, u32),
    has_len: bool,
    check: &mut Check,
) {
    let element = match use_ {
        Use::Write if header.len() > limit => {
            header.look_seldom();
            header.to_send()
        }
        Use::Send | Use::Write => header.to_send(),
        Use::Read | Use::Fill => header.to_fill(),
        Use::Atomic => {
            // The 8 bytes are what the buffer holds afterwards. One that has fewer is looked at,
            // and does not get far.
            header.set_len(8);
            header.to_send()
        }
    };
    // SAFETY: the slot's element is writable; the header's has the layout of an `ibv_sge`.
    unsafe { sge.cast::<[u64; 2]>().copy_from_nonoverlapping(element, 1) };
    if use_ == Use::Read {
        let mut here = limit;
        // One comparison for what does not fit, and for a READ of nothing, which is left out.
        if limit > header.capacity() {
            header.look_seldom();
            here = if limit == READS_NOTHING { 0 } else { header.capacity() };
        }
        // SAFETY: the slot's element is writable.
        unsafe { (*sge).length = here };
        if has_len {
            header.set_some_len(here);
        }
    }
    check.see(header);
}

macro_rules! single {
    ($t:ty as $e:ty, [$($generics:tt)*], $has_len:expr, $wrap:expr, $header:expr) => {
        impl<$($generics)*> Data<$e> for $t {
            type Sges = [ibv_sge; 1];
            const IS_ONE: bool = true;

            #[inline(always)]
            unsafe fn emit(
                self,
                sges: *mut ibv_sge,
                use_: Use,
                limit: u32,
                check: &mut Check,
            ) -> Emitted<$e> {
                let header: fn(&$t) -> &Header = $header;
                // SAFETY: the caller's contract; the handle is ours.
                unsafe { emit_one(header(&self), sges, (use_, limit), $has_len, check) };
                let wrap: fn($t) -> $e = $wrap;
                Emitted { count: 1, entry: Some(wrap(self)), flags: 0, wr_id: 0 }
            }
        }
    };
}

single!(Buf<C> as Buf<C>, [C: 'static], true, |buf| buf, |buf| buf.header());
single!(Buf<C> as BufList<C>, [C: 'static], true, |buf| [buf].into(), |buf| buf.header());
single!(Buf<C> as AnyBuf<C>, [C: 'static], true, AnyBuf::Buf, |buf| buf.header());
single!(SharedBuf as SharedBuf, [], false, |buf| buf, |buf| buf.0.header());
single!(SharedBuf as AnyBuf<C>, [C: 'static], false, AnyBuf::Shared, |buf| buf.0.header());
single!(OpenBuf as OpenBuf, [], false, |buf| buf, |buf| buf.0.header());
single!(OpenBuf as AnyBuf<C>, [C: 'static], false, AnyBuf::Open, |buf| buf.0.header());

/// No single element of several is compared.
const NO_LIMIT: u32 = u32::MAX;

/// The elements of several buffers, being written.
struct Several {
    use_: Use,
    limit: u32,
    count: usize,
    /// What a READ still brings. Or the sum of the lengths, wrapping: nothing wraps unless some
    /// buffer is looked at, since what is not is so small that the sum is that of a message
    /// (`Books::small`); and what is looked at is measured again.
    bytes: u32,
}

impl Several {
    #[inline(always)]
    fn new(use_: Use, limit: u32) -> Self {
        let is_nothing = use_ != Use::Read || limit == READS_NOTHING;
        Several { use_, limit, count: 0, bytes: if is_nothing { 0 } else { limit } }
    }

    /// Writes the next element.
    ///
    /// # Safety
    /// There is room for it from `sges` on, and the header belongs to a handle that the caller
    /// owns.
    #[inline(always)]
    unsafe fn emit(&mut self, header: &Header, sges: *mut ibv_sge, check: &mut Check) {
        // SAFETY: there is room for one element more.
        let sge = unsafe { sges.add(self.count) };
        self.count += 1;
        let mut here = NO_LIMIT;
        if self.use_ == Use::Read {
            let part = self.bytes.min(header.capacity());
            self.bytes -= part;
            here = if part == 0 { READS_NOTHING } else { part };
        }
        // SAFETY: that element is writable, and the handle the caller's.
        unsafe { emit_one(header, sge, (self.use_, here), true, check) };
        if self.use_ == Use::Write {
            self.bytes = self.bytes.wrapping_add(header.len());
        }
    }

    /// Compares what they have with the limit. Gives their number.
    #[inline(always)]
    fn end(self, check: &mut Check) -> usize {
        let is_beyond = match self.use_ {
            Use::Read => self.bytes != 0,
            Use::Write => self.bytes > self.limit,
            _ => false,
        };
        if is_beyond {
            check.look();
        }
        self.count
    }
}

macro_rules! several {
    ($t:ty as $e:ty, [$($generics:tt)*], $n:expr, $wrap:expr) => {
        impl<$($generics)*> Data<$e> for $t {
            type Sges = [ibv_sge; $n];

            #[inline(always)]
            unsafe fn emit(
                self,
                sges: *mut ibv_sge,
                use_: Use,
                limit: u32,
                check: &mut Check,
            ) -> Emitted<$e> {
                let mut all = Several::new(use_, limit);
                for buf in self.iter() {
                    // SAFETY: there are at most as many buffers as elements; the handle is ours.
                    unsafe { all.emit(buf.header(), sges, check) };
                }
                let count = all.end(check);
                let list: BufList<C> = self.into_iter().rev().fold(
                    BufList::new(),
                    |mut list, buf| { list.push_front(buf); list },
                );
                let entry = (!list.is_empty()).then(|| { let wrap: fn(BufList<C>) -> $e = $wrap; wrap(list) });
                Emitted { count: count as i32, entry, flags: 0, wr_id: 0 }
            }
        }
    };
}

several!([Buf<C>; N] as BufList<C>, [C: 'static, const N: usize], N, |list| list);
several!([Buf<C>; N] as AnyBuf<C>, [C: 'static, const N: usize], N, AnyBuf::List);
several!(ArrayVec<Buf<C>, N> as BufList<C>, [C: 'static, const N: usize], N, |list| list);
several!(ArrayVec<Buf<C>, N> as AnyBuf<C>, [C: 'static, const N: usize], N, AnyBuf::List);

impl<C: 'static, E: From<BufList<C>> + Entry> Data<E> for BufList<C> {
    type Sges = [ibv_sge; MAX_LIST];

    #[inline(always)]
    unsafe fn emit(
        self,
        sges: *mut ibv_sge,
        use_: Use,
        limit: u32,
        check: &mut Check,
    ) -> Emitted<E> {
        let most = check.max_sge();
        let mut all = Several::new(use_, limit);
        for header in self.headers() {
            if all.count == most {
                check.note(fault::SGE);
                break;
            }
            // SAFETY: there are fewer than `most`, which is at most MAX_LIST; the list owns the
            // handle.
            unsafe { all.emit(header, sges, check) };
        }
        let count = all.end(check);
        let entry = (!self.is_empty()).then(|| E::from(self));
        Emitted { count: count as i32, entry, flags: 0, wr_id: 0 }
    }
}

impl<C: 'static> From<BufList<C>> for AnyBuf<C> {
    fn from(list: BufList<C>) -> Self {
        AnyBuf::List(list)
    }
}

/// # Safety
/// `sge` is writable.
#[inline(always)]
unsafe fn emit_inline<E>(bytes: &[u8], sge: *mut ibv_sge) -> Emitted<E> {
    let addr = bytes.as_ptr().expose_provenance() as u64;
    // SAFETY: the slot's element is writable.
    unsafe { sge.write(ibv_sge { addr, length: bytes.len() as u32, lkey: 0 }) };
    let flags = crate::work::flags::SendFlags::INLINE.bits();
    Emitted { count: !bytes.is_empty() as i32, entry: None, flags, wr_id: 0 }
}

impl<E: crate::memory::entry::Owned, const N: usize> Data<E> for Inline<'_, N> {
    type Sges = [ibv_sge; 1];

    #[inline(always)]
    unsafe fn emit(
        self,
        sges: *mut ibv_sge,
        use_: Use,
        limit: u32,
        check: &mut Check,
    ) -> Emitted<E> {
        if use_ == Use::Write && N as u64 > limit.into() {
            check.note(fault::BEYOND);
        }
        // SAFETY: there is room for one element.
        unsafe { emit_inline(self.0, sges) }
    }
}

impl<E: crate::memory::entry::Owned> Data<E> for InlineSlice<'_> {
    type Sges = [ibv_sge; 1];

    #[inline(always)]
    unsafe fn emit(
        self,
        sges: *mut ibv_sge,
        use_: Use,
        limit: u32,
        check: &mut Check,
    ) -> Emitted<E> {
        if self.0.len() > check.max_inline() {
            check.note(fault::INLINE);
        }
        if use_ == Use::Write && self.0.len() as u64 > limit.into() {
            check.note(fault::BEYOND);
        }
        // SAFETY: there is room for one element.
        unsafe { emit_inline(self.0, sges) }
    }
}

impl<E: crate::memory::entry::Owned> Data<E> for Empty {
    type Sges = [ibv_sge; 0];

    #[inline(always)]
    unsafe fn emit(self, _: *mut ibv_sge, use_: Use, limit: u32, check: &mut Check) -> Emitted<E> {
        if use_ == Use::Read && limit != READS_NOTHING {
            check.note(fault::BEYOND);
        }
        Emitted { count: 0, entry: None, flags: 0, wr_id: 0 }
    }
}

impl<const N: usize> Data<Raw> for Sge<'_, N> {
    type Sges = [ibv_sge; N];

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, _: Use, _: u32, _: &mut Check) -> Emitted<Raw> {
        for (i, piece) in self.pieces.iter().enumerate() {
            // SAFETY: there are as many elements as pieces.
            let sge = unsafe { sges.add(i) };
            // SAFETY: the element is writable.
            unsafe { sge.write(piece.sge) };
        }
        Emitted { count: N as i32, entry: None, flags: self.flags, wr_id: self.wr_id }
    }
}

impl<C: 'static> Source for Buf<C> {}
impl Source for SharedBuf {}
impl Source for OpenBuf {}
impl<C: 'static, const N: usize> Source for [Buf<C>; N] {}
impl<C: 'static, const N: usize> Source for ArrayVec<Buf<C>, N> {}
impl<C: 'static> Source for BufList<C> {}
impl Source for Empty {}
impl<const N: usize> Source for Sge<'_, N> {}

impl<C: 'static> Sink for Buf<C> {}
impl Sink for OpenBuf {}
impl<C: 'static, const N: usize> Sink for [Buf<C>; N] {}
impl<C: 'static, const N: usize> Sink for ArrayVec<Buf<C>, N> {}
impl<C: 'static> Sink for BufList<C> {}
impl Sink for Empty {}
impl<const N: usize> Sink for Sge<'_, N> {}

impl<C: 'static> RecvSink for Buf<C> {}
impl<C: 'static, const N: usize> RecvSink for [Buf<C>; N] {}
impl<C: 'static, const N: usize> RecvSink for ArrayVec<Buf<C>, N> {}
impl<C: 'static> RecvSink for BufList<C> {}
impl RecvSink for Empty {}
impl<const N: usize> RecvSink for Sge<'_, N> {}

impl<C: 'static> SrqSink for Buf<C> {}
impl<C: 'static, const N: usize> SrqSink for [Buf<C>; N] where Max<N>: AtLeastOne {}
impl<C: 'static, const N: usize> SrqSink for ArrayVec<Buf<C>, N> {}
impl<C: 'static> SrqSink for BufList<C> {}

impl<C: 'static> AtomicSink for Buf<C> {}
impl AtomicSink for Sge<'_, 1> {}

impl<C: 'static, M: Limit + Sges<1>, I: Limit> Fits<M, I> for Buf<C> {}
impl<M: Limit + Sges<1>, I: Limit> Fits<M, I> for SharedBuf {}
impl<M: Limit + Sges<1>, I: Limit> Fits<M, I> for OpenBuf {}
impl<C: 'static, const N: usize, M: Limit + Sges<N>, I: Limit> Fits<M, I> for [Buf<C>; N] {}
impl<C: 'static, const N: usize, M: Limit + Sges<N>, I: Limit> Fits<M, I> for ArrayVec<Buf<C>, N> {}
impl<C: 'static, M: Limit, I: Limit> Fits<M, I> for BufList<C> {}
impl<M: Limit, I: Limit> Fits<M, I> for Empty {}
impl<const N: usize, M: Limit, I: Limit + InlineBytes<N>> Fits<M, I> for Inline<'_, N> {}
impl<M: Limit, I: Limit> Fits<M, I> for InlineSlice<'_> {}
impl<const N: usize, M: Limit + Sges<N>, I: Limit> Fits<M, I> for Sge<'_, N> {}

/// The word of an entry, 0 without one, without giving it up.
#[inline(always)]
pub(crate) fn peek<E: Entry>(entry: Option<E>) -> (usize, Option<E>) {
    match entry {
        None => (0, None),
        Some(entry) => {
            // SAFETY: the copy becomes a word, which owns nothing: the entry itself stays.
            let copy = unsafe { std::ptr::read(&entry) };
            (copy.into_word(), Some(entry))
        }
    }
}

mod sealed {
    use super::*;
    pub trait Sealed {}
    impl<C: 'static> Sealed for Buf<C> {}
    impl Sealed for SharedBuf {}
    impl Sealed for OpenBuf {}
    impl<C: 'static, const N: usize> Sealed for [Buf<C>; N] {}
    impl<C: 'static, const N: usize> Sealed for ArrayVec<Buf<C>, N> {}
    impl<C: 'static> Sealed for BufList<C> {}
    impl Sealed for Empty {}
    impl<const N: usize> Sealed for Inline<'_, N> {}
    impl Sealed for InlineSlice<'_> {}
    impl<const N: usize> Sealed for Sge<'_, N> {}
}
