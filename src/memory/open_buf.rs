//! Pieces of regions that are open to the fabric.

use std::fmt;

use crate::memory::header::Handle;
use crate::memory::lent::Lent;

/// A handle to a piece of an open region, to be posted: the source of a SEND or WRITE, the sink of
/// a READ. It keeps the region registered. Neither making nor cloning nor dropping it
/// allocates or locks once as many handles were in use before; and one that came back may be posted
/// again.
///
/// [`MemoryRegion::piece`](crate::MemoryRegion::piece) makes it, and the completion gives it back.
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
#[derive(Clone)]
#[repr(transparent)]
pub struct OpenBuf(pub(crate) Lent);

impl OpenBuf {
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

impl fmt::Debug for OpenBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenBuf({} bytes)", self.len())
    }
}
