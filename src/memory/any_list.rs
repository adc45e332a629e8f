//! Handles of several kinds as one entry: buffers and pieces of regions in one gather or scatter
//! list.

#![allow(unsafe_code)] // follows the links between headers

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::memory::any_handle::AnyHandle;
use crate::memory::chain::Chain;
use crate::memory::header::{Handle, Header, Word, word};
use crate::memory::list::BufRef;
use crate::memory::{AnyBuf, Buf, BufList, OpenBuf, ReadOnlyBuf, SharedBuf};

/// The kind of a handle in a list.
#[inline(always)]
fn kind(header: &Header) -> usize {
    header.link.next().addr() & word::TAGS
}

/// The buffers and pieces of one work request, in the order of its scatter/gather list (`sg_list`
/// of ibv_post_send(3)): each is a [`Buf`], an [`OpenBuf`], a [`SharedBuf`] or a [`ReadOnlyBuf`].
///
/// Arrays of pieces, and pairs of a buffer and a piece, can be posted directly. Use a list if the
/// number of elements is known at run time. A post rejects a list with more elements than the queue
/// allows ([`TooManySge`](crate::post::PostErrorKind::TooManySge)). It also rejects a READ or a
/// receive whose list contains an element that the device may not write
/// ([`NotWritable`](crate::post::PostErrorKind::NotWritable)).
///
/// Iterating takes the elements from the front. [`iter`](Self::iter) only borrows them.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::AnyList;
/// profile! { Capsules { max_send_sge: 4, entry: AnyList } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair_of::<Capsules>()?;
/// # let theirs = pd.register::<RemoteWrite>(64)?;
/// # let at = theirs.remote().write();
/// let blocks = pd.register::<LocalWrite>(1 << 16)?;
/// blocks.write_at(0, b"block 0")?;
/// blocks.write_at(4096, b"block 1")?;
/// let mut header = pool.take().ok_or("no buffer")?;
/// header.copy_from(b"two blocks: ")?;
///
/// let mut list: AnyList = [blocks.piece(0, 7)?, blocks.piece(4096, 7)?].into_iter().collect();
/// list.push_front(header);
/// a.post_send(wr::RdmaWrite::new(list, at))?;
///
/// let mut written = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("it had a list")?;
/// let header = written.pop_front().and_then(AnyBuf::into_buf).ok_or("a buffer")?;
/// assert_eq!((&header[..], written.len()), (&b"two blocks: "[..], 2));
/// let mut there = [0; 26];
/// theirs.read_at(0, &mut there)?;
/// assert_eq!(&there, b"two blocks: block 0block 1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// Invariants: buffers in the list have a context `C`. Each `OwningHandle` is one of the four kinds,
// and the tag of its link says which.
pub struct AnyList<C: 'static = ()>(Chain<AnyHandle>, PhantomData<Buf<C>>);

impl<C> AnyList<C> {
    /// Creates an empty list.
    pub fn new() -> Self {
        AnyList(Chain::new(), PhantomData)
    }

    /// Inserts a handle at the front, or all handles of another list.
    #[inline(always)]
    pub fn push_front(&mut self, handles: impl Into<AnyList<C>>) {
        let mut handles: AnyList<C> = handles.into();
        handles.0.append(std::mem::replace(&mut self.0, Chain::new()));
        self.0 = handles.0;
    }

