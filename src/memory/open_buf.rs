//! Pieces of regions that peers may access.

#![allow(unsafe_code)] // accesses the region that a handle keeps

use crate::memory::OutOfBounds;
use crate::memory::header::Handle;
use crate::memory::owning_handle::{HandleBytes, KeptAlive, OwningHandle};
use crate::memory::registered::Registered;

/// A handle to a piece of a [`MemoryRegion`](crate::MemoryRegion), to be posted: the source of a
/// SEND or WRITE, or the destination of a READ.
///
/// [`MemoryRegion::piece`](crate::MemoryRegion::piece) creates it, and the completion returns it.
/// It keeps the region registered. Creating or cloning a handle allocates and locks only if the
/// region then has more handles than ever before. Dropping a handle does neither.
///
/// You can post a returned handle again. [`set_range`](Self::set_range) moves it to another piece
/// of the same region, at a third of the cost of a new handle.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::OpenBuf;
/// profile! { Copier { entry: OpenBuf } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Copier>()?;
/// let mine = pd.register::<RemoteRead>(64)?; // peers read it, and we post it
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
// Invariants: the handle keeps a region. Its type tag is for the largest length that it has had, or
// for more.
#[repr(transparent)]
pub struct OpenBuf(OwningHandle);

impl OpenBuf {
    /// Creates a handle to `len` bytes, which keeps a region alive.
    #[inline(always)]
    pub(crate) fn new(mut lent: OwningHandle, len: usize) -> Self {
        // INVARIANT: its type tag is for its length or more, and it keeps a region.
        lent.set_longest(len);
        OpenBuf(lent)
    }

    /// Moves the handle to the `len` bytes at `offset` of the same region, like setting `addr` and
    /// `length` of an `ibv_sge` for each work request in C.
    ///
    /// A program that keeps its replies in one region can reuse the handles that completions
    /// return: it sets a handle's range and posts the handle again. The [`id`](Self::id) does not
    /// change.
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
    /// let mut spare = Some(table.piece(0, 64)?); // one handle for all replies
    /// for (offset, len) in [(128, 9), (131, 6), (0, 0)] {
    ///     let mut answer = spare.take().ok_or("the device owns it")?;
    ///     answer.set_range(offset, len)?;
    ///     a.post_send(wr::RdmaWrite::new(answer, at_peer))?;
    ///     spare = proverbs::loopback::poll(&mut cq, 1)?.remove(0);
    /// }
    ///
    /// let mut answer = spare.ok_or("it has completed")?;
    /// let error = answer.set_range(4090, 9).unwrap_err();
    /// assert_eq!(error.to_string(), "9 bytes at offset 4090 exceed the region of 4096 bytes");
    /// assert_eq!(answer.len(), 0); // unchanged
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`MemoryRegion::piece`](crate::MemoryRegion::piece): [`OutOfBounds`] if the bytes are
    /// not all inside the region, or if `len` exceeds 2^32 - 2 ([R3.8](crate::guide::rules#r3-8)).
    /// The handle is then unchanged.
    #[inline]
    #[allow(clippy::needless_question_mark)] // the usual result stays in registers
    pub fn set_range(&mut self, offset: usize, len: usize) -> Result<(), OutOfBounds> {
        let region = self.region();
        // At least one byte, and not more than the type tag allows.
        if len.wrapping_sub(1) < self.0.longest() && region.check(offset, len).is_ok() {
            self.header().set_place(region.at(offset), len as u32);
            return Ok(());
        }
        Ok(self.set_other_range(offset, len)?)
    }

    /// The cold part of `set_range`: accepts length 0 and a new largest length, and returns an
    /// error for other ranges.
    #[cold]
    #[inline(never)]
    fn set_other_range(&mut self, offset: usize, len: usize) -> Result<(), OutOfBounds> {
        let HandleBytes { addr, len, type_tag, .. } = self.region().piece(offset, len)?;
        // INVARIANT: the type tag is for this length.
        self.header().set_type_tag(type_tag);
        self.header().set_place(addr, len);
        self.0.set_longest(len as usize);
        Ok(())
    }

    /// Whether the processor can access the bytes, so that a provider can copy them.
    #[inline(always)]
    pub(crate) fn has_bytes(&self) -> bool {
        self.region().has_bytes()
    }

    /// The region of the piece.
    #[inline(always)]
    fn region(&self) -> &Registered {
        match self.0.kept() {
            KeptAlive::Region(region) => region,
            // SAFETY: it keeps a region (invariant).
            _ => unsafe { std::hint::unreachable_unchecked() },
        }
    }

    /// The address of the first byte. See [`MemoryRegion::as_ptr`](crate::MemoryRegion::as_ptr) for
    /// its permitted uses and its lifetime.
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

    /// Your own number, initially 0, which replaces C's `wr_id`. It returns with the handle in the
    /// completion. A clone starts with the same number.
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

    /// Sets the number that [`id`](Self::id) returns.
    pub fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }
}

impl Clone for OpenBuf {
    /// Creates another handle to the same bytes, with the same [`id`](OpenBuf::id).
    #[inline]
    fn clone(&self) -> Self {
        // INVARIANT: the type tag is for at least this length, and the clone keeps the same region.
        OpenBuf::new(self.0.clone(), self.len())
    }
}

impl_debug!(OpenBuf, |it| "OpenBuf({} bytes)", it.len());
