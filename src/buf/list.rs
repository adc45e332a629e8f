//! Several buffers as one entry: the gather or scatter list of a work request.

#![allow(unsafe_code)] // follows the links between headers

use std::fmt;
use std::marker::PhantomData;

use super::Buf;
use super::header::{Header, word};
use crate::cold::drop_each;

/// The buffers of one work request, in the order of its scatter/gather list (`sg_list` of ibv_post_send(3)).
///
/// It is an iterator, too, that takes them from the front.
///
/// ```
/// # use proverbs::*;
/// # use proverbs::guide::{Ends, ends_of};
/// profile! { Gather { max_send_sge: 4, entry: BufList } }
///
/// # let Ends { mut a, b: _b, mut cq, pool, pd, .. } = ends_of::<Gather>()?;
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
/// a.post_send(RdmaWrite::new(list, region.remote().write()))?;
/// let mut written = proverbs::guide::poll(&mut cq, 1)?.remove(0).ok_or("it had buffers")?;
/// let head = written.pop_front().ok_or("two buffers")?;
/// assert_eq!(&head[..], b"head ");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Invariants
/// `first` is 0, or the address of the first of a chain of headers of pools of `C`, linked by `next`
/// and ended by 0, whose handles this list owns.
pub struct BufList<C: 'static = ()> {
    first: usize,
    _owns: PhantomData<Buf<C>>,
}

// SAFETY: a list owns its buffers, and nothing else.
unsafe impl<C: Send> Send for BufList<C> {}

impl<C> BufList<C> {
    /// A list of no buffers.
    pub fn new() -> Self {
        BufList { first: 0, _owns: PhantomData }
    }

    /// Puts `buf` in front of the others.
    pub fn push_front(&mut self, buf: Buf<C>) {
        buf.header().next.set(self.first);
        self.first = word::of(buf.into_header(), 0);
    }

    /// Takes the first buffer.
    pub fn pop_front(&mut self) -> Option<Buf<C>> {
        if self.first == 0 {
            return None;
        }
        let header = word::address::<Header>(self.first);
        // SAFETY: the list owns the handle, so the header is alive.
        self.first = unsafe { (*header).next.replace(0) };
        // SAFETY: the handle leaves the list here.
        Some(unsafe { Buf::from_header(header) })
    }

    /// The number of buffers, which it has to count.
    pub fn len(&self) -> usize {
        self.headers().count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.first == 0
    }

    /// The bytes of each buffer, up to its length, in order: what a send of the list sends.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.headers().map(|header| {
            // SAFETY: as in `Buf::deref`: the list owns the handle and is borrowed.
            unsafe { std::slice::from_raw_parts(header.addr, header.len() as usize) }
        })
    }

    /// The header of the first buffer.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(crate) unsafe fn first(&self) -> &Header {
        debug_assert!(self.first != 0);
        // SAFETY: the caller's contract, and the list owns the handle.
        unsafe { &*word::address::<Header>(self.first) }
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

    /// # Safety
    /// `word` is that of a list, or of a single buffer, whose handles the caller gives up.
    pub(crate) unsafe fn from_word(word: usize) -> Self {
        let first = word::address::<Header>(word);
        BufList { first: word::of(first, 0), _owns: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn into_word(self) -> usize {
        let word = self.first | word::LIST;
        std::mem::forget(self);
        word
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
