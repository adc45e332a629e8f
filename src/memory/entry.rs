//! Entries: the values that move to the device with a work request and return with its completion.

#![allow(unsafe_code)] // turns handles into words and back

use crate::memory::header::{Handle, Header, Word, word};
use crate::memory::implicit::ImplicitBuf;
use crate::memory::window::WindowEntry;
use crate::memory::{AnyList, Buf, BufList, OpenBuf, ReadOnlyBuf, SharedBuf};

/// The type of buffer that a work request owns while it is posted and that its completion returns.
/// C uses a `wr_id` instead (ibv_poll_cq(3)).
///
/// It is [`Buf`], [`BufList`], [`SharedBuf`], [`OpenBuf`], [`AnyList`], [`AnyBuf`] for a mixture of
/// them, or [`Raw`] for the `unsafe` path that does no bookkeeping. A posted buffer returns as this
/// type ([R11.1](crate::guide::rules#r11-1)).
///
/// A work request without a buffer, such as one with inline data, has no entry, whatever the type.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Entry;
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// // A queue pair that sends buffers, shared buffers and pieces of open regions:
/// profile! { Mixed { entry: AnyBuf } }
///
/// /// Buffers that came back, of any type.
/// fn count<E: Entry>(returned: &[E]) -> usize {
///     returned.len()
/// }
/// assert_eq!(count::<AnyBuf>(&[]), 0);
/// let cq: CompletionQueue<AnyBuf> = context.create_cq(32)?; // the same entry type
/// pd.create_qp::<Rc, Mixed>(&cq, &cq, Depth { send: 8, recv: 8 })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Entry: Word + 'static {
    /// Calls `see` with every header of the entry.
    #[doc(hidden)]
    fn each_header(&self, see: &mut dyn FnMut(&Header)) {
        // SAFETY: only a list may be empty, and it overrides this method.
        see(unsafe { self.first() });
    }

    /// Whether completions return an entry. False only for `Raw`.
    #[doc(hidden)]
    const OWNED: bool = true;

    /// Whether the entry may be memory whose bytes this process cannot access, such as a piece of a
    /// dma-buf.
    #[doc(hidden)]
    const MAY_BE_OPEN: bool = false;

    /// Whether all handles of the entry are buffers of a pool or an arena. Any thread may return
    /// such buffers, even if the entry is not `Send`.
    #[doc(hidden)]
    const MAY_WAIT: bool = false;

    /// Records that the work request has completed, and whether it succeeded. Memory windows need
    /// this.
    ///
    /// # Safety
    /// The work request has completed with this result.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn completed(&mut self, _is_success: impl FnOnce() -> bool) {}

    /// Records that the work request was rejected, so the device does not own it. Memory windows
    /// need this.
    ///
    /// # Safety
    /// The work request was rejected.
    #[doc(hidden)]
    unsafe fn refused(&mut self) {}

    /// The bytes of the `i`th buffer, up to its length.
    #[doc(hidden)]
    fn segment(&self, _i: usize) -> Option<&[u8]> {
        None
    }
}

/// An entry of the safe posting path: every [`Entry`] except [`Raw`]
/// ([R11.1](crate::guide::rules#r11-1)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Owned;
/// # let proverbs::loopback::Pair { mut cq, .. } = proverbs::loopback::pair()?;
/// /// Polls once and keeps the returned buffers.
/// fn gather<E: Owned>(
///     cq: &mut CompletionQueue<E>,
///     returned: &mut Vec<E>,
/// ) -> Result<(), proverbs::Error> {
///     cq.poll()?.for_each(|completion| returned.extend(completion.into_entry()));
///     Ok(())
/// }
/// let mut returned: Vec<Buf> = Vec::new();
/// gather(&mut cq, &mut returned)?;
/// assert!(returned.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does no bookkeeping: this queue pair posts only with `unsafe`",
    label = "this queue pair's entry is `{Self}`",
    note = "use `post_send_unchecked` or `post_recv_unchecked`, or a profile whose entry is a buffer"
)]
pub trait Owned: Entry {}

