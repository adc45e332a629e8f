//! The rights of a region, as types.

use crate::memory::registered::AccessFlags;

/// The rights of a region (`access` of ibv_reg_mr(3)). A region of writable memory always has
/// LOCAL_WRITE as well ([R6.1](crate::guide::rules#r6-1)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{GrantsRead, ToRead, ToWrite};
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let readers = pd.register::<RemoteRead>(64)?.remote();
/// let _: RemoteSpan<ToRead> = readers.read();
/// let writers = pd.register::<RemoteWrite>(64)?.remote();
/// let _: RemoteSpan<ToWrite> = writers.write();
/// let counters = pd.register::<RemoteAtomic>(64)?.remote();
/// let _: RemoteCell = counters.atomic(8)?;
/// let both = pd.register::<RemoteReadWrite>(64)?;
/// let _: MemoryRegion<RemoteAll> = pd.register(64)?;   // and atomics
/// let _: RemoteSlice<RemoteRead> = both.export();      // a key that only allows reads
/// let mine = pd.register::<LocalWrite>(64)?;           // no key, only pieces
/// assert_eq!((both.len(), mine.len()), (64, 64));
///
/// /// Accepts all rights that allow reads.
/// fn start<A: GrantsRead>(from: &RemoteSlice<A>) -> RemoteSpan<ToRead> {
///     from.read()
/// }
/// let _ = start(&both.remote());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Using a right that was not granted does not compile:
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// fn write(readers: RemoteSlice<RemoteRead>) {
///     readers.write(); // `RemoteRead` does not grant RDMA WRITE
/// }
/// ```
#[doc(alias = "ibv_access_flags")]
pub trait Access: sealed::Sealed + 'static {
    /// The rights of the peer's key: these rights without local options such as
    /// [`Relaxed`](crate::memory::Relaxed).
    type Key: Access;
    #[doc(hidden)]
    const FLAGS: u32;
    /// The name used in messages.
    #[doc(hidden)]
    const NAME: &'static str;
}

