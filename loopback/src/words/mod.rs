//! Plain data for programs, scripts and messages.

pub(crate) mod address;
pub(crate) mod attributes;
pub(crate) mod clock;
pub(crate) mod contract;
pub(crate) mod injected;
pub(crate) mod limits;
pub(crate) mod personality;
pub(crate) mod script;
pub(crate) mod shuffle;
pub(crate) mod transport;
pub(crate) mod world;
pub(crate) mod wr;

use rand_core::RngCore;
use rand_pcg::Pcg32;

/// The result of a verb, or the errno.
pub(crate) type Verb<T = ()> = Result<T, std::ffi::c_int>;

/// A random number below `n`, which must not be 0. (Lemire's reduction; its bias does not matter
/// here.)
pub(crate) fn below(rng: &mut Pcg32, n: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(n)) >> 32) as u32
}
