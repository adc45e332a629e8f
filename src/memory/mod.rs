//! Registered memory: pools and their buffers, regions that peers can access, slices of the peer's
//! regions.
//!
//! | to | types |
//! |---|---|
//! | **send and receive** | [`Pool`] of buffers of one size, [`Arena`] of buffers of any size; their buffers are [`Buf`]s; a [`BufList`] holds several for one work request |
//! | **send one buffer several times** | [`SharedBuf`], from [`Buf::freeze`]; [`Shares`] for a known number of posts |
//! | **let peers read and write** | [`MemoryRegion`], from [`register`](crate::ProtectionDomain::register) with the rights [`RemoteRead`], [`RemoteWrite`], [`RemoteReadWrite`], [`RemoteAtomic`] or [`RemoteAll`], or [`LocalWrite`] for no remote rights; its pieces are [`OpenBuf`] and [`ReadOnlyBuf`] |
//! | **read and write the peer's memory** | [`RemoteSlice`], a key that the peer sent, and [`RemoteSpan`], [`RemoteAddr`] and [`RemoteCell`] inside it |
//! | **register your own memory** | [`Memory`], the trait for [`create_in`](RegionBuilder::create_in): a `Vec`, a [`Mapping`] of huge pages or of a file, a [`SharedMapping`], [`ExternalMemory`] by pointer; memory of [devices](crate::ext::device_memory) |
//! | **register memory that other code uses too** | [`Opaque`], from [`opaque`](RegionBuilder::opaque): memory given by pointer, length and keeper, registered any number of times; a region that C registered |
//! | **change or revoke rights** | [`MemoryRegion::rereg_access`] and similar methods; [memory windows](crate::ext::windows), whose keys are invalidated without a deregistration |
//! | **register without pinning** | [on-demand paging](crate::ext::on_demand) |
//! | **mix kinds on one queue** | [`AnyBuf`], and [`AnyList`] for several in one work request; [`Entry`] and [`Owned`] are the traits of the types that completions return |
//! | **write generic code** | [`Access`], [`Remote`] and [`GrantsRead`], [`GrantsWrite`], [`GrantsAtomic`] for a region's rights |
//! | **handle errors** | [`TooLong`], [`OutOfBounds`], [`JoinError`], [`SplitError`], [`ReregError`] |
//!
//! [The guide](crate::guide::memory) helps you choose among them.

// First, because rustdoc shows methods in the order of the modules that define them.
pub(crate) mod pool;

pub(crate) mod arena;

pub(crate) mod buf;

pub(crate) mod parts;

pub(crate) mod list;

pub(crate) mod any_list;

pub(crate) mod region;

pub(crate) mod remote;

pub(crate) mod span;

// The rest.
pub(crate) mod any_handle;
pub(crate) mod blocks;
pub(crate) mod chain;
pub(crate) mod entry;
pub(crate) mod free_list;
pub(crate) mod frozen;
pub(crate) mod header;
pub(crate) mod header_slab;
pub(crate) mod implicit;
pub(crate) mod kept;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod null;
pub(crate) mod opaque;
pub(crate) mod open_buf;
pub(crate) mod orphaned;
pub(crate) mod own;
pub(crate) mod owning_handle;
pub(crate) mod read_only_buf;
pub(crate) mod registered;
mod relaxed;
pub(crate) mod rereg;
pub(crate) mod rights;
pub(crate) mod shared;
pub(crate) mod slab;
#[cfg(feature = "zerocopy")]
mod typed;
pub(crate) mod window;

pub(crate) use crate::sys::mem::{open, ranges};

pub use any_list::AnyList;
pub use arena::{Arena, ArenaBuilder};
pub use buf::{Buf, TooLong};
pub use entry::{AnyBuf, Entry, Owned, Raw};
pub use list::{BufList, BufRef};
pub use null::Null;
pub use opaque::Opaque;
pub use open_buf::OpenBuf;
pub use own::{
    CanBeSlices, CanBeWritten, ExternalMemory, HasPieces, HasSources, HugePage, MapOptions,
    Mapping, Memory, NeverChanges, Number, Pages, Private, Protection, ReadOnly, RegistersAs,
    Shared, SharedMapping, Sharing, Writable,
};
pub use parts::{JoinError, SplitError};
pub use pool::{Pool, PoolBuilder};
pub use read_only_buf::ReadOnlyBuf;
pub use region::{MemoryRegion, RegionBuilder};
pub use relaxed::{Bulk, Ordered, Relaxed};
pub use remote::{Container, OutOfBounds, RemoteCell, RemoteSlice, WriteCell};
pub use rereg::{ReregError, UnusableRegion};
pub use rights::{
    Access, GrantsAtomic, GrantsRead, GrantsWrite, Includes, LocalRead, LocalWrite, Remote,
    RemoteAll, RemoteAtomic, RemoteRead, RemoteReadWrite, RemoteWrite,
};
pub use shared::{SharedBuf, Shares};
pub use span::{RemoteAddr, RemoteSpan, ToRead, ToWrite};
#[cfg(feature = "zerocopy")]
pub use typed::Mismatch;
