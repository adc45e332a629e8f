//! Regions to which memory windows can be bound.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::memory::registered::AccessFlags;
use crate::memory::rights::sealed::Sealed;
use crate::memory::{
    Access, GrantsAtomic, GrantsRead, GrantsWrite, Includes, Ordered, Remote, RemoteAll,
    RemoteAtomic, RemoteRead, RemoteReadWrite, RemoteWrite,
};

/// The rights `A` with `IBV_ACCESS_MW_BIND` ([`Access`]): memory windows can be bound to the region
/// ([R1.7](crate::guide::rules#r1-7)). The key of the region itself has the rights `A`. With
/// `Windowed<LocalWrite>` it does not have a key, and peers access it only through windows.
///
/// The memory must be writable: the kernel treats `IBV_ACCESS_MW_BIND` as a right to write, and
/// does not pin read-only memory for it (EFAULT).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::Windowed;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let region: MemoryRegion<Windowed<LocalWrite>> = pd.register(4096)?;
/// region.write_at(0, b"what a window will show")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "IBV_ACCESS_MW_BIND")]
pub struct Windowed<A: Access>(Infallible, PhantomData<A>);

/// Rights ([`Access`]) of a region to which memory windows can be bound: [`Windowed`] ones
/// ([R1.7](crate::guide::rules#r1-7)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::{BindsWindows, Windowed};
/// fn len<A: BindsWindows>(of: &MemoryRegion<A>) -> usize {
///     of.len()
/// }
/// let _ = (len::<Windowed<LocalWrite>>, len::<Windowed<RemoteRead>>);
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no memory window can be bound to a `{Self}` region",
    label = "the region was registered without MW_BIND",
    note = "register it for windows, as in `pd.register::<Windowed<LocalWrite>>(len)`"
)]
pub trait BindsWindows: Access {}

/// `Self: BindsTo<R>`: a memory window that grants a peer these rights can be bound to a region
/// with the rights `R` ([R18.41](crate::guide::rules#r18-41), [R1.7](crate::guide::rules#r1-7)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::{BindsTo, Windowed};
/// use proverbs::memory::Relaxed;
/// fn may_be_bound<A: BindsTo<R>, R: proverbs::ext::windows::BindsWindows>() {}
/// may_be_bound::<RemoteAtomic, Windowed<LocalWrite>>();
/// may_be_bound::<RemoteWrite, Windowed<Relaxed<LocalWrite>>>();
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no memory window has the rights `{Self}`",
    label = "what a window opens, it opens to a peer",
    note = "bind it as `ext::windows::BindMw::<RemoteRead>`, or with another of a peer's rights"
)]
pub trait BindsTo<R: BindsWindows>: Remote {}

macro_rules! binds {
    ($($rights:ident)*) => { $(impl<R: BindsWindows> BindsTo<R> for $rights {})* };
}

binds!(RemoteRead RemoteWrite RemoteReadWrite RemoteAtomic RemoteAll);

impl<A: Access> BindsWindows for Windowed<A> {}
impl<A: Access> Sealed for Windowed<A> {}
impl<A: Access> Access for Windowed<A> {
    type Key = Windowed<A::Key>;
    const FLAGS: u32 = A::FLAGS | AccessFlags::MW_BIND.bits();
    const NAME: &'static str = A::NAME;
}
impl<A: GrantsRead> GrantsRead for Windowed<A> {}
impl<A: GrantsWrite> GrantsWrite for Windowed<A> {}
impl<A: GrantsAtomic> GrantsAtomic for Windowed<A> {}
impl<A: Remote> Remote for Windowed<A> {}
impl<A: Ordered> Ordered for Windowed<A> {}
impl<A: Includes<B>, B: Access> Includes<B> for Windowed<A> {}
