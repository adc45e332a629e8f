//! Pieces of regions in read-only memory.

use crate::memory::header::Handle;
use crate::memory::owning_handle::OwningHandle;

/// A handle to a piece of a region in read-only memory, to be posted: the source of a SEND or
/// WRITE, but not the destination of a READ. It keeps the region registered.
///
/// [`MemoryRegion::source`](crate::MemoryRegion::source) creates it. The bytes cannot be read
/// through it, because other processes may change them, for example in a file. For private
/// read-only memory, [`SharedBuf`](crate::memory::SharedBuf) can read them.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{LocalRead, ReadOnlyBuf};
/// profile! { FromFile { entry: ReadOnlyBuf } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<FromFile>()?;
/// # let theirs = pd.register::<RemoteWrite>(64)?;
/// static TABLE: [u64; 8] = [7; 8]; // or a `SharedMapping<ReadOnly>` of a file
/// let region = pd.region::<LocalRead>().create_in(&TABLE[..])?;
/// let piece: ReadOnlyBuf = region.source(8, 16)?;
/// assert_eq!((piece.len(), piece.is_empty()), (16, false));
/// a.post_send(wr::RdmaWrite::new(piece, theirs.remote().write()))?;
/// # proverbs::loopback::poll(&mut cq, 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct ReadOnlyBuf(pub(crate) OwningHandle);

impl ReadOnlyBuf {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.header().capacity() as usize
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Your own number, initially 0. It returns with the handle in the completion. A clone, which
    /// is another handle to the same bytes, starts with the same number.
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Sets the number that [`id`](Self::id) returns.
    pub fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }
}

impl_debug!(ReadOnlyBuf, |it| "ReadOnlyBuf({} bytes)", it.len());
