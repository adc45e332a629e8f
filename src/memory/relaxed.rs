//! Memory in which writes may arrive in any order.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::memory::registered::AccessFlags;
use crate::memory::rights::sealed::Sealed;
use crate::memory::{
    Access, GrantsAtomic, GrantsRead, GrantsWrite, Includes, LocalRead, LocalWrite, ReadOnly,
    RegionBuilder, RegistersAs, Remote, RemoteAll, RemoteAtomic, RemoteRead, RemoteReadWrite,
    RemoteWrite,
};

/// The rights `A` with `IBV_ACCESS_RELAXED_ORDERING` ([`Access`]).
///
/// Writes of peers may become visible in any order, even within one message, until their completion
/// has been polled (ibv_reg_mr(3)). This is faster on some machines. Devices and kernels without
/// support ignore the flag, and writes arrive as with `A`. The loopback device accepts the flag and
/// writes in order, one message at a time.
///
/// Only the side that registers the region chooses this: the key that it exports to the peer has
/// the rights `A`. `Relaxed` can be combined with atomics.
///
/// Data that has arrived does not mean that other data has arrived: the last byte of a message may
/// arrive before the others. So this memory does not have cells. Wait for a completion instead, or
/// for a later WRITE to a flag in another region without `Relaxed`
/// ([R18.41](crate::guide::rules#r18-41)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Relaxed;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// use std::sync::atomic::Ordering;
///
/// let bulk: MemoryRegion<Relaxed<RemoteWrite>> =
///     pd.region::<RemoteWrite>().relaxed_ordering().create(4096)?;
/// let told: RemoteSlice<RemoteWrite> = bulk.remote();
/// let flag = pd.register::<RemoteWrite>(8)?;
/// // At the peer:
/// let mut data = pool.take().ok_or("no buffer")?;
/// data.copy_from(b"a page of data")?;
/// a.post_send(wr::RdmaWrite::new(data, told.write()))?;
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
/// such rights can contain a flag ([R18.41](crate::guide::rules#r18-41)).
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
    message = "flags and counters cannot be in `{Self}` memory",
    label = "writes to this region arrive in any order",
    note = "register a separate region for flags and counters, as in `pd.register::<RemoteWrite>(64)`, and write to it after the data; or wait for a completion (R18.41)"
)]
pub trait Ordered: Access {}

/// Rights ([`Access`]) that can be [`Relaxed`]: the plain rights of regions that devices write.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{Bulk, Relaxed};
/// fn register<A: Bulk>(
///     pd: &ProtectionDomain,
/// ) -> Result<MemoryRegion<Relaxed<A>>, proverbs::Error> {
///     pd.register(1 << 20)
/// }
/// let _ = (register::<RemoteRead>, register::<RemoteWrite>, register::<RemoteAll>);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be relaxed",
    label = "not the plain rights of a region",
    note = "`Relaxed` goes inside `Windowed` and around `Flushable`: `Windowed<Relaxed<RemoteWrite>>`, `Relaxed<Flushable<RemoteWrite>>`; for writable memory without remote access use `Relaxed<LocalWrite>` (R18.41)"
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
rights!(bulk: LocalWrite RemoteRead RemoteWrite RemoteReadWrite RemoteAtomic RemoteAll);

impl<A: Bulk> Sealed for Relaxed<A> {}
impl<A: Bulk> Access for Relaxed<A> {
    type Key = A::Key;
    const FLAGS: u32 = A::FLAGS | AccessFlags::RELAXED_ORDERING.bits();
    const NAME: &'static str = A::RELAXED;
}
impl<A: Bulk + GrantsRead> GrantsRead for Relaxed<A> {}
impl<A: Bulk + GrantsWrite> GrantsWrite for Relaxed<A> {}
impl<A: Bulk + GrantsAtomic> GrantsAtomic for Relaxed<A> {}
impl<A: Bulk + Remote> Remote for Relaxed<A> {}
impl<A: Bulk + Includes<B>, B: Access> Includes<B> for Relaxed<A> {}
impl RegistersAs<Relaxed<RemoteRead>> for ReadOnly {}

impl<'a, A: Bulk> RegionBuilder<'a, A> {
    /// Registers with `IBV_ACCESS_RELAXED_ORDERING`: the region's rights are [`Relaxed`], and its
    /// keys have the rights `A`.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.region::<RemoteAll>().relaxed_ordering().create(4096)?;
    /// let key: RemoteSlice<RemoteAll> = region.remote();
    /// # let _ = key;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "IBV_ACCESS_RELAXED_ORDERING")]
    pub fn relaxed_ordering(self) -> RegionBuilder<'a, Relaxed<A>> {
        self.pd.region()
    }
}

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
            (<Relaxed<RemoteAll>>::FLAGS, RemoteAll::FLAGS),
        ] {
            assert_eq!(relaxed, strict | 1 << 20); // IBV_ACCESS_RELAXED_ORDERING
            assert_eq!((relaxed & OPTIONAL_ACCESS, strict & OPTIONAL_ACCESS), (1 << 20, 0));
        }
        assert_eq!(<Relaxed<RemoteWrite>>::NAME, "Relaxed<RemoteWrite>");
    }
}
