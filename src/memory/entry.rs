//! Entries: what moves to the device with a work request and comes back with its completion.

#![allow(unsafe_code)] // turns handles into words and back

use crate::counters::word;
use crate::memory::buf::Buf;
use crate::memory::header::Header;
use crate::memory::lent::Lent;
use crate::memory::list::BufList;
use crate::memory::open_buf::OpenBuf;
use crate::memory::shared::SharedBuf;

/// What a completion queue gives back, where C has a `wr_id` (ibv_poll_cq(3)): [`Buf`],
/// [`BufList`], [`SharedBuf`], [`OpenBuf`], [`AnyBuf`] for a mixture of them, or [`Raw`] for the
/// `unsafe` path that keeps no books.
///
/// A work request without a buffer (inline data, or no data) has no entry, whatever the type.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Entry;
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// // A queue pair that sends buffers, shared buffers and pieces of open regions:
/// profile! { Mixed { entry: AnyBuf } }
///
/// /// Buffers that came home, of whatever type.
/// fn count<E: Entry>(home: &[E]) -> usize {
///     home.len()
/// }
/// assert_eq!(count::<AnyBuf>(&[]), 0);
/// let cq: CompletionQueue<AnyBuf> = context.create_cq(32)?; // the same entry
/// pd.create_qp::<Rc, Mixed>(&cq, &cq, Depth { send: 8, recv: 8 })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Entry: sealed::Sealed + Sized + 'static {
    /// # Safety
    /// `word` came from `into_word` of the same type, and the caller gives it up.
    #[doc(hidden)]
    unsafe fn from_word(word: usize) -> Self;

    /// Like `from_word`, for a word that stayed in the program and never was a wr_id: its only tag
    /// is its kind.
    ///
    /// # Safety
    /// As for `from_word`: the word came from `into_word` of the same type and is given up.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn from_kept(word: usize) -> Self {
        // SAFETY: this function asks for the same as `from_word`.
        unsafe { Self::from_word(word) }
    }

    /// The handle as a word with its kind in the tag bits.
    #[doc(hidden)]
    fn into_word(self) -> usize;

    /// The header of the handle; the first one's for a list.
    ///
    /// # Safety
    /// The entry is not an empty list. (A work request without a buffer has no entry.)
    #[doc(hidden)]
    unsafe fn header(&self) -> &Header;

    /// Every header of the entry.
    #[doc(hidden)]
    fn each_header(&self, see: &mut dyn FnMut(&Header)) {
        // SAFETY: a list, which alone may be empty, overrides this method.
        see(unsafe { self.header() });
    }

    /// Whether a completion brings an entry back: false only for `Raw`.
    #[doc(hidden)]
    const OWNED: bool = true;

    /// Sets the lengths of the buffers to the `len` bytes that arrived, in order.
    #[doc(hidden)]
    fn received(&mut self, _len: usize) {}

    /// The bytes of the `i`th buffer, up to its length.
    #[doc(hidden)]
    fn segment(&self, _i: usize) -> Option<&[u8]> {
        None
    }
}

/// An entry of the safe path: every [`Entry`] but [`Raw`] (R11.1).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Owned;
/// # let proverbs::loopback::Pair { mut cq, .. } = proverbs::loopback::pair()?;
/// /// Polls once and keeps what came home.
/// fn gather<E: Owned>(cq: &mut CompletionQueue<E>, home: &mut Vec<E>) -> Result<(), proverbs::Error> {
///     cq.poll()?.for_each(|completion| home.extend(completion.into_entry()));
///     Ok(())
/// }
/// let mut home: Vec<Buf> = Vec::new();
/// gather(&mut cq, &mut home)?;
/// assert!(home.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` keeps no books: this queue pair posts only with `unsafe`",
    label = "this queue pair's entry is `{Self}`",
    note = "use `post_send_unchecked` or `post_recv_unchecked`, or a profile whose entry is a buffer"
)]
pub trait Owned: Entry {}

