//! Several buffers as one entry: the gather or scatter list of a work request.

#![allow(unsafe_code)] // follows the links between headers

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use arrayvec::ArrayVec;

use crate::memory::Buf;
use crate::memory::chain::Chain;
use crate::memory::header::{Handle, Header, Word, word};

/// The buffers of one work request, in the order of its scatter/gather list (`sg_list` of
/// ibv_post_send(3)).
///
/// Iterating takes the buffers from the front. [`iter`](Self::iter) only borrows them.
///
/// ```
/// # use proverbs::prelude::*;
/// # use proverbs::loopback::{Pair, pair_of};
/// profile! { Gather { max_send_sge: 4, entry: BufList } }
///
/// # let Pair { mut a, b: _b, mut cq, pool, pd, .. } = pair_of::<Gather>()?;
/// let (mut head, mut body) = (pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?);
/// (head.copy_from(b"head ")?, body.copy_from(b"body")?);
/// let mut list = BufList::new();
/// list.push_front(body);
/// list.push_front(head);
/// assert_eq!((list.len(), list.is_empty()), (2, false));
/// assert_eq!(list.segments().collect::<Vec<_>>().concat(), b"head body");
///
/// // One RDMA WRITE of nine bytes, from two buffers.
/// # let region = pd.register::<RemoteWrite>(256)?;
/// a.post_send(wr::RdmaWrite::new(list, region.remote().write()))?;
/// let mut written = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("it had buffers")?;
/// let head = written.pop_front().ok_or("two buffers")?;
/// assert_eq!(&head[..], b"head ");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BufList<C: 'static = ()>(pub(super) Chain<Buf<C>>);

impl<C> BufList<C> {
    /// Creates an empty list.
    pub fn new() -> Self {
        BufList(Chain::new())
    }

    /// Inserts `buf` at the front.
    pub fn push_front(&mut self, buf: Buf<C>) {
        self.0.push(buf);
    }

    /// Appends `buf`. Each call walks the whole list. To build a long list, push to the front or
    /// collect.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let mut list = BufList::new();
    /// for part in [b"head ", b"body "] {
    ///     let mut buf = pool.take().ok_or("no buffer")?;
    ///     buf.copy_from(part)?;
    ///     list.push_back(buf);
    /// }
    /// assert_eq!(list.segments().collect::<Vec<_>>().concat(), b"head body ");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_back(&mut self, buf: Buf<C>) {
        self.0.append(BufList::from([buf]).0);
    }

    /// Borrows the first buffer.
    pub fn front(&self) -> Option<BufRef<'_, C>> {
        self.iter().next()
    }

    /// Borrows the buffers in order.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let list: BufList = pool.take().into_iter().chain(pool.take()).collect();
    /// let first = list.front().map(|buf| buf.capacity());
    /// assert_eq!(list.iter().count(), 2);
    /// assert_eq!(list.iter().map(|buf| buf.capacity()).max(), first);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = BufRef<'_, C>> {
        self.0.addresses().map(|header| {
            // SAFETY: the header belongs to a `Buf<C>` of the list, which stays borrowed while the
            // handle created here exists. That handle is never dropped, and only available as
            // `&Buf`.
            BufRef::new(unsafe { Buf::from_header(header.as_ptr()) })
        })
    }

    /// Removes and returns the first buffer.
    pub fn pop_front(&mut self) -> Option<Buf<C>> {
        self.0.pop()
    }

    /// The number of buffers. Each call counts them.
    pub fn len(&self) -> usize {
        self.headers().count()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.first().is_null()
    }

    /// The bytes of each buffer up to its length, in order: the data that a send of the list
    /// transmits.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.headers().map(|header| {
            // SAFETY: the list owns the handle, so the memory is alive, and no other code accesses
            // it while the list is borrowed. It is initialised, and the length is within the
            // capacity.
            unsafe { std::slice::from_raw_parts(header.addr(), header.len() as usize) }
        })
    }

    /// A list of these buffers in reverse order.
    #[inline(always)]
    fn reversed(bufs: impl Iterator<Item = Buf<C>>) -> Self {
        let mut list = BufList::new();
        bufs.for_each(|buf| list.push_front(buf));
        list
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = &Header> {
        self.0.headers()
    }
}

impl<C: 'static> Word for BufList<C> {
    #[inline(always)]
    fn word(&self) -> usize {
        word::of(self.0.first(), word::LIST)
    }

    /// The word of a single buffer becomes a list of that buffer.
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the word came from a list, or from a buffer by itself. The caller gives it up.
        BufList(unsafe { Chain::from_first(word::address(word)) })
    }

    #[inline(always)]
    unsafe fn first(&self) -> &Header {
        // SAFETY: `first` is the address of a header (not empty, by this function's contract),
        // which is alive because the list owns its handle.
        unsafe { &*self.0.first() }
    }

    unsafe fn received(&self, mut len: u32) {
        for header in self.headers() {
            let here = len.min(header.capacity());
            header.set_len(here);
            len -= here;
        }
    }
}

/// A borrowed element of a [`BufList`] or an [`AnyList`](crate::memory::AnyList). It dereferences
/// to [`Buf`] or [`AnyBuf`](crate::memory::AnyBuf).
pub struct BufRef<'l, C: 'static = (), B = Buf<C>> {
    buf: ManuallyDrop<B>,
    _list: PhantomData<&'l Buf<C>>,
}

impl<C, B> BufRef<'_, C, B> {
    /// `buf` is a copy of the handle of an element. The list stays borrowed for the lifetime of the
    /// result.
    pub(super) fn new(buf: B) -> Self {
        BufRef { buf: ManuallyDrop::new(buf), _list: PhantomData }
    }
}

impl<C, B> Deref for BufRef<'_, C, B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.buf
    }
}

impl_debug!([C, B: std::fmt::Debug] BufRef<'_, C, B>, |it| "BufRef({:?})", **it);

impl<C> Default for BufList<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Iterator for BufList<C> {
    type Item = Buf<C>;

    fn next(&mut self) -> Option<Buf<C>> {
        self.pop_front()
    }
}

impl<C, const N: usize> From<[Buf<C>; N]> for BufList<C> {
    #[inline(always)]
    fn from(bufs: [Buf<C>; N]) -> Self {
        BufList::reversed(bufs.into_iter().rev())
    }
}

impl<C, const N: usize> From<ArrayVec<Buf<C>, N>> for BufList<C> {
    #[inline(always)]
    fn from(bufs: ArrayVec<Buf<C>, N>) -> Self {
        BufList::reversed(bufs.into_iter().rev())
    }
}

impl<C> From<Buf<C>> for BufList<C> {
    #[inline(always)]
    fn from(buf: Buf<C>) -> Self {
        [buf].into()
    }
}

impl<C> FromIterator<Buf<C>> for BufList<C> {
    fn from_iter<I: IntoIterator<Item = Buf<C>>>(bufs: I) -> Self {
        let bufs: Vec<_> = bufs.into_iter().collect();
        BufList::reversed(bufs.into_iter().rev())
    }
}

impl_debug!([C] BufList<C>, |it| "BufList({} buffers)", it.len());
