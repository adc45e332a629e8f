//! Timestamps: they go on with each completion, so that the same program sees the same times.

use std::time::Duration;

use crate::words::personality::Habits;

/// Its frequency, kHz.
pub(crate) const KHZ: u64 = 156_250;

/// The bits of a timestamp.
pub(crate) const MASK: u64 = (1 << 48) - 1;

/// From one completion to the next: 8 µs.
const STEP: u64 = 1250;

/// The time of day when a fabric is made, ns since 1970: some day in 2001.
const BEGIN_NS: u64 = 1_000_000_000_000_000_000;

/// When a completion was made, by both clocks.
pub(crate) struct Time {
    pub(crate) ticks: u64,
    pub(crate) wallclock_ns: u64,
}

impl Habits {
    /// The time of a completion: its number on the fabric, and where the clock stood.
    pub(crate) fn time(&self, completion: u64, clock: Duration) -> Time {
        let clock_ns = u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX);
        let passed = (completion * STEP).wrapping_add(ticks(clock));
        // Elsewhere the bits are soon used up, and it begins anew.
        let begin = if self.is_plain() { 0 } else { MASK - 5 * STEP / 2 };
        let wallclock_ns = (BEGIN_NS + completion * STEP * 1_000_000 / KHZ).wrapping_add(clock_ns);
        Time { ticks: begin.wrapping_add(passed) & MASK, wallclock_ns }
    }
}

/// Of the device's clock, in a time.
fn ticks(time: Duration) -> u64 {
    (time.as_nanos() * u128::from(KHZ) / 1_000_000) as u64
}
