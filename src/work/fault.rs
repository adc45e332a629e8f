//! The faults of a work request, one bit each, and of a list.

use crate::terms::post_error::PostErrorKind;
use crate::work::gather::MAX_LIST;
use crate::work::request::Found;

/// A buffer belongs to another protection domain.
pub const PD: u32 = 1;
pub const INLINE: u32 = 2;
pub const SGE: u32 = 4;
pub const AH: u32 = 8;
/// A buffer does not belong to the pool of the shared receive queue.
pub const POOL: u32 = 16;
pub const NO_BUFFER: u32 = 32;
/// A WRITE without buffers exceeds its remote slice, or a READ without buffers has a slice that
/// is not empty. Cold code reads the lengths from the C struct.
pub const BEYOND: u32 = 64;
/// A window does not belong to this queue pair.
pub const WINDOW: u32 = 128;
/// LOCAL_INV of a window on Soft-RoCE.
pub const LOCAL_INV: u32 = 256;
/// A list for a READ or a receive has an element that the device may not write.
pub const NOT_WRITABLE: u32 = 512;

impl Found {
    /// Buffers need inspection, and no other fault is known.
    pub(crate) const MISMATCH: Found = Found { faults: 0, mismatch: 1 };

    /// Whether buffers need inspection.
    pub(crate) fn is_mismatch(self) -> bool {
        self.mismatch != 0
    }

    /// Whether cold code can find more than was recorded.
    pub(crate) fn is_open(self) -> bool {
        self.is_mismatch() || self.faults & (BEYOND | INLINE | SGE) != 0
    }
}

/// The faults of a list, after cold code has inspected it.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    pub bits: u32,
    /// The first message that is too long.
    pub too_long: Option<PostErrorKind>,
    /// The longest inline payload in bytes.
    pub inline: u64,
    /// The longest list of buffers, if one is too long.
    pub sges: u32,
}

impl Faults {
    /// The recorded faults.
    pub fn of(found: Found) -> Self {
        Faults { bits: found.faults, too_long: None, inline: 0, sges: 0 }
    }

    /// The first fault, or `None`, with the limits of the queue.
    pub fn first(self, max_sge: u32, max_inline: u32) -> Option<PostErrorKind> {
        Some(match self.bits {
            f if f & PD != 0 => PostErrorKind::PdMismatch,
            f if f & INLINE != 0 => {
                PostErrorKind::InlineTooLong { asked: self.inline, max: max_inline }
            }
            f if f & SGE != 0 => {
                let max = max_sge.min(MAX_LIST as u32);
                PostErrorKind::TooManySge { asked: self.sges, max }
            }
            f if f & POOL != 0 => PostErrorKind::ForeignPool,
            f if f & NO_BUFFER != 0 => PostErrorKind::NoBuffer,
            f if f & NOT_WRITABLE != 0 => PostErrorKind::NotWritable,
            f if f & WINDOW != 0 => PostErrorKind::ForeignWindow,
            f if f & LOCAL_INV != 0 => PostErrorKind::LocalInvOnSoftRoce,
            f if f & AH != 0 && self.too_long.is_none() => PostErrorKind::UnknownAddressHandle,
            _ => return self.too_long,
        })
    }
}
