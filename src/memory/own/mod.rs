//! Memory of the program, for pools and regions: the rules for each kind. (What each kind
//! guarantees, and the memory on the heap, are in `proverbs-sys`.)

pub(crate) mod mapping;
pub(crate) mod shared_mapping;
#[cfg(all(test, feature = "loopback"))]
mod tests;

pub(crate) use crate::sys::mem::{heap, map};

pub use crate::sys::mem::own::{
    ExternalMemory, Memory, Private, Protection, ReadOnly, Shared, Sharing, Writable,
};
pub use heap::{Number, Pages};
pub use map::HugePage;
pub use mapping::{MapOptions, Mapping};
pub use shared_mapping::SharedMapping;

use crate::allows::Seal;
use crate::memory::{Access, LocalRead, RemoteRead};

/// [`Sharing`] of memory whose bytes may be borrowed as a slice
/// ([R18.2](crate::guide::rules#r18-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "other processes can write this memory, so its buffers cannot be slices",
    label = "memory whose `Sharing` is `{Self}`",
    note = "register it as a region, `pd.region::<RemoteRead>().create_in(memory)`, which has `read_at` and `write_at`; or make the pool in private memory (R18.2)"
)]
pub trait CanBeSlices: Sharing {}
impl CanBeSlices for Private {}

/// [`Protection`] of memory that may be written ([R6.3](crate::guide::rules#r6-3)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this memory cannot be written",
    label = "memory whose `Protection` is `{Self}`",
    note = "map it writable; a region of read-only memory has `source`, `read_at` and `remote`"
)]
pub trait CanBeWritten: Protection {}
impl CanBeWritten for Writable {}

/// Memory whose regions have pieces to post: writable [`Memory`], and memory whose bytes the
/// processor or safe code cannot access, such as a [`DmaBuf`](crate::ext::device_memory::DmaBuf) or
/// [`Opaque`](crate::memory::Opaque) memory ([R6.3](crate::guide::rules#r6-3)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no piece of this region can be posted, since its memory cannot be written",
    label = "a region in `{Self}`",
    note = "map it writable; a region of read-only memory has `source`, `read_at` and `remote`"
)]
pub trait HasPieces: 'static {}

#[diagnostic::do_not_recommend]
impl<M: Memory<Protection: CanBeWritten>> HasPieces for M {}

/// Memory whose regions have pieces that can only be sent, because no device writes it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a device may write to this region, so it has no `source`",
    label = "a region in `{Self}`",
    note = "`source` is for read-only memory; a part of a region that can be written is posted as a `piece` (R6.3)"
)]
pub trait HasSources: 'static {
    const SEAL: Seal;
}

#[diagnostic::do_not_recommend]
impl<M: Memory<Protection = ReadOnly>> HasSources for M {
    const SEAL: Seal = Seal;
}

/// [`Memory`] whose slices can be shared: it is [`Private`] and [`ReadOnly`], so its bytes never
/// change.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the bytes of this region can change, so a `SharedBuf` cannot refer to them",
    label = "a region in `{Self}`",
    note = "`share` is for private read-only memory, like an `Arc<[u8]>`; a part of a region that can be written is posted as a `piece` (R18.2)"
)]
pub trait NeverChanges: sealed::NeverChanges + 'static {}

#[diagnostic::do_not_recommend]
impl<M: Memory<Sharing = Private, Protection = ReadOnly>> NeverChanges for M {}

/// `Self: RegistersAs<A>`: memory with this [`Protection`] may be registered with the rights `A`
/// ([R6.3](crate::guide::rules#r6-3), [R6.1](crate::guide::rules#r6-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{A}` needs memory that can be written",
    label = "memory whose `Protection` is `{Self}`",
    note = "rights to write (LOCAL_WRITE) and to bind windows (MW_BIND) need writable memory: register it as `RemoteRead`, or as `LocalRead` without rights for peers, or map it writable"
)]
pub trait RegistersAs<A: Access>: Protection {}
impl<A: Access> RegistersAs<A> for Writable {}
impl RegistersAs<LocalRead> for ReadOnly {}
impl RegistersAs<RemoteRead> for ReadOnly {}

/// Makes owners of memory invariant in its type, because the type determines how the memory is
/// returned, and whether it is a slice.
pub(crate) type Invariant<M> = fn(M) -> M;

mod sealed {
    /// A program that could implement this for its own memory would share bytes that change.
    pub trait NeverChanges {}
    impl<M: super::Memory<Sharing = super::Private, Protection = super::ReadOnly>> NeverChanges for M {}
}
