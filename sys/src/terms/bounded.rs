//! Attributes with fewer bits than the integers that hold them in C.

#[cfg(test)]
mod code_tests;

use std::fmt;
use std::time::Duration;

use crate::types::ibv_mtu;

macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident($int:ty) in $min:literal..=$max:literal, $what:literal) => {
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("# use proverbs::bounded::", stringify!($name), ";")]
        #[doc = concat!("assert_eq!(", stringify!($name), "::new(", $max, ").map(", stringify!($name), "::get), Some(", $max, "));")]
        #[doc = concat!("assert_eq!(", stringify!($name), "::new(", $max, " + 1), None);")]
        #[doc = concat!("let error = ", stringify!($name), "::try_from(", $max, " + 1).unwrap_err();")]
        #[doc = concat!("assert_eq!((error.what, error.min, error.max), (\"", $what, "\", ", $min, ", ", $max, "));")]
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($int);

        impl $name {
            /// The largest value.
            pub const MAX: $name = $name($max);

            #[doc = concat!("`None` unless `value` is ", $min, " to ", $max, ".")]
            pub const fn new(value: $int) -> Option<Self> {
                if matches!(value, $min..=$max) { Some($name(value)) } else { None }
            }

            /// The value as an integer.
            pub const fn get(self) -> $int {
                self.0
            }
        }

        impl TryFrom<$int> for $name {
            type Error = OutOfRange;
            fn try_from(value: $int) -> Result<Self, OutOfRange> {
                let (asked, min, max) = (value as u64, $min, $max as u64);
                Self::new(value).ok_or(OutOfRange { what: $what, asked, min, max })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// A value that does not fit its field of ibv_modify_qp(3) or ibv_create_ah(3).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::bounded::OutOfRange;
/// let error: OutOfRange = Psn::try_from(1 << 24).unwrap_err();
/// assert_eq!(error.to_string(), "PSN 16777216 exceeds 16777215");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutOfRange {
    /// The attribute, in verbs terms.
    pub what: &'static str,
    /// The requested value.
    pub asked: u64,
    /// The smallest possible value.
    pub min: u64,
    /// The largest possible value.
    pub max: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfRange { what, asked, min, max } = self;
        if asked < min {
            return write!(f, "{what} {asked} is less than {min}");
        }
        if asked <= max {
            return write!(f, "{what} must be a power of two from {min} to {max}, got {asked}");
        }
        write!(f, "{what} {asked} exceeds {max}")?;
        if *what == "Q_Key" {
            f.write_str(" (its top bit makes it privileged: see `PrivilegedQkey`)")?;
        }
        Ok(())
    }
}

impl std::error::Error for OutOfRange {}

bounded! {
    /// A packet sequence number, 24 bits (`sq_psn`, `rq_psn` of ibv_modify_qp(3); R8.7).
    Psn(u32) in 0..=0xff_ffff, "PSN"
}
bounded! {
    /// A queue pair number, 24 bits (`dest_qp_num` of ibv_modify_qp(3)).
    Qpn(u32) in 0..=0xff_ffff, "queue pair number"
}
bounded! {
    /// Transport retries before `RETRY_EXC_ERR`, 0 to 7. Soft-RoCE treats 7 as "forever" ([R8.10]).
    ///
    /// [R8.10]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-10
    RetryCount(u8) in 0..=7, "retry_cnt"
}
bounded! {
    /// A service level, 4 bits (`sl` of ibv_create_ah(3)).
    #[derive(Default)]
    ServiceLevel(u8) in 0..=15, "service level"
}
bounded! {
    /// The RNR NAK timer code, 5 bits (`min_rnr_timer` of ibv_modify_qp(3)): 1 is 0.01 ms, 12 is
    /// 0.64 ms, 31 is 491 ms, 0 is 655 ms.
    MinRnrTimer(u8) in 0..=31, "min_rnr_timer"
}
bounded! {
    /// Reads and atomics that the peer may have outstanding here; 0 rejects them ([R4.7], [R4.8]).
    ///
    /// [R4.7]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-7
    /// [R4.8]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-8
    ResponderDepth(u8) in 0..=128, "max_dest_rd_atomic"
}
bounded! {
    /// Reads and atomics that this side may have outstanding (`max_rd_atomic` of ibv_modify_qp(3)),
    /// at least 1 (R4.6): a queue pair without reads has `NoReads` in its profile.
    ReadDepth(u8) in 1..=128, "max_rd_atomic"
}
bounded! {
    /// A Q_Key that any process may use: bit 31 clear ([R5.6]).
    ///
    /// [R5.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-6
    Qkey(u32) in 0..=0x7fff_ffff, "Q_Key"
}

