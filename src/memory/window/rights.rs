//! Regions that memory windows may be bound to.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::memory::own::{Allows, ReadOnly};
use crate::memory::region::sealed::Sealed;
use crate::memory::region::{
    Access, GrantsAtomic, GrantsRead, GrantsWrite, Includes, Remote, RemoteRead,
};
use crate::memory::registered::AccessFlags;
use crate::memory::relaxed::Ordered;

/// The rights `A` with `IBV_ACCESS_MW_BIND` ([`Access`]): memory windows may be bound to the region
/// (R1.7). `A` are the rights of the region's own key: with `Windowed<LocalWrite>` it has none, and
/// peers reach it through windows alone.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Windowed;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let region: MemoryRegion<Windowed<LocalWrite>> = pd.register(4096)?;
/// region.write_at(0, b"what a window will show")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Windowed<A: Access>(Infallible, PhantomData<A>);

/// Rights ([`Access`]) with which a region may have memory windows: [`Windowed`] ones (R1.7).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{BindsWindows, Windowed};
/// fn len<A: BindsWindows>(of: &MemoryRegion<A>) -> usize {
///     of.len()
/// }
/// let _ = (len::<Windowed<LocalWrite>>, len::<Windowed<RemoteRead>>);
/// ```
#[diagnostic::on_unimplemented(
    message = "no memory window can be bound to a `{Self}` region",
    label = "the region was registered without MW_BIND",
    note = "register it for windows, as in `pd.register::<Windowed<LocalWrite>>(len)` (R1.7)"
)]
pub trait BindsWindows: Access {}

impl<A: Access> BindsWindows for Windowed<A> {}
impl<A: Access> Sealed for Windowed<A> {}
impl<A: Access> Access for Windowed<A> {
    const FLAGS: u32 = A::FLAGS | AccessFlags::MW_BIND.bits();
    const NAME: &'static str = A::NAME;
}
impl<A: GrantsRead> GrantsRead for Windowed<A> {}
impl<A: GrantsWrite> GrantsWrite for Windowed<A> {}
impl<A: GrantsAtomic> GrantsAtomic for Windowed<A> {}
impl<A: Remote> Remote for Windowed<A> {}
impl<A: Ordered> Ordered for Windowed<A> {}
impl<A: Includes<B>, B: Access> Includes<B> for Windowed<A> {}
impl Allows<Windowed<RemoteRead>> for ReadOnly {}
