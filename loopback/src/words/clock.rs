//! Timestamps. They advance with each completion, so that the same program sees the same times.

use std::time::Duration;

use crate::words::personality::Habits;

/// Its frequency, kHz.
pub(crate) const KHZ: u64 = 156_250;

/// The bits of a timestamp.
pub(crate) const MASK: u64 = (1 << 48) - 1;

/// The time between two completions: 8 µs.
const STEP: u64 = 1250;

/// The time of day when a fabric is made, ns since 1970. It is a day in 2001.
const BEGIN_NS: u64 = 1_000_000_000_000_000_000;

/// When a completion was made, by both clocks.
pub(crate) struct Time {
    pub(crate) ticks: u64,
    pub(crate) wallclock_ns: u64,
}

impl Habits {
    /// The time of a completion, given its number on the fabric and the clock.
    pub(crate) fn time(&self, completion: u64, clock: Duration) -> Time {
        let clock_ns = u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX);
        let passed = (completion * STEP).wrapping_add(ticks(clock));
        // On other personalities it starts close to the end of its bits, so that it soon wraps.
        let begin = if self.is_plain() { 0 } else { MASK - 5 * STEP / 2 };
        let wallclock_ns = (BEGIN_NS + completion * STEP * 1_000_000 / KHZ).wrapping_add(clock_ns);
        Time { ticks: begin.wrapping_add(passed) & MASK, wallclock_ns }
    }
}

/// A duration in ticks of the device's clock.
fn ticks(time: Duration) -> u64 {
    (time.as_nanos() * u128::from(KHZ) / 1_000_000) as u64
}
