//! The clock of a device.

use std::time::Duration;

/// The clock that completion timestamps are read from (`hca_core_clock` and
/// `completion_timestamp_mask` of ibv_query_device_ex(3)):
/// [`DeviceAttrEx::clock`](crate::attr::device_ex::DeviceAttrEx::clock).
///
/// A timestamp is a number of ticks, with as many bits as the mask. So only the difference of two
/// timestamps is meaningful.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::Clock;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let clock: Clock = context.query_device_ex()?.clock().ok_or("the device has no clock")?;
/// assert_eq!(clock.khz(), 156_250);
/// assert_eq!(clock.between(100, 350), std::time::Duration::from_nanos(1600));
/// // It wrapped.
/// assert_eq!(clock.between(clock.mask(), 249), std::time::Duration::from_nanos(1600));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    pub(super) mask: u64,
    pub(super) khz: u64,
}

impl Clock {
    /// Its frequency, kHz; not 0.
    pub fn khz(&self) -> u64 {
        self.khz
    }

    /// The bits of a timestamp; not 0.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// The time from one timestamp to a later one, if the clock wrapped at most once in between.
    pub fn between(&self, earlier: u64, later: u64) -> Duration {
        let ticks = u128::from(later.wrapping_sub(earlier) & self.mask);
        let ns = ticks * 1_000_000 / u128::from(self.khz);
        // 2^64 ticks of the slowest clock are more seconds than a Duration's nanoseconds in 64
        // bits.
        let (secs, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        Duration::new(u64::try_from(secs).unwrap_or(u64::MAX), rest as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_counted_within_the_mask() {
        let clock = |mask, khz| Clock { mask, khz };
        let ms = Duration::from_millis;
        assert_eq!(clock(u64::MAX, 1).between(5, 8), ms(3));
        assert_eq!(clock(u64::MAX, 1).between(u64::MAX, 2), ms(3));
        assert_eq!(clock(0xff, 1).between(0xfe, 1), ms(3));
        assert_eq!(clock(0xff, 1).between(1, 0xfe), ms(0xfd));
        assert_eq!(clock(u64::MAX, 1).between(0, u64::MAX), ms(u64::MAX));
        assert_eq!(clock(u64::MAX, u64::MAX).between(0, u64::MAX), ms(1));
    }
}