/// No entry: the caller chooses the `wr_id` (ibv_post_send(3)) and keeps the books. This is the
/// `unsafe` path; [`Sge`](crate::wr::Sge) has an example.
pub enum Raw {}

/// Any buffer: the [`Entry`] of a queue pair that posts several kinds.
///
/// ```
/// # use proverbs::prelude::*;
/// profile! { Mixed { entry: AnyBuf } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::loopback::pair_of::<Mixed>()?;
/// # let region = pd.register::<RemoteAll>(256)?;
/// # let at = region.remote();
/// a.post_send(wr::RdmaRead::new(pool.take().ok_or("no buffer")?, at.read()))?;
/// a.post_send(wr::RdmaWrite::new(pool.take().ok_or("no buffer")?.freeze(), at.write()))?;
/// a.post_send(wr::RdmaWrite::new(region.piece(0, 8)?, at.write()))?;
/// let mut bufs = 0;
/// for entry in proverbs::loopback::poll(&mut cq, 3)?.into_iter().flatten() {
///     match entry {
///         AnyBuf::Shared(shared) => assert_eq!(shared.len(), 256),
///         AnyBuf::Open(piece) => assert_eq!(piece.len(), 8),
///         other => bufs += other.into_buf().is_some() as u32, // or `into_list`
///     }
/// }
/// assert_eq!(bufs, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum AnyBuf<C: 'static = ()> {
    /// An exclusive buffer.
    Buf(Buf<C>),
    /// The gather or scatter list of a work request.
    List(BufList<C>),
    /// A read-only buffer.
    Shared(SharedBuf),
    /// A piece of a region that is open to the fabric.
    Open(OpenBuf),
}

impl<C> AnyBuf<C> {
    /// The exclusive buffer, if it is one.
    pub fn into_buf(self) -> Option<Buf<C>> {
        match self {
            AnyBuf::Buf(buf) => Some(buf),
            _ => None,
        }
    }

    /// The list, if it is one.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// let list: AnyBuf = BufList::new().into();
    /// assert!(list.into_list().is_some_and(|list| list.is_empty()));
    /// ```
    pub fn into_list(self) -> Option<BufList<C>> {
        match self {
            AnyBuf::List(list) => Some(list),
            _ => None,
        }
    }
}

impl<C: 'static> Entry for Buf<C> {
    #[inline(always)]
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the word is that of a `Buf<C>`, which the caller gives up.
        unsafe { Buf::from_header(word::address(word)) }
    }

    #[inline(always)]
    unsafe fn from_kept(word: usize) -> Self {
        const { assert!(word::EXCLUSIVE == 0) };
        // SAFETY: the word is that of a `Buf<C>`, given up by the caller. Its kind is 0 and it has
        // no other tags, so it is the header's address.
        unsafe { Buf::from_header(std::ptr::with_exposed_provenance_mut(word)) }
    }

    #[inline(always)]
    unsafe fn header(&self) -> &Header {
        Buf::header(self)
    }

    #[inline(always)]
    fn into_word(self) -> usize {
        word::of(self.into_header(), word::EXCLUSIVE)
    }

    #[inline(always)]
    fn received(&mut self, len: usize) {
        self.set_len(len);
    }

    #[inline]
    fn segment(&self, i: usize) -> Option<&[u8]> {
        (i == 0).then_some(&**self)
    }
}

impl<C: 'static> Entry for BufList<C> {
    #[inline(always)]
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the word is that of a list, which the caller gives up.
        unsafe { BufList::from_word(word) }
    }

    #[inline(always)]
    unsafe fn header(&self) -> &Header {
        // SAFETY: the list is not empty (this function's contract).
        unsafe { BufList::first(self) }
    }

    fn each_header(&self, see: &mut dyn FnMut(&Header)) {
        self.headers().for_each(see);
    }

    #[inline(always)]
    fn into_word(self) -> usize {
        BufList::into_word(self)
    }

    fn received(&mut self, mut len: usize) {
        for header in self.headers() {
            let here = len.min(header.capacity() as usize);
            header.set_len(here as u32);
            len -= here;
        }
    }

    fn segment(&self, i: usize) -> Option<&[u8]> {
        self.segments().nth(i)
    }
}