/// Rights ([`Access`]) under which the peer may read (`IBV_ACCESS_REMOTE_READ`;
/// [R6.7](crate::guide::rules#r6-7)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not grant RDMA READ",
    label = "the peer exported this without REMOTE_READ",
    note = "the region must be registered, and its key exported, with REMOTE_READ"
)]
pub trait GrantsRead: Access {}
/// Rights ([`Access`]) under which the peer may write (`IBV_ACCESS_REMOTE_WRITE`;
/// [R6.7](crate::guide::rules#r6-7)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::GrantsWrite;
/// fn start<A: GrantsWrite>(to: &RemoteSlice<A>) -> RemoteSpan {
///     to.write()
/// }
/// let _ = (start::<RemoteWrite>, start::<RemoteReadWrite>, start::<RemoteAll>);
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not grant RDMA WRITE",
    label = "the peer exported this without REMOTE_WRITE",
    note = "the region must be registered, and its key exported, with REMOTE_WRITE"
)]
pub trait GrantsWrite: Access {}
/// Rights ([`Access`]) under which the peer may perform atomics (`IBV_ACCESS_REMOTE_ATOMIC`;
/// [R4.3](crate::guide::rules#r4-3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{GrantsAtomic, OutOfBounds};
/// fn first<A: GrantsAtomic>(of: &RemoteSlice<A>) -> Result<RemoteCell, OutOfBounds> {
///     of.atomic(0)
/// }
/// let _ = (first::<RemoteAtomic>, first::<RemoteAll>);
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not grant atomics",
    label = "the peer exported this without REMOTE_ATOMIC",
    note = "the region must be registered, and its key exported, with REMOTE_ATOMIC"
)]
pub trait GrantsAtomic: Access {}
/// Rights ([`Access`]) that include some access for peers, so that the region has an rkey
/// ([R6.6](crate::guide::rules#r6-6)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Remote;
/// fn tell<A: Remote>(region: &MemoryRegion<A>) -> [u8; 24] {
///     region.remote().to_bytes()
/// }
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// assert_eq!(tell(&pd.register::<RemoteRead>(64)?).len(), 24);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` region grants peers no rights, so it has no rkey",
    label = "this region is for this program only",
    note = "register it with a remote right, as in `pd.register::<RemoteRead>(len)`"
)]
pub trait Remote: Access {}
/// `Self: Includes<B>`: a region with the rights `Self` can export a key with the rights `B`
/// ([R6.7](crate::guide::rules#r6-7)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{Includes, Remote};
/// fn for_readers<A: Remote + Includes<RemoteRead>>(
///     of: &MemoryRegion<A>,
/// ) -> RemoteSlice<RemoteRead> {
///     of.export()
/// }
/// let _ = (for_readers::<RemoteRead>, for_readers::<RemoteReadWrite>, for_readers::<RemoteAll>);
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` region cannot export `{B}`",
    label = "the region lacks rights of `{B}`",
    note = "a key carries at most the rights of its region: register the region as `{B}`, or export less"
)]
pub trait Includes<B: Access>: Access {}

/// `IBV_ACCESS_LOCAL_WRITE` ([`Access`]): the device can write for this program's requests. Peers
/// have no rights.
#[doc(alias = "IBV_ACCESS_LOCAL_WRITE")]
#[derive(Debug)]
pub enum LocalWrite {}
/// No rights for peers ([`Access`]). The device only reads this memory, as the source of this
/// program's SENDs and RDMA WRITEs, so read-only memory can be registered with these rights, but
/// not with [`LocalWrite`] ([R6.3](crate::guide::rules#r6-3)).
///
/// Writable memory is registered with `IBV_ACCESS_LOCAL_WRITE`, as with `LocalWrite`.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::LocalRead;
/// profile! { Sender { entry: SharedBuf } }
/// static GREETING: [u8; 5] = *b"hello";
///
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Sender>()?;
/// # b.post_recv(wr::Recv::empty())?;
/// let region = pd.region::<LocalRead>().create_in(&GREETING[..])?; // peers cannot access it
/// a.post_send(wr::SendWithImm::new(region.share(0, 0)?, 5))?;
/// # proverbs::loopback::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum LocalRead {}
/// `IBV_ACCESS_REMOTE_READ` ([`Access`]), and LOCAL_WRITE for this program's requests.
#[doc(alias = "IBV_ACCESS_REMOTE_READ")]
#[derive(Debug)]
pub enum RemoteRead {}
/// `IBV_ACCESS_REMOTE_WRITE` ([`Access`]).
#[doc(alias = "IBV_ACCESS_REMOTE_WRITE")]
#[derive(Debug)]
pub enum RemoteWrite {}
/// `IBV_ACCESS_REMOTE_READ` and `IBV_ACCESS_REMOTE_WRITE` ([`Access`]).
#[derive(Debug)]
pub enum RemoteReadWrite {}
/// `IBV_ACCESS_REMOTE_ATOMIC` ([`Access`]).
#[doc(alias = "IBV_ACCESS_REMOTE_ATOMIC")]
#[derive(Debug)]
pub enum RemoteAtomic {}
/// `IBV_ACCESS_REMOTE_READ`, `IBV_ACCESS_REMOTE_WRITE` and `IBV_ACCESS_REMOTE_ATOMIC` ([`Access`]).
#[derive(Debug)]
pub enum RemoteAll {}

macro_rules! rights {
    ($t:ident: $($flag:ident)* => $($grant:ident)*; includes $($sub:ident)*) => {
        impl sealed::Sealed for $t {}
        impl Access for $t {
            type Key = $t;
            const FLAGS: u32 =
                AccessFlags::LOCAL_WRITE.bits() $(| AccessFlags::$flag.bits())*;
            const NAME: &'static str = stringify!($t);
        }
        $(impl $grant for $t {})*
        $(impl Includes<$sub> for $t {})*
    };
}

rights!(LocalWrite: => ; includes);
rights!(LocalRead: => ; includes);
rights!(RemoteRead: REMOTE_READ => GrantsRead Remote; includes RemoteRead);
rights!(RemoteWrite: REMOTE_WRITE => GrantsWrite Remote; includes RemoteWrite);
rights!(RemoteReadWrite: REMOTE_READ REMOTE_WRITE => GrantsRead GrantsWrite Remote;
    includes RemoteRead RemoteWrite RemoteReadWrite);
rights!(RemoteAtomic: REMOTE_ATOMIC => GrantsAtomic Remote; includes RemoteAtomic);
rights!(RemoteAll: REMOTE_READ REMOTE_WRITE REMOTE_ATOMIC
    => GrantsRead GrantsWrite GrantsAtomic Remote;
    includes RemoteRead RemoteWrite RemoteReadWrite RemoteAtomic RemoteAll);

pub(crate) mod sealed {
    pub trait Sealed {}
}
