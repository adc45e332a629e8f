//! The initiator depth of a queue pair: at least 1, or none.

use std::fmt::Debug;
use std::hash::Hash;

use crate::terms::bounded::ReadDepth;

/// The initiator depth of a queue pair without reads: 0 ([R4.6]), an [`InitiatorDepth`].
///
/// [R4.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-6
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoDepth;

/// [`ReadDepth`] or [`NoDepth`] (`max_rd_atomic` of ibv_modify_qp(3); [R4.6]).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::qp::{Initiator, InitiatorDepth, NoDepth};
/// /// RTR -> RTS, for profiles with and without reads.
/// fn ready<P: Profile>(
///     qp: QueuePair<Rc, Rtr, P>,
///     depth: <P::Initiator as Initiator>::Depth,
/// ) -> Result<QueuePair<Rc, Rts, P>, proverbs::Error> {
///     fn show(depth: impl InitiatorDepth) {
///         println!("{depth:?}");
///     }
///     show(depth);
///     Ok(qp.modify(RcRts::new(Psn::try_from(0)?, depth))?)
/// }
/// profile! { Writer { initiator: NoReads } }
/// let _ = |qp| ready::<Writer>(qp, NoDepth);
/// let _ = |qp| ready::<DefaultProfile>(qp, ReadDepth::ONE);
/// ```
///
/// [R4.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-6
pub trait InitiatorDepth: Copy + Eq + Hash + Debug + sealed::Sealed {
    /// The minimum: 1, or none.
    #[doc(hidden)]
    const LEAST: Self;

    #[doc(hidden)]
    fn to_c(self) -> u8;
    /// Converts the number that both sides agreed on; `None` if it is too small for this profile.
    #[doc(hidden)]
    fn from_agreed(depth: u8) -> Option<Self>;
}
impl InitiatorDepth for ReadDepth {
    const LEAST: Self = ReadDepth::ONE;

    fn to_c(self) -> u8 {
        self.get()
    }

    fn from_agreed(depth: u8) -> Option<Self> {
        ReadDepth::new(depth)
    }
}
impl InitiatorDepth for NoDepth {
    const LEAST: Self = NoDepth;

    fn to_c(self) -> u8 {
        0
    }

    fn from_agreed(_: u8) -> Option<Self> {
        Some(NoDepth)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ReadDepth {}
    impl Sealed for super::NoDepth {}
}
