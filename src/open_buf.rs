//! Pieces of regions that are open to the fabric.

use std::fmt;

use crate::buf::Lent;

/// A handle to a piece of an open region, to be posted: the source of a SEND or WRITE, the sink of a
/// READ. It keeps the region registered. Cloning allocates a small header.
#[derive(Clone)]
pub struct OpenBuf(pub(crate) Lent);

impl OpenBuf {
    /// The length, bytes.
    pub fn len(&self) -> usize {
        self.0.header().capacity as usize
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for OpenBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenBuf({} bytes)", self.len())
    }
}
