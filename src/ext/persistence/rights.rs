//! Rights under which a peer may FLUSH a region, and the targets of a FLUSH.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::allows::{Allows, call};
use crate::ext::windows::Windowed;
use crate::memory::registered::AccessFlags;
use crate::memory::rights::sealed::Sealed;
use crate::memory::{
    Access, Bulk, Container, GrantsAtomic, GrantsRead, GrantsWrite, Includes, Ordered, OutOfBounds,
    Remote, RemoteAll, RemoteAtomic, RemoteRead, RemoteReadWrite, RemoteSlice, RemoteWrite,
};
use crate::sys::persist::{placement, selectivity};

/// The rights `A` with `IBV_ACCESS_FLUSH_GLOBAL` ([`Access`]): a peer's FLUSH may make the data
/// written to the region globally visible ([R25.1](crate::guide::rules#r25-1)).
/// [`ext::persistence::Flush`](crate::ext::persistence::Flush) has an example.
///
/// Registration fails on a device without [`FlushGlobal`](crate::device::FlushGlobal).
#[doc(alias("IBV_ACCESS_FLUSH_GLOBAL", "IBV_FLUSH_GLOBAL", "ibv_placement_type"))]
pub struct Flushable<A: Remote>(Infallible, PhantomData<A>);

/// The rights `A` with `IBV_ACCESS_FLUSH_GLOBAL` and `IBV_ACCESS_FLUSH_PERSISTENT` ([`Access`]): a
/// peer's FLUSH may also make the data written to the region survive a power failure
/// ([R25.1](crate::guide::rules#r25-1)).
///
/// Registration fails on a device without [`FlushPersistent`](crate::device::FlushPersistent), and
/// for memory that is not persistent: Soft-RoCE accepts only persistent memory (EINVAL). The
/// loopback device never loses power and accepts any memory.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::persistence::Persistent;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let log = pd.register::<Persistent<RemoteWrite>>(4096)?;
/// let _ = log.remote().flush_persistent()?; // for the peer, once it knows the slice
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_ACCESS_FLUSH_PERSISTENT", "IBV_FLUSH_PERSISTENT"))]
pub struct Persistent<A: Remote>(Infallible, PhantomData<A>);

/// Rights ([`Access`]) under which a peer may FLUSH to global visibility
/// (`IBV_ACCESS_FLUSH_GLOBAL`; [R25.1](crate::guide::rules#r25-1)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::persistence::{Flushable, GrantsFlush, Persistent, RemoteFlush};
/// use proverbs::memory::OutOfBounds;
/// fn all<A: GrantsFlush>(of: &RemoteSlice<A>) -> Result<RemoteFlush, OutOfBounds> {
///     of.flush_global()
/// }
/// let _ = (all::<Flushable<RemoteWrite>>, all::<Persistent<RemoteAll>>);
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not grant FLUSH",
    label = "the peer exported this without FLUSH_GLOBAL",
    note = "the region must be registered, and its key exported, as `Flushable<RemoteWrite>` or as `Flushable` with other rights"
)]
pub trait GrantsFlush: Access {}

/// Rights ([`Access`]) under which a peer may FLUSH to persistence (`IBV_ACCESS_FLUSH_PERSISTENT`;
/// [R25.1](crate::guide::rules#r25-1)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::persistence::{GrantsPersistence, Persistent, RemoteFlush};
/// use proverbs::memory::OutOfBounds;
/// fn keep<A: GrantsPersistence>(what: &RemoteSlice<A>) -> Result<RemoteFlush, OutOfBounds> {
///     what.flush_persistent()
/// }
/// let _ = keep::<Persistent<RemoteReadWrite>>;
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not grant FLUSH to persistence",
    label = "the peer exported this without FLUSH_PERSISTENT",
    note = "the region must be registered, and its key exported, as `Persistent<RemoteWrite>` or as `Persistent` with other rights"
)]
pub trait GrantsPersistence: Access {}

macro_rules! flushable {
    ($t:ident: $($flag:ident)*) => {
        impl<A: Remote> Sealed for $t<A> {}
        impl<A: Remote> Access for $t<A> {
            type Key = $t<A>;
            const FLAGS: u32 = A::FLAGS $(| AccessFlags::$flag.bits())*;
            const NAME: &'static str = A::NAME;
        }
        impl<A: Remote> Remote for $t<A> {}
        impl<A: Remote + GrantsRead> GrantsRead for $t<A> {}
        impl<A: Remote + GrantsWrite> GrantsWrite for $t<A> {}
        impl<A: Remote + GrantsAtomic> GrantsAtomic for $t<A> {}
        impl<A: Remote> GrantsFlush for $t<A> {}
        impl<A: Remote + Ordered> Ordered for $t<A> {}
        impl<A: Remote + Bulk> Bulk for $t<A> {
            const RELAXED: &'static str = A::RELAXED;
        }
        impl<A: Remote + Includes<B>, B: Remote> Includes<Flushable<B>> for $t<A> {}
        flushable!(plain $t: RemoteRead RemoteWrite RemoteReadWrite RemoteAtomic RemoteAll);
    };
    (plain $t:ident: $($rights:ident)*) => {
        $(impl<A: Remote + Includes<$rights>> Includes<$rights> for $t<A> {})*
    };
}