/// No entry: the caller chooses the `wr_id` (ibv_post_send(3)) and does the bookkeeping. This is
/// the `unsafe` posting path. [`Sge`](crate::wr::Sge) has an example.
#[derive(Debug)]
pub enum Raw {}

/// A buffer of any kind: the [`Entry`] of a queue pair that posts several kinds.
///
/// ```
/// # use proverbs::prelude::*;
/// profile! { Mixed { entry: AnyBuf } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair_of::<Mixed>()?;
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
    /// The gather or scatter list of a work request, of buffers, pieces or both.
    List(AnyList<C>),
    /// A buffer shared by several handles, from [`Buf::freeze`].
    Shared(SharedBuf),
    /// A piece of a region that peers can access.
    Open(OpenBuf),
    /// A memory window that the work request bound, or whose key it invalidated.
    Window(WindowEntry),
    /// A piece of a region in read-only memory.
    ReadOnlyPiece(ReadOnlyBuf),
    /// Memory of an implicit region.
    /// [`recognize`](crate::ext::on_demand::ImplicitRegion::recognize) restores its type.
    Implicit(ImplicitBuf),
}

impl<C> AnyBuf<C> {
    /// Returns the buffer if this is a [`Buf`](Self::Buf).
    pub fn into_buf(self) -> Option<Buf<C>> {
        match self {
            AnyBuf::Buf(buf) => Some(buf),
            _ => None,
        }
    }

    /// Returns the list if this is a [`List`](Self::List) of buffers only.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// let list: AnyBuf = BufList::new().into();
    /// assert!(list.into_list().is_some_and(|list| list.is_empty()));
    /// ```
    pub fn into_list(self) -> Option<BufList<C>> {
        match self {
            AnyBuf::List(list) => list.into_bufs().ok(),
            _ => None,
        }
    }
}

/// The kinds of handles that are entries by themselves.
macro_rules! handles {
    ($($handle:ident$(<$($of:ident),*>)? = $kind:ident;)*) => {$(
        // SAFETY: the value is one pointer to a header (of a slot, or of an `OwningHandle`), and
        // owns the handle.
        unsafe impl$(<$($of: 'static),*>)? Handle for $handle$(<$($of),*>)? {
            const KIND: usize = word::$kind;
        }
    )*};
}

handles! {
    Buf<C> = EXCLUSIVE;
    SharedBuf = SHARED;
    OpenBuf = OPEN;
    ReadOnlyBuf = READ_ONLY;
    WindowEntry = WINDOW;
    ImplicitBuf<T, O> = IMPLICIT;
}

impl<C: 'static> Entry for Buf<C> {
    // The last buffer of a pool frees it, which drops the contexts.
    const MAY_WAIT: bool = !std::mem::needs_drop::<C>();

    #[inline]
    fn segment(&self, i: usize) -> Option<&[u8]> {
        (i == 0).then_some(&**self)
    }
}

impl Entry for SharedBuf {}
impl Entry for OpenBuf {
    const MAY_BE_OPEN: bool = true;
}
impl Entry for ReadOnlyBuf {}
impl<T: 'static, O: 'static> Entry for ImplicitBuf<T, O> {}

impl<C: 'static> Entry for BufList<C> {
    const MAY_WAIT: bool = Buf::<C>::MAY_WAIT;

    fn each_header(&self, see: &mut dyn FnMut(&Header)) {
        self.headers().for_each(see);
    }

    fn segment(&self, i: usize) -> Option<&[u8]> {
        self.segments().nth(i)
    }
}

impl<C: 'static> Entry for AnyList<C> {
    const MAY_BE_OPEN: bool = true;

    fn each_header(&self, see: &mut dyn FnMut(&Header)) {
        self.headers().for_each(see);
    }

    fn segment(&self, i: usize) -> Option<&[u8]> {
        self.segments().nth(i)
    }
}

