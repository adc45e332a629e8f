//! Memory whose bytes the processor cannot access: device memory and dma-bufs.

mod dm;
mod dmabuf;
#[cfg(all(test, feature = "loopback"))]
mod tests;

pub use dm::Dm;
pub use dmabuf::DmaBuf;

use crate::memory::own::HasPieces;

impl HasPieces for DmaBuf {}
impl HasPieces for Dm {}