flushable!(Flushable: FLUSH_GLOBAL);
flushable!(Persistent: FLUSH_GLOBAL FLUSH_PERSISTENT);
impl<A: Remote> GrantsPersistence for Persistent<A> {}
impl<A: Remote + Includes<B>, B: Remote> Includes<Persistent<B>> for Persistent<A> {}
impl<A: GrantsFlush> GrantsFlush for Windowed<A> {}
impl<A: GrantsPersistence> GrantsPersistence for Windowed<A> {}

/// The target of a FLUSH: bytes of a peer's region or the whole region, and the placement type.
/// [`ext::persistence::Flush`](crate::ext::persistence::Flush) has an example.
///
/// It can be created only from a slice with that right ([R25.1](crate::guide::rules#r25-1)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::persistence::{Flushable, RemoteFlush};
/// let theirs = RemoteSlice::<Flushable<RemoteWrite>>::from_parts(0x7f00_0000, 4096, 0x1234);
/// let part: RemoteFlush = theirs.slice(0, 64)?.flush_global()?;
/// let all: RemoteFlush = part.whole_region();
/// # let _ = all;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_FLUSH_RANGE", "IBV_FLUSH_MR", "ibv_selectivity_level"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteFlush {
    pub(super) addr: u64,
    pub(super) len: u64,
    pub(super) rkey: u32,
    pub(super) placement: u8,
    pub(super) level: u8,
}

impl RemoteFlush {
    /// Extends the target to the whole region that contains these bytes (`IBV_FLUSH_MR`).
    #[inline]
    pub fn whole_region(self) -> Self {
        RemoteFlush { level: selectivity::MR, ..self }
    }
}

allows! {
    [A: GrantsFlush] RemoteSlice<A>: GlobalFlush;
    [A: GrantsPersistence] RemoteSlice<A>: PersistentFlush;
}

impl<A: Access> RemoteSlice<A> {
    /// Returns this slice as the target of a FLUSH to global visibility (`IBV_FLUSH_GLOBAL`).
    ///
    /// # Errors
    /// [`OutOfBounds`] if it is longer than 2^32 - 1 bytes.
    #[inline]
    pub fn flush_global(&self) -> Result<RemoteFlush, OutOfBounds>
    where
        Self: Allows<call::GlobalFlush>,
    {
        self.flush(placement::GLOBAL)
    }

    /// Returns this slice as the target of a FLUSH to persistence (`IBV_FLUSH_PERSISTENT`).
    ///
    /// # Errors
    /// As for [`flush_global`](Self::flush_global).
    #[inline]
    pub fn flush_persistent(&self) -> Result<RemoteFlush, OutOfBounds>
    where
        Self: Allows<call::PersistentFlush>,
    {
        self.flush(placement::PERSISTENT)
    }

    fn flush(&self, placement: u8) -> Result<RemoteFlush, OutOfBounds> {
        let (addr, len, rkey) = (self.addr(), self.len(), self.rkey());
        let longest = u64::from(u32::MAX);
        if len > longest {
            return Err(OutOfBounds::new(Container::Element, 0, len, longest));
        }
        Ok(RemoteFlush { addr, len, rkey, placement, level: selectivity::RANGE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A FLUSH names at most 2^32 - 1 bytes.
    #[test]
    fn the_longest_flush() {
        let longest = u32::MAX.into();
        let slice = |len| RemoteSlice::<Flushable<RemoteWrite>>::from_parts(0x1000, len, 7);
        let RemoteFlush { addr, len, rkey, .. } = slice(longest).flush_global().unwrap();
        assert_eq!((addr, len, rkey), (0x1000, longest, 7));
        let (len, available) = (1 << 32, longest);
        let of = Container::Element;
        let refused = OutOfBounds { offset: 0, len, available, misaligned: false, of };
        assert_eq!(slice(len).flush_global().unwrap_err(), refused);
    }

    /// Proves R25.1.
    #[test]
    fn rights_are_flags() {
        let write = RemoteWrite::FLAGS;
        assert_eq!(<Flushable<RemoteWrite>>::FLAGS, write | 0x100);
        assert_eq!(<Persistent<RemoteWrite>>::FLAGS, write | 0x300);
        assert_eq!(<Windowed<Flushable<RemoteRead>>>::FLAGS, RemoteRead::FLAGS | 0x110);
    }

    #[test]
    fn a_flush_has_at_most_32_bits_of_bytes() {
        let flush =
            |len| RemoteSlice::<Persistent<RemoteRead>>::from_parts(1, len, 2).flush_persistent();
        let longest = u64::from(u32::MAX);
        let whole = flush(longest).unwrap();
        assert_eq!(whole, RemoteFlush { addr: 1, len: longest, rkey: 2, placement: 2, level: 0 });
        assert_eq!(whole.whole_region(), RemoteFlush { level: 1, ..whole });
        let error = flush(longest + 1).unwrap_err();
        assert_eq!((error.len, error.available), (longest + 1, longest));
        let global = RemoteSlice::<Persistent<RemoteRead>>::from_parts(1, 0, 2).flush_global();
        assert_eq!(global.unwrap(), RemoteFlush { len: 0, placement: 1, ..whole });
    }
}
