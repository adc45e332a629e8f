//! The device's clock. It goes on with each completion, so that the same program sees the same
//! times.

use super::personality::Habits;

/// Its frequency, kHz.
pub(super) const KHZ: u64 = 156_250;
/// The bits of a timestamp.
pub(super) const MASK: u64 = (1 << 48) - 1;
/// From one completion to the next: 8 µs.
const STEP: u64 = 1250;
/// The time of day when a fabric is made, ns since 1970: some day in 2001.
const BEGIN_NS: u64 = 1_000_000_000_000_000_000;

/// When a completion was made, by both clocks.
pub(super) struct Time {
    pub(super) ticks: u64,
    pub(super) wallclock_ns: u64,
}

impl Habits {
    /// The time of the completion of this number on the fabric.
    pub(super) fn time(&self, completion: u64) -> Time {
        let passed = completion * STEP;
        // Elsewhere the bits are soon used up, and it begins anew.
        let begin = if self.is_plain() { 0 } else { MASK - 5 * STEP / 2 };
        let wallclock_ns = BEGIN_NS + passed * 1_000_000 / KHZ;
        Time { ticks: (begin + passed) & MASK, wallclock_ns }
    }
}
