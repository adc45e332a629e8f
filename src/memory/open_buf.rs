//! Pieces of regions that are open to the fabric.

#![allow(unsafe_code)] // looks at the region that a handle keeps

use crate::memory::OutOfBounds;
use crate::memory::header::Handle;
use crate::memory::owning_handle::{HandleBytes, KeptAlive, OwningHandle};
use crate::memory::registered::Registered;

/// A handle to a piece of an open region, to be posted: the source of a SEND or WRITE, the sink of
/// a READ. It keeps the region registered. Neither making nor cloning nor dropping it
/// allocates or locks once as many handles were in use before; and one that came back may be posted
/// again.
///
/// [`MemoryRegion::piece`](crate::MemoryRegion::piece) makes it, and the completion gives it back.
/// [`set_range`](Self::set_range) makes it another piece of the same region, for a third of what a
/// new handle costs.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::OpenBuf;
/// profile! { Copier { entry: OpenBuf } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Copier>()?;
/// let mine = pd.register::<RemoteRead>(64)?; // open to peers, and posted from here as well
/// # let region = pd.register::<RemoteAll>(64)?;
/// # let theirs = region.remote();
/// # region.write_at(0, b"at the peer")?;
/// let piece: OpenBuf = mine.piece(8, 11)?;
/// assert_eq!((piece.len(), piece.is_empty()), (11, false));
/// a.post_send(wr::RdmaRead::new(piece, theirs.slice(0, 11)?.read()))?;
/// proverbs::loopback::poll(&mut cq, 1)?;
/// let mut read = [0; 11];
/// mine.read_at(8, &mut read)?;
/// assert_eq!(&read, b"at the peer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// Invariants: the memory that it keeps is a region. Its type tag is that of as many bytes as it had
// at its longest, or of more.
#[repr(transparent)]
pub struct OpenBuf(OwningHandle);

impl OpenBuf {
    /// A new handle to `len` bytes, that keeps a region alive.
    #[inline(always)]
    pub(crate) fn new(mut lent: OwningHandle, len: usize) -> Self {
        // INVARIANT: its type tag is that of its length, or of more, and its kept memory a region.
        lent.set_longest(len);
        OpenBuf(lent)
    }

    /// Makes the handle one to `len` bytes from `offset` on, in the same region, as C sets `addr`
    /// and `length` of an `ibv_sge` for each work request. A program whose answers lie in one
    /// region keeps the handles that completions bring, and sets the range of one before it posts
    /// it again. The word that the program gave it ([`set_id`](Self::set_id)) stays.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::OpenBuf;
    /// profile! { Answers { entry: OpenBuf } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Answers>()?;
    /// let table = pd.register::<LocalWrite>(4096)?;
    /// table.write_at(128, b"an answer")?;
    /// # let theirs = pd.register::<RemoteWrite>(64)?;
    /// # let at_peer = theirs.remote().write();
    /// let mut spare = Some(table.piece(0, 64)?); // one handle, for all answers
    /// for (offset, len) in [(128, 9), (131, 6), (0, 0)] {
    ///     let mut answer = spare.take().ok_or("it is with the device")?;
    ///     answer.set_range(offset, len)?;
    ///     a.post_send(wr::RdmaWrite::new(answer, at_peer))?;
    ///     spare = proverbs::loopback::poll(&mut cq, 1)?.remove(0);
    /// }
    ///
    /// let mut answer = spare.ok_or("it has completed")?;
    /// let error = answer.set_range(4090, 9).unwrap_err();
    /// assert_eq!(error.to_string(), "9 bytes at offset 4090 exceed the region of 4096 bytes");
    /// assert_eq!(answer.len(), 0); // as it was
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`MemoryRegion::piece`](crate::MemoryRegion::piece): [`OutOfBounds`] if the bytes are
    /// not all inside the region, or if there are more than 2^32 - 2 of them
    /// ([R3.8](crate::guide::rules#r3-8)). The handle is as it was.
    #[inline]
    #[allow(clippy::needless_question_mark)] // the usual result stays in registers
    pub fn set_range(&mut self, offset: usize, len: usize) -> Result<(), OutOfBounds> {
        let region = self.region();
        // Some bytes, and not more than the type tag is of.
        if len.wrapping_sub(1) < self.0.longest() && region.check(offset, len).is_ok() {
            self.header().set_place(region.at(offset), len as u32);
            return Ok(());
        }
        Ok(self.set_other_range(offset, len)?)
    }

    /// Also to no bytes, or to more than ever before; or it says what is wrong.
    #[cold]
    #[inline(never)]
    fn set_other_range(&mut self, offset: usize, len: usize) -> Result<(), OutOfBounds> {
        let HandleBytes { addr, len, type_tag, .. } = self.region().piece(offset, len)?;
        // INVARIANT: the type tag is that of this length.
        self.header().set_type_tag(type_tag);
        self.header().set_place(addr, len);
        self.0.set_longest(len as usize);
        Ok(())
    }

    /// Whether a provider may copy there by the processor.
    #[inline(always)]
    pub(crate) fn has_bytes(&self) -> bool {
        self.region().has_bytes()
    }

    /// The region that it is a piece of.
    #[inline(always)]
    fn region(&self) -> &Registered {
        match self.0.kept() {
            KeptAlive::Region(region) => region,
            // SAFETY: its kept memory is a region (invariant).
            _ => unsafe { std::hint::unreachable_unchecked() },
        }
    }

    /// The address of the first byte. [`MemoryRegion::as_ptr`](crate::MemoryRegion::as_ptr) says
    /// what it may be used for, and how long.
    pub fn as_ptr(&self) -> *mut u8 {
        self.header().addr()
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.header().capacity() as usize
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The program's own word, 0 at first: C's `wr_id`. The completion brings it with the handle,
    /// and a clone begins with the same.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteRead>(64)?;
    /// let mut piece = region.piece(0, 8)?;
    /// piece.set_id(42);
    /// assert_eq!((piece.clone().id(), region.piece(8, 8)?.id()), (42, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Sets the program's own word: see [`id`](Self::id).
    pub fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }
}

impl Clone for OpenBuf {
    /// Another handle to the same bytes, with the same word.
    #[inline]
    fn clone(&self) -> Self {
        // INVARIANT: the type tag is at least that of its length, and its kept memory the same
        // region.
        OpenBuf::new(self.0.clone(), self.len())
    }
}

impl_debug!(OpenBuf, |it| "OpenBuf({} bytes)", it.len());
