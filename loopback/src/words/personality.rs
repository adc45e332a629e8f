//! Personalities: how a fabric's devices behave where the manual pages leave it open.

use std::fmt;
use std::str::FromStr;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

use crate::words::below;
use proverbs_sys::terms::odp::OdpOps;

/// How the devices of a [`Fabric`] behave where the manual pages leave it open.
///
/// [The module](crate) has the table. A program that follows the manual pages, as every safe
/// program of this crate does, cannot distinguish personalities by anything that it may read.
///
/// ```
/// use proverbs::{loopback::{Fabric, Personality}, prelude::*};
///
/// // A server whose clients die works the same whatever device it runs on.
/// for personality in
///     [Personality::Plain, Personality::Rxe, Personality::Mlx5, Personality::worst(7)]
/// {
///     let context = Fabric::with(personality).open_device();
///     let pd = context.alloc_pd()?;
///     // ...
/// #   drop(pd);
/// }
/// // As an environment variable or a command line has it.
/// assert_eq!("worst:7".parse(), Ok(Personality::worst(7)));
/// assert_eq!(Personality::Mlx5.to_string(), "mlx5");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Fabric`]: https://docs.rs/proverbs/latest/proverbs/loopback/struct.Fabric.html
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Personality {
    /// The most lenient: every field of a completion is written, and no completion is removed.
    #[default]
    Plain,
    /// Linux's Soft-RoCE: how it fills completions and treats destroyed queue pairs (not its
    /// deviations from IBA).
    Rxe,
    /// The mlx5 provider: it writes only the fields that ibv_poll_cq(3) promises, and removes the
    /// completions of a destroyed queue pair.
    Mlx5,
    /// Anything that some device may do, chosen at random for each decision.
    Worst {
        /// The seed. The same program with the same seed sees the same behaviour.
        seed: u64,
    },
}

impl Personality {
    /// The worst behaviour that the manual pages allow, drawn from `seed`.
    pub const fn worst(seed: u64) -> Personality {
        Personality::Worst { seed }
    }
}

impl fmt::Display for Personality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Personality::Plain => f.write_str("plain"),
            Personality::Rxe => f.write_str("rxe"),
            Personality::Mlx5 => f.write_str("mlx5"),
            Personality::Worst { seed } => write!(f, "worst:{seed}"),
        }
    }
}

/// The text does not name a [`Personality`]. The names are `plain`, `rxe`, `mlx5`, `worst` (seed
/// 0), and `worst:7` for a seed.
///
/// ```
/// use proverbs::loopback::{Personality, UnknownPersonality};
/// let refused: Result<Personality, UnknownPersonality> = "mlx4".parse();
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "unknown personality `mlx4`; expected plain, rxe, mlx5, worst or worst:SEED"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPersonality(String);

impl fmt::Display for UnknownPersonality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown personality `{}`; expected plain, rxe, mlx5, worst or worst:SEED",
            self.0
        )
    }
}

impl std::error::Error for UnknownPersonality {}

impl FromStr for Personality {
    type Err = UnknownPersonality;

    fn from_str(text: &str) -> Result<Personality, UnknownPersonality> {
        let unknown = || UnknownPersonality(text.to_owned());
        Ok(match text {
            "plain" => Personality::Plain,
            "rxe" => Personality::Rxe,
            "mlx5" => Personality::Mlx5,
            "worst" => Personality::worst(0),
            _ => {
                let seed = text.strip_prefix("worst:").ok_or_else(unknown)?;
                Personality::worst(seed.parse().map_err(|_| unknown())?)
            }
        })
    }
}

/// How a completion is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Every field, zero where it has no meaning.
    Plain,
    /// Like `Plain`, but the completion of a send with immediate has the flag for it, and each
    /// receive has the flag for a GRH. On Soft-RoCE itself an invalidated key has its kernel's
    /// flag.
    Rxe { is_itself: bool },
    /// Only the fields that a provider takes from the hardware's entry.
    Mlx5,
    /// Only the fields that are valid by ibv_poll_cq(3).
    Promised,
}

/// A personality, with its random number generator.
pub(crate) struct Habits {
    personality: Personality,
    dice: Pcg32,
}

impl Default for Habits {
    fn default() -> Habits {
        Habits::of(Personality::Plain)
    }
}

impl Habits {
    pub(crate) fn of(personality: Personality) -> Habits {
        let seed = match personality {
            Personality::Worst { seed } => seed,
            _ => 0,
        };
        Habits { personality, dice: Pcg32::seed_from_u64(seed) }
    }

    /// A number below `n`.
    fn below(&mut self, n: u32) -> u32 {
        below(&mut self.dice, n)
    }