    /// Appends a handle, or all handles of another list. Each call walks the whole list. To build a
    /// long list, push to the front or collect.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::AnyList;
    /// # let proverbs::loopback::Pair { pd, pool, .. } = proverbs::loopback::pair()?;
    /// let region = pd.register::<LocalWrite>(64)?;
    /// let mut list = AnyList::new();
    /// list.push_back(pool.take().ok_or("no buffer")?);
    /// list.push_back(region.piece(8, 8)?);
    /// list.push_back([region.piece(16, 8)?, region.piece(0, 8)?]);
    /// assert_eq!((list.len(), list.iter().count()), (4, 4));
    /// assert!(matches!(list.front().as_deref(), Some(AnyBuf::Buf(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_back(&mut self, handles: impl Into<AnyList<C>>) {
        self.0.append(handles.into().0);
    }

    /// Removes and returns the first element.
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<AnyBuf<C>> {
        let kind = kind(self.headers().next()?);
        let handle = ManuallyDrop::new(self.0.pop()?);
        // SAFETY: the handle left the list and is given up.
        Some(unsafe { Self::element(handle.at(), kind) })
    }

    /// Borrows the first element.
    pub fn front(&self) -> Option<BufRef<'_, C, AnyBuf<C>>> {
        self.iter().next()
    }

    /// Borrows the elements in order.
    pub fn iter(&self) -> impl Iterator<Item = BufRef<'_, C, AnyBuf<C>>> {
        self.0.addresses().map(|header| {
            // SAFETY: the header belongs to a handle of the list, which stays borrowed while the
            // handle created here exists. That handle is never dropped, and only available behind a
            // reference.
            BufRef::new(unsafe { Self::element(header.as_ptr(), kind(header.as_ref())) })
        })
    }

    /// Converts the list to a [`BufList`] if all of its elements are [`Buf`]s.
    ///
    /// # Errors
    /// The list, if it contains another kind of element.
    pub fn into_bufs(self) -> Result<BufList<C>, Self> {
        if !self.headers().all(Header::is_of_buf) {
            return Err(self);
        }
        let first = ManuallyDrop::new(self).0.first();
        // SAFETY: the handles were given up. They are buffers of `C`.
        Ok(BufList(unsafe { Chain::from_first(first) }))
    }

    /// The number of elements. Each call counts them.
    pub fn len(&self) -> usize {
        self.headers().count()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.first().is_null()
    }

    /// The bytes of each [`Buf`] up to its length, in order. Other elements are skipped.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.headers().filter(|header| header.is_of_buf()).map(|header| {
            // SAFETY: the list owns the buffer, so the memory is alive, and no other code accesses
            // it while the list is borrowed. It is initialised, and the length is within the
            // capacity.
            unsafe { std::slice::from_raw_parts(header.addr(), header.len() as usize) }
        })
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = &Header> {
        self.0.headers()
    }

    /// The elements with their kinds, of `word`.
    #[inline(always)]
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&Header, usize)> {
        self.headers().map(|header| (header, kind(header)))
    }

    /// # Safety
    /// The caller gives up a handle of this kind, of a list with contexts `C`, or never drops the
    /// result.
    #[inline(always)]
    unsafe fn element(at: *mut Header, kind: usize) -> AnyBuf<C> {
        // SAFETY: the header belongs to a handle of this kind (invariant), which is given up.
        unsafe {
            match kind {
                word::EXCLUSIVE => AnyBuf::Buf(Buf::from_header(at)),
                word::OPEN => AnyBuf::Open(OpenBuf::from_header(at)),
                word::SHARED => AnyBuf::Shared(SharedBuf::from_header(at)),
                _ => AnyBuf::ReadOnlyPiece(ReadOnlyBuf::from_header(at)),
            }
        }
    }

    /// Inserts a handle at the front.
    ///
    /// # Safety
    /// It is a buffer of `C`, or an `OwningHandle` of one of the four kinds.
    #[inline(always)]
    unsafe fn push<H: Handle>(&mut self, handle: H) {
        // SAFETY: the handle is given up here.
        let handle = unsafe { AnyHandle::from_header(ManuallyDrop::new(handle).at()) };
        self.0.push_tagged(handle, H::KIND);
    }
}

impl<C: 'static> Word for AnyList<C> {
    #[inline(always)]
    fn word(&self) -> usize {
        word::of(self.0.first(), word::LIST)
    }

    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the word came from a list of this type, which the caller gives up.
        AnyList(unsafe { Chain::from_first(word::address(word)) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn first(&self) -> &Header {
        // SAFETY: the list is not empty (this function's contract) and owns its handles.
        unsafe { &*self.0.first() }
    }

    unsafe fn received(&self, mut len: u32) {
        for header in self.headers() {
            let here = len.min(header.capacity());
            // The length of a piece does not change.
            if header.is_of_buf() {
                header.set_len(here);
            }
            len -= here;
        }
    }
}

macro_rules! lists_of {
    ($([$($generics:tt)*] $handle:ty;)*) => {$(
        impl<$($generics)*> From<$handle> for AnyList<C> {
            #[inline(always)]
            fn from(handle: $handle) -> Self {
                [handle].into()
            }
        }

        impl<$($generics)*, const N: usize> From<[$handle; N]> for AnyList<C> {
            #[inline(always)]
            fn from(handles: [$handle; N]) -> Self {
                let mut list = AnyList::new();
                // SAFETY: each is of this kind, and a buffer has a context `C`.
                handles.into_iter().rev().for_each(|handle| unsafe { list.push(handle) });
                list
            }
        }
    )*};
}

/// A buffer followed by a piece.
macro_rules! pairs_of {
    ($($piece:ty)*) => {$(
        impl<C: 'static> From<(Buf<C>, $piece)> for AnyList<C> {
            #[inline(always)]
            fn from((buf, piece): (Buf<C>, $piece)) -> Self {
                let mut list = AnyList::from(piece);
                // SAFETY: it is a buffer of `C`.
                unsafe { list.push(buf) };
                list
            }
        }
    )*};
}

pairs_of! { OpenBuf SharedBuf ReadOnlyBuf }

lists_of! {
    [C: 'static] Buf<C>;
    [C: 'static] OpenBuf;
    [C: 'static] SharedBuf;
    [C: 'static] ReadOnlyBuf;
}

impl<C: 'static> From<BufList<C>> for AnyList<C> {
    fn from(list: BufList<C>) -> Self {
        let first = ManuallyDrop::new(list).0.first();
        // SAFETY: the handles were given up. They are buffers of `C`.
        AnyList(unsafe { Chain::from_first(first) }, PhantomData)
    }
}

impl<C, H: Into<AnyList<C>>> FromIterator<H> for AnyList<C> {
    fn from_iter<I: IntoIterator<Item = H>>(handles: I) -> Self {
        let handles: Vec<AnyList<C>> = handles.into_iter().map(H::into).collect();
        let mut list = AnyList::new();
        handles.into_iter().rev().for_each(|handle| list.push_front(handle));
        list
    }
}

impl<C> Iterator for AnyList<C> {
    type Item = AnyBuf<C>;

    #[inline(always)]
    fn next(&mut self) -> Option<AnyBuf<C>> {
        self.pop_front()
    }
}

impl<C> Default for AnyList<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl_debug!([C] AnyList<C>, |it| "AnyList({} elements)", it.len());
