//! Static rates.

use StaticRate::*;

macro_rules! rates {
    (
        $(#[$doc:meta])*
        $($name:ident = $code:literal, #[$alias:meta], $mbps:literal, $mult:expr;)*
    ) => {
        $(#[$doc])*
        #[doc(alias("ibv_rate", "ibv_ah_attr", "static_rate"))]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs)] // the names say it
        pub enum StaticRate {
            /// The port's own rate.
            #[doc(alias = "IBV_RATE_MAX")]
            #[default]
            Unlimited = 0,
            $(
                #[$alias]
                $name = $code,
            )*
        }

        /// Each rate with its Mbit/s, and its multiple of 2.5 Gbit/s, if any.
        const RATES: [(StaticRate, u32, Option<u32>); 23] = [$(($name, $mbps, $mult)),*];
    };
}

rates! {
    /// The rate that a path may carry (`static_rate` of ibv_create_ah(3), `enum ibv_rate`), in an
    /// [`AddressVector`]. The device leaves gaps between packets, so that they do not exceed this
    /// rate. Only InfiniBand has static rates; on other fabrics devices ignore them.
    ///
    /// The names are signalling rates in Gbit/s. The default is `Unlimited`, C's `IBV_RATE_MAX`:
    /// the port's own rate.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::StaticRate;
    /// let static_rate = StaticRate::Gbps10;
    /// let slow = AddressVector { static_rate, ..AddressVector::infiniband(1, 4) };
    /// assert_eq!(slow.static_rate.to_mbps(), Some(10_000));
    /// assert_eq!(slow.static_rate.to_mult(), Some(4)); // times 2.5 Gbit/s
    /// assert_eq!(StaticRate::from_mbps(25_781), Some(StaticRate::Gbps25));
    /// assert_eq!(StaticRate::from_mult(12), Some(StaticRate::Gbps30));
    /// assert_eq!(
    ///     (StaticRate::default(), StaticRate::Unlimited.to_mbps()),
    ///     (StaticRate::Unlimited, None)
    /// );
    /// ```
    ///
    /// [`AddressVector`]: https://docs.rs/proverbs/latest/proverbs/device/struct.AddressVector.html
    Gbps2_5 = 2, #[doc(alias = "IBV_RATE_2_5_GBPS")], 2_500, Some(1);
    Gbps5 = 5, #[doc(alias = "IBV_RATE_5_GBPS")], 5_000, Some(2);
    Gbps10 = 3, #[doc(alias = "IBV_RATE_10_GBPS")], 10_000, Some(4);
    Gbps14 = 11, #[doc(alias = "IBV_RATE_14_GBPS")], 14_062, None;
    Gbps20 = 6, #[doc(alias = "IBV_RATE_20_GBPS")], 20_000, Some(8);
    Gbps25 = 15, #[doc(alias = "IBV_RATE_25_GBPS")], 25_781, None;
    Gbps28 = 19, #[doc(alias = "IBV_RATE_28_GBPS")], 28_125, Some(11);
    Gbps30 = 4, #[doc(alias = "IBV_RATE_30_GBPS")], 30_000, Some(12);
    Gbps40 = 7, #[doc(alias = "IBV_RATE_40_GBPS")], 40_000, Some(16);
    Gbps50 = 20, #[doc(alias = "IBV_RATE_50_GBPS")], 53_125, Some(20);
    Gbps56 = 12, #[doc(alias = "IBV_RATE_56_GBPS")], 56_250, None;
    Gbps60 = 8, #[doc(alias = "IBV_RATE_60_GBPS")], 60_000, Some(24);
    Gbps80 = 9, #[doc(alias = "IBV_RATE_80_GBPS")], 80_000, Some(32);
    Gbps100 = 16, #[doc(alias = "IBV_RATE_100_GBPS")], 103_125, None;
    Gbps112 = 13, #[doc(alias = "IBV_RATE_112_GBPS")], 112_500, None;
    Gbps120 = 10, #[doc(alias = "IBV_RATE_120_GBPS")], 120_000, Some(48);
    Gbps168 = 14, #[doc(alias = "IBV_RATE_168_GBPS")], 168_750, None;
    Gbps200 = 17, #[doc(alias = "IBV_RATE_200_GBPS")], 206_250, None;
    Gbps300 = 18, #[doc(alias = "IBV_RATE_300_GBPS")], 309_375, None;
    Gbps400 = 21, #[doc(alias = "IBV_RATE_400_GBPS")], 425_000, Some(160);
    Gbps600 = 22, #[doc(alias = "IBV_RATE_600_GBPS")], 637_500, Some(240);
    Gbps800 = 23, #[doc(alias = "IBV_RATE_800_GBPS")], 850_000, Some(320);
    Gbps1200 = 24, #[doc(alias = "IBV_RATE_1200_GBPS")], 1_275_000, Some(480);
}

impl StaticRate {
    /// The rate in Mbit/s (`ibv_rate_to_mbps`); `None` for `Unlimited`.
    #[doc(alias = "ibv_rate_to_mbps")]
    pub fn to_mbps(self) -> Option<u32> {
        RATES.iter().find(|rate| rate.0 == self).map(|rate| rate.1)
    }

    /// The rate of exactly this many Mbit/s (`mbps_to_ibv_rate`).
    #[doc(alias = "mbps_to_ibv_rate")]
    pub fn from_mbps(mbps: u32) -> Option<StaticRate> {
        RATES.iter().find(|rate| rate.1 == mbps).map(|rate| rate.0)
    }

    /// The multiple of 2.5 Gbit/s that it counts as (`ibv_rate_to_mult`); `None` for `Unlimited`
    /// and for rates without a multiple in C.
    #[doc(alias = "ibv_rate_to_mult")]
    pub fn to_mult(self) -> Option<u32> {
        RATES.iter().find(|rate| rate.0 == self).and_then(|rate| rate.2)
    }

    /// The rate that counts as this multiple of 2.5 Gbit/s (`mult_to_ibv_rate`).
    #[doc(alias = "mult_to_ibv_rate")]
    pub fn from_mult(mult: u32) -> Option<StaticRate> {
        RATES.iter().find(|rate| rate.2 == Some(mult)).map(|rate| rate.0)
    }

    /// The code in C; `None` if no rate has it.
    #[doc(hidden)]
    pub fn from_c(code: u8) -> Option<StaticRate> {
        match code {
            0 => Some(Unlimited),
            _ => RATES.iter().find(|rate| rate.0.to_c() == code).map(|rate| rate.0),
        }
    }

    #[doc(hidden)]
    pub fn to_c(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_round_trips() {
        for (rate, mbps, mult) in RATES {
            assert_eq!(StaticRate::from_c(rate.to_c()), Some(rate));
            assert_eq!((rate.to_mbps(), StaticRate::from_mbps(mbps)), (Some(mbps), Some(rate)));
            assert_eq!(rate.to_mult(), mult);
            assert!(mult.is_none_or(|mult| StaticRate::from_mult(mult) == Some(rate)));
        }
        assert_eq!([0, 1, 25, 255].map(StaticRate::from_c), [Some(Unlimited), None, None, None]);
        assert_eq!((StaticRate::from_mbps(0), StaticRate::from_mult(0)), (None, None));
    }
}
