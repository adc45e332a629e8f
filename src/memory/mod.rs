//! Registered memory: pools and their buffers, regions open to the fabric, slices of the peer's
//! regions.

pub(crate) mod arena;
pub(crate) mod blocks;
pub(crate) mod buf;
pub(crate) mod chain;
pub(crate) mod device;
pub(crate) mod entry;
pub(crate) mod flush;
pub(crate) mod free_list;
pub(crate) mod frozen;
pub(crate) mod header;
pub(crate) mod header_slab;
pub(crate) mod implicit;
pub(crate) mod list;
pub(crate) mod null;
pub(crate) mod on_demand;
pub(crate) mod open_buf;
pub(crate) mod orphaned;
pub(crate) mod own;
pub(crate) mod owning_handle;
pub(crate) mod parts;
pub(crate) mod pool;
pub(crate) mod ranges;
pub(crate) mod read_only_buf;
pub(crate) mod region;
pub(crate) mod registered;
mod relaxed;
pub(crate) mod remote;
pub(crate) mod rereg;
pub(crate) mod rights;
pub(crate) mod shared;
pub(crate) mod slab;
pub(crate) mod span;
#[cfg(feature = "zerocopy")]
mod typed;
pub(crate) mod window;

pub(crate) use crate::sys::mem::open;

pub use arena::{Arena, ArenaBuilder};
pub use buf::{Buf, TooLong};
pub use device::{Dm, DmaBuf};
pub use entry::{AnyBuf, Entry, Owned, Raw};
pub use flush::{Flushable, GrantsFlush, GrantsPersistence, Persistent, RemoteFlush};
pub use implicit::{Implicit, ImplicitBuf, ImplicitRegion, PagedOps};
pub use list::BufList;
pub use null::Null;
pub use on_demand::{Advice, OnDemand, OnDemandBuilder, OnDemandRegion};
pub use open_buf::OpenBuf;
pub use own::{
    CanBeSlices, CanBeWritten, ExternalMemory, HasPieces, HugePage, MapOptions, Mapping, Memory,
    NeverChanges, Number, Pages, Private, Protection, ReadOnly, RegistersAs, Shared, SharedMapping,
    Sharing, Writable,
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
pub use window::{
    BindsTo, BindsWindows, BoundType1Window, BoundWindow, LentWindow, MemoryWindow, Revocable,
    Type1, Type1Window, WindowEntry, Windowed,
};
