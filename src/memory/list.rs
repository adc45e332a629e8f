//! Several buffers as one entry: the gather or scatter list of a work request.

#![allow(unsafe_code)] // follows the links between headers

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use crate::memory::Buf;
use crate::memory::chain::Chain;
use crate::memory::header::{Handle, Header, Word, word};

/// The buffers of one work request, in the order of its scatter/gather list (`sg_list` of
/// ibv_post_send(3)).
///
/// As an iterator it takes them from the front; [`iter`](Self::iter) looks at them in place.
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
pub struct BufList<C: 'static = ()>(Chain<Buf<C>>);

impl<C> BufList<C> {
    /// An empty list.
    pub fn new() -> Self {
        BufList(Chain::new())
    }

    /// Puts `buf` in front of the others.
    pub fn push_front(&mut self, buf: Buf<C>) {
        self.0.push(buf);
    }

    /// Puts `buf` behind the others. This walks through the list: to build a long one, put buffers
    /// in front, or collect them.
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
        self.0.push_back(buf);
    }

    /// The first buffer, which stays in the list.
    pub fn front(&self) -> Option<BufRef<'_, C>> {
        self.iter().next()
    }

    /// The buffers in order, which stay in the list.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let list: BufList = pool.take().into_iter().chain(pool.take()).collect();
    /// assert_eq!(list.iter().map(|buf| buf.capacity()).sum::<usize>(), 2 * pool.size());
    /// assert_eq!(list.front().map(|buf| buf.len()), Some(pool.size()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = BufRef<'_, C>> {
        self.0.addresses().map(|header| {
            // SAFETY: the header is of a `Buf<C>` of the list, which is borrowed as long as the
            // handle made here. This one is never dropped, and only lent as `&Buf`.
            let buf = unsafe { Buf::from_header(header.as_ptr()) };
            BufRef { buf: ManuallyDrop::new(buf), _list: PhantomData }
        })
    }

    /// Takes the first buffer.
    pub fn pop_front(&mut self) -> Option<Buf<C>> {
        self.0.pop()
    }

    /// The number of buffers. It is counted on each call.
    pub fn len(&self) -> usize {
        self.headers().count()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.first().is_null()
    }

    /// The bytes of each buffer, up to its length, in order: what a send of the list sends.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.headers().map(|header| {
            // SAFETY: the list owns the handle, so the memory is alive and no one else touches it
            // while the list is borrowed. It is initialised, and the length is within the capacity.
            unsafe { std::slice::from_raw_parts(header.addr(), header.len() as usize) }
        })
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

    /// A word of a single buffer makes a list of it.
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the word is that of a list, or of a buffer by itself, given up by the caller.
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

/// A buffer that is in a [`BufList`]: a `&Buf`.
pub struct BufRef<'l, C: 'static = ()> {
    buf: ManuallyDrop<Buf<C>>,
    _list: PhantomData<&'l BufList<C>>,
}

impl<C> Deref for BufRef<'_, C> {
    type Target = Buf<C>;

    fn deref(&self) -> &Buf<C> {
        &self.buf
    }
}

impl_debug!([C] BufRef<'_, C>, |it| "BufRef({} bytes)", it.len());

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
        let mut list = BufList::new();
        for buf in bufs.into_iter().rev() {
            list.push_front(buf);
        }
        list
    }
}

impl<C> FromIterator<Buf<C>> for BufList<C> {
    fn from_iter<I: IntoIterator<Item = Buf<C>>>(bufs: I) -> Self {
        let bufs: Vec<_> = bufs.into_iter().collect();
        let mut list = BufList::new();
        for buf in bufs.into_iter().rev() {
            list.push_front(buf);
        }
        list
    }
}

impl_debug!([C] BufList<C>, |it| "BufList({} buffers)", it.len());