impl SrqNum {
    /// The number of a queue that does not exist.
    #[doc(hidden)]
    pub const NONE: SrqNum = SrqNum(0);
}

impl RetryCount {
    /// Six retries, the largest number that is finite on every provider.
    pub const SIX: RetryCount = RetryCount(6);
}

impl MinRnrTimer {
    /// 0.64 ms (code 12), the value of rdma-core's examples.
    pub const MS_0_64: MinRnrTimer = MinRnrTimer(12);

    /// 81.92 ms (code 26), the default: six retries of the peer take half a second, about as long
    /// as six transport retries.
    pub const MS_82: MinRnrTimer = MinRnrTimer(26);

    /// The time that the code stands for: 10 µs to 655.36 ms (ibv_modify_qp(3)).
    ///
    /// ```
    /// # use proverbs::bounded::MinRnrTimer;
    /// # use std::time::Duration;
    /// assert_eq!(MinRnrTimer::MS_0_64.duration(), Duration::from_micros(640));
    /// assert_eq!(MinRnrTimer::try_from(0)?.duration(), Duration::from_micros(655_360));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn duration(self) -> Duration {
        // 1, 2, 3, 4, 6, 8, 12, 16 and so on; 0 is the next after 31.
        let tens = match self.0 {
            0 => 1 << 16,
            1 => 1,
            code if code % 2 == 0 => 1 << (code / 2),
            code => 3 << (code / 2 - 1),
        };
        Duration::from_micros(10 * tens)
    }
}

impl ResponderDepth {
    /// One read or atomic at a time.
    pub const ONE: ResponderDepth = ResponderDepth(1);
}

impl ReadDepth {
    /// One read or atomic at a time.
    pub const ONE: ReadDepth = ReadDepth(1);
}

/// RNR retries before `RNR_RETRY_EXC_ERR` (`rnr_retry` of ibv_modify_qp(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::bounded::{RnrRetries, RnrRetry};
/// let twice = RnrRetry::Times(RnrRetries::try_from(2)?);
/// let attr = RcRts::<DefaultProfile> {
///     rnr_retry: twice,
///     ..RcRts::new(Psn::try_from(0)?, ReadDepth::ONE)
/// };
/// assert_ne!(attr.rnr_retry, RnrRetry::SIX); // which is what `new` takes
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RnrRetry {
    /// Give up after this many retries, 0 to 6.
    Times(RnrRetries),
    /// Waits **forever** for a receive of the peer (R8.11). No default is infinite.
    Infinite,
}

bounded! {
    /// The number of an XRC shared receive queue, 24 bits (`ibv_get_srq_num`), which an initiator's
    /// work requests name ([R26.1]).
    ///
    /// `SharedReceiveQueue::number` returns it; send it to the peer.
    ///
    /// [R26.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r26-1
    SrqNum(u32) in 0..=0xff_ffff, "shared receive queue number"
}

bounded! {
    /// A finite number of RNR retries, 0 to 6 (`rnr_retry` of ibv_modify_qp(3);
    /// [R8.11]).
    ///
    /// [R8.11]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-11
    RnrRetries(u8) in 0..=6, "rnr_retry"
}

impl RnrRetry {
    /// Six retries, the largest finite number, and the default.
    pub const SIX: RnrRetry = RnrRetry::Times(RnrRetries(6));

    #[doc(hidden)]
    pub fn to_c(self) -> u8 {
        match self {
            RnrRetry::Times(n) => n.get(),
            RnrRetry::Infinite => 7,
        }
    }

    #[doc(hidden)]
    pub fn from_c(value: u8) -> Option<RnrRetry> {
        if value == 7 {
            Some(RnrRetry::Infinite)
        } else {
            RnrRetries::new(value).map(RnrRetry::Times)
        }
    }
}