/// Applies one expression to the entry, whatever its kind.
macro_rules! with_each {
    ($any:expr, $it:ident => $do:expr) => {
        match $any {
            AnyBuf::Buf($it) => $do,
            AnyBuf::List($it) => $do,
            AnyBuf::Shared($it) => $do,
            AnyBuf::Open($it) => $do,
            AnyBuf::Window($it) => $do,
            AnyBuf::ReadOnlyPiece($it) => $do,
            AnyBuf::Implicit($it) => $do,
        }
    };
}

impl<C: 'static> Word for AnyBuf<C> {
    #[inline]
    fn word(&self) -> usize {
        with_each!(self, entry => entry.word())
    }

    #[inline]
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the caller gives the word up, and its kind names the type whose `word` made it.
        // (A word without a buffer is not an entry and is never passed here.)
        unsafe {
            match word::kind(word) {
                word::SHARED if word & word::IMPLICIT == word::IMPLICIT => {
                    AnyBuf::Implicit(ImplicitBuf::from_word(word))
                }
                word::SHARED => AnyBuf::Shared(SharedBuf::from_word(word)),
                word::LIST
                    if word & word::READ_ONLY == word::READ_ONLY && word & word::RECEIVE == 0 =>
                {
                    AnyBuf::ReadOnlyPiece(ReadOnlyBuf::from_word(word))
                }
                word::LIST => AnyBuf::List(AnyList::from_word(word)),
                word::OPEN if word & word::WINDOW == word::WINDOW && word & word::RECEIVE == 0 => {
                    AnyBuf::Window(WindowEntry::from_word(word))
                }
                word::OPEN => AnyBuf::Open(OpenBuf::from_word(word)),
                _ => AnyBuf::Buf(Buf::from_word(word)),
            }
        }
    }

    #[inline]
    unsafe fn first(&self) -> &Header {
        // SAFETY: a list is not empty (this function's contract).
        unsafe { with_each!(self, entry => entry.first()) }
    }

    unsafe fn received(&self, len: u32) {
        // SAFETY: there is no other reference to the entry (this function's contract), and
        // therefore none to the buffer or list in it.
        unsafe { with_each!(self, entry => entry.received(len)) }
    }
}

impl<C: 'static> Entry for AnyBuf<C> {
    const MAY_BE_OPEN: bool = true;

    fn each_header(&self, see: &mut dyn FnMut(&Header)) {
        match self {
            AnyBuf::List(list) => list.each_header(see),
            // SAFETY: the entry is not a list.
            _ => see(unsafe { self.first() }),
        }
    }

    #[inline(always)]
    unsafe fn completed(&mut self, is_success: impl FnOnce() -> bool) {
        if let AnyBuf::Window(window) = self {
            window.0.completed(is_success());
        }
    }

    unsafe fn refused(&mut self) {
        if let AnyBuf::Window(window) = self {
            window.0.refused();
        }
    }

    fn segment(&self, i: usize) -> Option<&[u8]> {
        match self {
            AnyBuf::Buf(buf) => buf.segment(i),
            AnyBuf::List(list) => list.segment(i),
            _ => None,
        }
    }
}

impl Word for Raw {
    fn word(&self) -> usize {
        match *self {}
    }

    unsafe fn from_word(_: usize) -> Self {
        unreachable!("no value of `Raw` becomes a word")
    }

    unsafe fn first(&self) -> &Header {
        match *self {}
    }

    unsafe fn received(&self, _: u32) {
        match *self {}
    }
}

impl Entry for Raw {
    const OWNED: bool = false;
}

impl<C: 'static> Owned for Buf<C> {}
impl<C: 'static> Owned for BufList<C> {}
impl<C: 'static> Owned for AnyList<C> {}
impl Owned for SharedBuf {}
impl Owned for OpenBuf {}
impl Owned for ReadOnlyBuf {}
impl<T: 'static, O: 'static> Owned for ImplicitBuf<T, O> {}
impl<C: 'static> Owned for AnyBuf<C> {}