    /// Whether to behave like mlx5, where personalities differ.
    fn as_mlx5(&mut self) -> bool {
        match self.personality {
            Personality::Plain | Personality::Rxe => false,
            Personality::Mlx5 => true,
            Personality::Worst { .. } => self.below(2) == 0,
        }
    }

    /// How the next completion is written.
    pub(crate) fn fill(&mut self) -> Fill {
        match self.personality {
            Personality::Plain => Fill::Plain,
            Personality::Rxe => Fill::Rxe { is_itself: true },
            Personality::Mlx5 => Fill::Mlx5,
            Personality::Worst { .. } => {
                let rxe = Fill::Rxe { is_itself: false };
                [Fill::Plain, rxe, Fill::Mlx5, Fill::Promised][self.below(4) as usize]
            }
        }
    }

    /// Whether the completions of a queue pair that were not polled are removed when it is
    /// destroyed or reset.
    pub(crate) fn takes_completions_along(&mut self) -> bool {
        self.as_mlx5()
    }

    /// Whether a receive occupies its slot until its completion is polled, or only until the device
    /// has completed it.
    pub(crate) fn holds_slots_until_polled(&mut self) -> bool {
        self.as_mlx5()
    }

    /// Whether it lacks the features that Soft-RoCE of Linux 6.1 lacks: device memory, dma-buf,
    /// re-registration.
    pub(crate) fn is_rxe(&self) -> bool {
        self.personality == Personality::Rxe
    }

    /// Whether its completions have timestamps.
    pub(crate) fn has_clock(&self) -> bool {
        !self.is_rxe()
    }

    /// The operations that may access on-demand memory, on RC, UC and UD; none if it has no such
    /// memory. The worst device has the fewest that are of use.
    pub(crate) fn odp(&self) -> Option<[OdpOps; 3]> {
        let all = OdpOps::all() - OdpOps::FLUSH - OdpOps::ATOMIC_WRITE;
        let none = OdpOps::empty();
        match self.personality {
            Personality::Plain => Some([OdpOps::all(), all, all]),
            Personality::Rxe => None,
            Personality::Mlx5 => Some([all - OdpOps::ATOMIC, none, OdpOps::SEND]),
            Personality::Worst { .. } => Some([OdpOps::READ | OdpOps::SEND, none, none]),
        }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.personality == Personality::Plain
    }

    /// Whether it has thread domains.
    pub(crate) fn has_thread_domains(&mut self) -> bool {
        !self.is_rxe() && (!self.is_worst() || self.below(2) == 0)
    }

    /// Whether it has parent domains. Requires thread domains.
    pub(crate) fn has_parent_domains(&mut self) -> bool {
        !self.is_worst() || self.below(2) == 0
    }

    /// Whether it has completion queues that one thread uses.
    pub(crate) fn has_single_threaded_queues(&mut self) -> bool {
        !self.is_worst() || self.below(2) == 0
    }

    /// Whether copies to or from device memory must be whole 4-byte words.
    pub(crate) fn copies_words(&mut self) -> bool {
        self.as_mlx5()
    }

    /// Whether it refuses to deregister a region that a window is bound to.
    pub(crate) fn checks_windows(&mut self) -> bool {
        !self.as_mlx5()
    }

    /// Whether a new window reuses the number of the last one that was deallocated, and so its
    /// keys.
    pub(crate) fn reuses_keys(&mut self) -> bool {
        self.as_mlx5()
    }

    /// Whether a re-registered region keeps its keys.
    pub(crate) fn keeps_keys(&mut self) -> bool {
        self.as_mlx5()
    }

    fn is_worst(&self) -> bool {
        matches!(self.personality, Personality::Worst { .. })
    }

    /// The number of bytes of an element of length 0 (R3.3): 2^31 on some devices.
    pub(crate) fn length_of_zero(&mut self) -> u32 {
        if self.is_worst() && self.below(2) == 0 { 1 << 31 } else { 0 }
    }

    /// Whether a query writes garbage into attributes that were not requested (ibv_query_qp(3)).
    pub(crate) fn litters(&mut self) -> bool {
        self.is_worst() && self.below(2) == 0
    }

    /// How many times longer than its attributes say a device retries.
    pub(crate) fn patience(&mut self) -> u32 {
        if self.is_worst() { 1 + self.below(4) } else { 1 }
    }

    /// The return value of a failed poll.
    pub(crate) fn poll_error(&mut self) -> i32 {
        if self.as_mlx5() { -2 } else { -1 }
    }

    /// Undefined bytes for a header. Half of those that are not zero look like an IPv6 header.
    pub(crate) fn meaningless(&mut self) -> [u8; 40] {
        let mut bytes = [0; 40];
        if self.as_mlx5() {
            self.dice.fill_bytes(&mut bytes);
            if bytes[1] % 2 == 0 {
                bytes[0] = 0x60 | bytes[0] & 0xf;
            }
        }
        bytes
    }
}