/// The local ACK timeout of a reliable connection (`timeout` of ibv_modify_qp(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::bounded::{Timeout, TimeoutExponent};
/// // 4.096 µs * 2^20: 4.3 s.
/// let patient = Timeout::exponent(20).ok_or("1 to 31")?;
/// assert_ne!(patient, Timeout::MS_67);
/// assert_eq!(Timeout::exponent(0), None); // C's 0 is `Timeout::Infinite`
/// let Timeout::Exponent(exponent) = patient else { return Ok(()) };
/// let _: TimeoutExponent = exponent;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timeout {
    /// 4.096 µs * 2^exponent, exponent 1 to 31.
    Exponent(TimeoutExponent),
    /// No timeout: a dead peer is never reported ([R8.9]).
    ///
    /// [R8.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-9
    Infinite,
}

bounded! {
    /// The exponent of a finite timeout, 1 to 31 (`timeout` of ibv_modify_qp(3)), for
    /// [`Timeout::Exponent`].
    TimeoutExponent(u8) in 1..=31, "timeout"
}

impl Timeout {
    /// 67 ms (exponent 14), the value of rdma-core's examples.
    pub const MS_67: Timeout = Timeout::Exponent(TimeoutExponent(14));

    /// 4.096 µs * 2^`exponent`; `None` unless `exponent` is 1 to 31.
    pub const fn exponent(exponent: u8) -> Option<Timeout> {
        if exponent >= 1 && exponent <= 31 {
            Some(Timeout::Exponent(TimeoutExponent(exponent)))
        } else {
            None
        }
    }

    /// The duration; `None` if it is infinite. With a [`RetryCount`] of n, a send fails after n + 1
    /// times this duration; on some devices it takes up to four times as long.
    ///
    /// ```
    /// # use proverbs::bounded::Timeout;
    /// assert_eq!(Timeout::MS_67.duration().map(|time| time.as_micros()), Some(67_108));
    /// assert_eq!(Timeout::Infinite.duration(), None);
    /// ```
    pub const fn duration(self) -> Option<Duration> {
        match self {
            Timeout::Exponent(e) => Some(Duration::from_nanos(4096 << e.0)),
            Timeout::Infinite => None,
        }
    }

    #[doc(hidden)]
    pub fn to_c(self) -> u8 {
        match self {
            Timeout::Exponent(e) => e.0,
            Timeout::Infinite => 0,
        }
    }

    #[doc(hidden)]
    pub fn from_c(value: u8) -> Option<Timeout> {
        if value == 0 { Some(Timeout::Infinite) } else { Timeout::exponent(value) }
    }
}

/// A path MTU (`path_mtu` of ibv_modify_qp(3); [R8.6]).
///
/// ```
/// # use proverbs::prelude::*;
/// assert_eq!(Mtu::from_bytes(4096), Some(Mtu::Bytes4096));
/// assert_eq!(Mtu::Bytes1024.bytes(), 1024);
/// assert_eq!(Mtu::from_bytes(1500), None); // Ethernet's, not a path's
/// ```
///
/// [R8.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-6
#[doc(alias = "ibv_mtu")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mtu {
    /// 256 bytes of payload in a packet.
    #[doc(alias = "IBV_MTU_256")]
    Bytes256,
    /// 512 bytes.
    #[doc(alias = "IBV_MTU_512")]
    Bytes512,
    /// 1024 bytes, the value of rdma-core's examples.
    #[doc(alias = "IBV_MTU_1024")]
    Bytes1024,
    /// 2048 bytes.
    #[doc(alias = "IBV_MTU_2048")]
    Bytes2048,
    /// 4096 bytes.
    #[doc(alias = "IBV_MTU_4096")]
    Bytes4096,
}

impl Mtu {
    /// The MTU of `bytes` bytes; `None` unless it is one of the five.
    pub const fn from_bytes(bytes: u32) -> Option<Mtu> {
        Some(match bytes {
            256 => Mtu::Bytes256,
            512 => Mtu::Bytes512,
            1024 => Mtu::Bytes1024,
            2048 => Mtu::Bytes2048,
            4096 => Mtu::Bytes4096,
            _ => return None,
        })
    }

    /// The number of payload bytes in a packet.
    pub const fn bytes(self) -> u32 {
        256 << self as u32
    }

    #[doc(hidden)]
    pub fn to_c(self) -> u32 {
        self as u32 + ibv_mtu::IBV_MTU_256
    }

