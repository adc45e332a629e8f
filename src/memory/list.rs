//! Several buffers as one entry: the gather or scatter list of a work request.

#![allow(unsafe_code)] // follows the links between headers

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::cold::drop_each;
use crate::memory::buf::Buf;
use crate::memory::header::{Handle, Header, Word, word};

/// The buffers of one work request, in the order of its scatter/gather list (`sg_list` of
/// ibv_post_send(3)).
///
/// As an iterator it takes them from the front.
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
///
/// # Invariants
/// `first` is 0, or the address of the first of a chain of headers of pools of `C`. The chain is
/// linked by `next` and ended by 0, and this list owns its handles.
pub struct BufList<C: 'static = ()> {
    first: usize,
    _owns: PhantomData<Buf<C>>,
}

// SAFETY: a list owns its buffers, and nothing else.
unsafe impl<C: Send> Send for BufList<C> {}

impl<C> BufList<C> {
    /// An empty list.
    pub fn new() -> Self {
        BufList { first: 0, _owns: PhantomData }
    }

    /// Puts `buf` in front of the others.
    pub fn push_front(&mut self, buf: Buf<C>) {
        buf.header().next.set(self.first);
        self.first = ManuallyDrop::new(buf).word();
    }

    /// Takes the first buffer.
    pub fn pop_front(&mut self) -> Option<Buf<C>> {
        if self.first == 0 {
            return None;
        }
        let header = word::address::<Header>(self.first);
        // SAFETY: the list owns the handle, so the header is alive. The handle leaves the list with
        // the first operation and is given up to the `Buf` with the second.
        unsafe {
            self.first = (*header).next.replace(0);
            Some(Buf::from_header(header))
        }
    }

    /// The number of buffers. It is counted on each call.
    pub fn len(&self) -> usize {
        self.headers().count()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.first == 0
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
        let mut at = self.first;
        std::iter::from_fn(move || {
            if at == 0 {
                return None;
            }
            // SAFETY: the list owns the handles of its chain, so the headers are alive.
            let header = unsafe { &*word::address::<Header>(at) };
            at = header.next.get();
            Some(header)
        })
    }
}

impl<C: 'static> Word for BufList<C> {
    #[inline(always)]
    fn word(&self) -> usize {
        self.first | word::LIST
    }

    /// A word of a single buffer makes a list of it.
    unsafe fn from_word(word: usize) -> Self {
        let first = word::address::<Header>(word);
        BufList { first: word::of(first, 0), _owns: PhantomData }
    }

    #[inline(always)]
    unsafe fn first(&self) -> &Header {
        debug_assert!(self.first != 0);
        // SAFETY: `first` is the address of a header (not empty, by this function's contract),
        // which is alive because the list owns its handle.
        unsafe { &*word::address::<Header>(self.first) }
    }

    unsafe fn received(&self, mut len: u32) {
        for header in self.headers() {
            let here = len.min(header.capacity());
            header.set_len(here);
            len -= here;
        }
    }
}

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

impl<C> Drop for BufList<C> {
    fn drop(&mut self) {
        drop_each(self);
    }
}

impl<C> fmt::Debug for BufList<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufList({} buffers)", self.len())
    }
}
