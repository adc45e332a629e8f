//! Memory whose writes may arrive in any order.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::memory::own::{ReadOnly, RegistersAs};
use crate::memory::registered::AccessFlags;
use crate::memory::rights::sealed::Sealed;
use crate::memory::rights::{
    Access, GrantsRead, GrantsWrite, Includes, LocalRead, LocalWrite, Remote, RemoteAll,
    RemoteAtomic, RemoteRead, RemoteReadWrite, RemoteWrite,
};

/// The rights `A` with `IBV_ACCESS_RELAXED_ORDERING` ([`Access`]): what peers write there may
/// become visible in any order, also within one message, until its completion was polled
/// (ibv_reg_mr(3)). Some machines are faster so. Where the device or the kernel does not know this,
/// they leave it out, and all is as with `A`. The loopback device takes it and writes in order: a
/// message at once.
///
/// So nothing in this memory tells that something else has arrived: it has no cells and takes no
/// atomics, and a last byte says nothing of those before it. A completion tells, or a WRITE behind
/// it to a flag in a region of its own, without `Relaxed` ([R18.41](crate::guide::rules#r18-41)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Relaxed;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// use std::sync::atomic::Ordering;
///
/// let bulk = pd.register::<Relaxed<RemoteWrite>>(4096)?;
/// let flag = pd.register::<RemoteWrite>(8)?;
/// // At the peer:
/// let mut data = pool.take().ok_or("no buffer")?;
/// data.copy_from(b"a page of data")?;
/// a.post_send(wr::RdmaWrite::new(data, bulk.remote().write()))?;
/// a.post_send(wr::RdmaWrite::inline(&1u64.to_ne_bytes(), flag.remote().write()))?;
/// # proverbs::loopback::poll(&mut cq, 2)?;
/// // And here:
/// while flag.cell(0)?.load(Ordering::Acquire) == 0 {}
/// let mut out = [0; 14];
/// bulk.read_at(0, &mut out)?;
/// assert_eq!(&out, b"a page of data");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// use proverbs::memory::Relaxed;
/// fn poll(bulk: &MemoryRegion<Relaxed<RemoteWrite>>) {
///     let _ = bulk.cell(0); // its writes arrive in any order
/// }
/// ```
#[doc(alias("ibv_reg_mr_iova2", "IBV_ACCESS_RELAXED_ORDERING", "IBV_ACCESS_OPTIONAL_RANGE"))]
#[doc(alias = "IBV_ACCESS_OPTIONAL_FIRST")]
pub struct Relaxed<A: Bulk>(Infallible, PhantomData<A>);

/// Rights ([`Access`]) under which writes arrive in order: all but [`Relaxed`] ones. Memory with
/// such rights can have a flag in it ([R18.41](crate::guide::rules#r18-41)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{Ordered, Remote};
/// fn is_set<A: Remote + Ordered>(flag: &MemoryRegion<A>) -> bool {
///     flag.cell(0).is_ok_and(|flag| flag.load(std::sync::atomic::Ordering::Acquire) != 0)
/// }
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// assert!(!is_set(&pd.register::<RemoteWrite>(8)?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no flag or counter can be in `{Self}` memory",
    label = "writes to this region arrive in any order",
    note = "register a region of its own for flags and counters, as in `pd.register::<RemoteWrite>(64)`, and write to it behind the data; or wait for a completion. A memory window to this region has `Relaxed` rights (R18.41)"
)]
pub trait Ordered: Access {}

/// Rights ([`Access`]) for data of which nothing tells that the rest is there: they can be
/// [`Relaxed`].
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{Bulk, Relaxed};
/// fn register<A: Bulk>(
///     pd: &ProtectionDomain,
/// ) -> Result<MemoryRegion<Relaxed<A>>, proverbs::Error> {
///     pd.register(1 << 20)
/// }
/// let _ = (register::<RemoteRead>, register::<RemoteWrite>, register::<RemoteReadWrite>);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be relaxed",
    label = "atomics are for flags and counters, which need an order",
    note = "keep what atomics work on in a region of its own, without `Relaxed` (R18.41)"
)]
pub trait Bulk: Ordered {
    /// The name of the relaxed rights in messages.
    #[doc(hidden)]
    const RELAXED: &'static str;
}

macro_rules! rights {
    (ordered: $($t:ident)*) => { $(impl Ordered for $t {})* };
    (bulk: $($t:ident)*) => {
        $(impl Bulk for $t {
            const RELAXED: &'static str = concat!("Relaxed<", stringify!($t), ">");
        })*
    };
}

rights!(ordered: LocalWrite LocalRead RemoteRead RemoteWrite RemoteReadWrite RemoteAtomic RemoteAll);
rights!(bulk: LocalWrite RemoteRead RemoteWrite RemoteReadWrite);

impl<A: Bulk> Sealed for Relaxed<A> {}
impl<A: Bulk> Access for Relaxed<A> {
    const FLAGS: u32 = A::FLAGS | AccessFlags::RELAXED_ORDERING.bits();
    const NAME: &'static str = A::RELAXED;
}
impl<A: Bulk + GrantsRead> GrantsRead for Relaxed<A> {}
impl<A: Bulk + GrantsWrite> GrantsWrite for Relaxed<A> {}
impl<A: Bulk + Remote> Remote for Relaxed<A> {}
impl<A: Bulk + Includes<B>, B: Bulk> Includes<Relaxed<B>> for Relaxed<A> {}
impl RegistersAs<Relaxed<RemoteRead>> for ReadOnly {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R18.41.
    #[test]
    fn the_flag_is_passed_and_is_optional() {
        use crate::sys::types::OPTIONAL_ACCESS;
        for (relaxed, strict) in [
            (<Relaxed<LocalWrite>>::FLAGS, LocalWrite::FLAGS),
            (<Relaxed<RemoteRead>>::FLAGS, RemoteRead::FLAGS),
            (<Relaxed<RemoteWrite>>::FLAGS, RemoteWrite::FLAGS),
            (<Relaxed<RemoteReadWrite>>::FLAGS, RemoteReadWrite::FLAGS),
        ] {
            assert_eq!(relaxed, strict | 1 << 20); // IBV_ACCESS_RELAXED_ORDERING
            assert_eq!((relaxed & OPTIONAL_ACCESS, strict & OPTIONAL_ACCESS), (1 << 20, 0));
        }
        assert_eq!(<Relaxed<RemoteWrite>>::NAME, "Relaxed<RemoteWrite>");
    }
}