impl Entry for SharedBuf {
    #[inline(always)]
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the word is that of a `SharedBuf`, which the caller gives up.
        SharedBuf(unsafe { Lent::from_header(word::address::<Header>(word)) })
    }

    #[inline(always)]
    unsafe fn header(&self) -> &Header {
        self.0.header()
    }

    #[inline(always)]
    fn into_word(self) -> usize {
        word::of(self.0.into_header(), word::SHARED)
    }
}

impl Entry for OpenBuf {
    #[inline(always)]
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the word is that of an `OpenBuf`, which the caller gives up.
        OpenBuf(unsafe { Lent::from_header(word::address::<Header>(word)) })
    }

    #[inline(always)]
    unsafe fn header(&self) -> &Header {
        self.0.header()
    }

    #[inline(always)]
    fn into_word(self) -> usize {
        word::of(self.0.into_header(), word::OPEN)
    }
}

impl<C: 'static> Entry for AnyBuf<C> {
    #[inline]
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the caller gives the word up, and its kind names the type whose `into_word` made
        // it. (A word without a buffer is no entry and is never passed here.)
        unsafe {
            match word::kind(word) {
                word::SHARED => AnyBuf::Shared(SharedBuf::from_word(word)),
                word::LIST => AnyBuf::List(BufList::from_word(word)),
                word::OPEN => AnyBuf::Open(OpenBuf::from_word(word)),
                _ => AnyBuf::Buf(Buf::from_word(word)),
            }
        }
    }

    #[inline]
    unsafe fn header(&self) -> &Header {
        match self {
            AnyBuf::Buf(buf) => buf.header(),
            // SAFETY: the list is not empty (this function's contract).
            AnyBuf::List(list) => unsafe { list.first() },
            AnyBuf::Shared(buf) => buf.0.header(),
            AnyBuf::Open(buf) => buf.0.header(),
        }
    }

    fn each_header(&self, see: &mut dyn FnMut(&Header)) {
        match self {
            AnyBuf::List(list) => list.each_header(see),
            // SAFETY: the entry is not a list.
            _ => see(unsafe { self.header() }),
        }
    }

    #[inline]
    fn into_word(self) -> usize {
        match self {
            AnyBuf::Buf(buf) => buf.into_word(),
            AnyBuf::List(list) => Entry::into_word(list),
            AnyBuf::Shared(buf) => buf.into_word(),
            AnyBuf::Open(buf) => buf.into_word(),
        }
    }

    fn received(&mut self, len: usize) {
        match self {
            AnyBuf::Buf(buf) => buf.received(len),
            AnyBuf::List(list) => list.received(len),
            AnyBuf::Shared(_) | AnyBuf::Open(_) => {}
        }
    }

    fn segment(&self, i: usize) -> Option<&[u8]> {
        match self {
            AnyBuf::Buf(buf) => buf.segment(i),
            AnyBuf::List(list) => list.segment(i),
            AnyBuf::Shared(_) | AnyBuf::Open(_) => None,
        }
    }
}

impl Entry for Raw {
    const OWNED: bool = false;

    unsafe fn from_word(_: usize) -> Self {
        unreachable!("no value of `Raw` becomes a word")
    }

    unsafe fn header(&self) -> &Header {
        match *self {}
    }

    fn into_word(self) -> usize {
        match self {}
    }
}

impl<C: 'static> Owned for Buf<C> {}
impl<C: 'static> Owned for BufList<C> {}
impl Owned for SharedBuf {}
impl Owned for OpenBuf {}
impl<C: 'static> Owned for AnyBuf<C> {}

mod sealed {
    use super::*;
    pub trait Sealed {}
    impl<C: 'static> Sealed for Buf<C> {}
    impl<C: 'static> Sealed for BufList<C> {}
    impl Sealed for SharedBuf {}
    impl Sealed for OpenBuf {}
    impl<C: 'static> Sealed for AnyBuf<C> {}
    impl Sealed for Raw {}
}