    #[doc(hidden)]
    pub fn from_c(mtu: u32) -> Option<Mtu> {
        Mtu::from_bytes(128u32.checked_shl(mtu)?)
    }
}

impl TryFrom<u32> for Mtu {
    type Error = OutOfRange;

    /// Like [`from_bytes`](Mtu::from_bytes).
    fn try_from(bytes: u32) -> Result<Self, OutOfRange> {
        let refused = OutOfRange { what: "path MTU", asked: bytes.into(), min: 256, max: 4096 };
        Mtu::from_bytes(bytes).ok_or(refused)
    }
}

/// A Q_Key with bit 31 set, which only privileged processes may set on a queue pair
/// ([R5.6]).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{bounded::PrivilegedQkey, qp::QpQkey};
/// let key = PrivilegedQkey::new(0x8001_0000).ok_or("bit 31 is not set")?;
/// assert_eq!((QpQkey::Privileged(key), key.get()), (QpQkey::Privileged(key), 0x8001_0000));
/// assert_eq!(PrivilegedQkey::new(0x1111_1111), None); // that is an ordinary `Qkey`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [R5.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-6
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrivilegedQkey(u32);

impl PrivilegedQkey {
    /// `None` unless bit 31 is set.
    pub const fn new(key: u32) -> Option<Self> {
        if key & 0x8000_0000 != 0 { Some(PrivilegedQkey(key)) } else { None }
    }

    /// The value as an integer.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for PrivilegedQkey {
    type Error = OutOfRange;

    fn try_from(key: u32) -> Result<Self, OutOfRange> {
        let (min, max) = (0x8000_0000, u32::MAX.into());
        let refused = OutOfRange { what: "privileged Q_Key", asked: key.into(), min, max };
        PrivilegedQkey::new(key).ok_or(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R4.8, R5.6, R5.7, R8.7, R8.8, R8.9, R8.10, R8.11, R16.17.
    #[test]
    fn bounds_match_the_wire_format() {
        assert_eq!(Psn::new(0x100_0000), None);
        assert_eq!(Psn::new(0xff_ffff).map(Psn::get), Some(0xff_ffff));
        assert_eq!(RetryCount::new(8), None);
        assert_eq!(ReadDepth::new(0), None);
        assert_eq!(ReadDepth::new(129), None);
        assert_eq!(Timeout::exponent(32), None);
        assert_eq!(Timeout::exponent(0), None);
        assert_eq!(Qkey::new(0x8000_0000), None);
        let ethernet = Mtu::try_from(1500).unwrap_err().to_string();
        assert_eq!(ethernet, "path MTU must be a power of two from 256 to 4096, got 1500");
        assert_eq!(Mtu::try_from(8192).unwrap_err().to_string(), "path MTU 8192 exceeds 4096");
        assert_eq!(Mtu::try_from(4096), Ok(Mtu::Bytes4096));
        let ordinary = PrivilegedQkey::try_from(7).unwrap_err().to_string();
        assert_eq!(ordinary, "privileged Q_Key 7 is less than 2147483648");
        let none = ReadDepth::try_from(0).unwrap_err();
        assert_eq!(none.to_string(), "max_rd_atomic 0 is less than 1");
        assert_eq!(
            Psn::try_from(0x100_0000).unwrap_err().to_string(),
            "PSN 16777216 exceeds 16777215"
        );
    }

    #[test]
    fn rnr_timers_match_the_manual_page() {
        // ibv_modify_qp(3): 0 and 1 to 31, in units of 10 µs.
        let page = [
            65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
            1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
        ];
        for (code, tens) in (0..).zip(page) {
            let timer = MinRnrTimer::new(code).unwrap();
            assert_eq!(timer.duration(), Duration::from_micros(10 * tens), "code {code}");
        }
    }

    /// Proves R8.6.
    #[test]
    fn mtu_maps_both_ways() {
        for bytes in [256, 512, 1024, 2048, 4096] {
            let mtu = Mtu::from_bytes(bytes).unwrap();
            assert_eq!(mtu.bytes(), bytes);
            assert_eq!(Mtu::from_c(mtu.to_c()), Some(mtu));
        }
        assert_eq!(Mtu::from_bytes(1500), None);
        assert_eq!(Mtu::from_c(0), None);
        assert_eq!(Mtu::from_c(6), None);
    }
}
