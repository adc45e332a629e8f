//! The types that most programs use, for `use proverbs::prelude::*`.
//!
//! It does not shadow names of the std prelude. So write opcodes with their module, [`wr::Send`],
//! and likewise the ERR state, [`state::Err`], and the crate's [`Error`](crate::Error).
//!
//! ```
//! use proverbs::prelude::*;
//! use std::error::Error;
//!
//! fn hello<F: Send>(qp: &mut QueuePair<Rc, Rts>, filled: F) -> Result<(), Box<dyn Error>>
//! where
//!     F: FnOnce() -> Buf,
//! {
//!     Ok(qp.post_send(wr::Send::new(filled()))?)
//! }
//! ```

// Devices.
#[doc(no_inline)]
pub use crate::device::AddressVector;
#[doc(no_inline)]
pub use crate::{AddressHandle, Context, DeviceEvents, ProtectionDomain, devices};
#[cfg(feature = "tokio")]
#[doc(no_inline)]
pub use crate::{AsyncCompletionChannel, AsyncDeviceEvents};

// Memory.
#[doc(no_inline)]
pub use crate::memory::{
    AnyBuf, BufList, LocalWrite, RemoteAll, RemoteAtomic, RemoteCell, RemoteRead, RemoteReadWrite,
    RemoteSpan, RemoteWrite,
};
#[doc(no_inline)]
pub use crate::{Arena, Buf, MemoryRegion, Pool, RemoteSlice, SharedBuf};

// Queues: transports, states, creation options, and transitions.
#[doc(no_inline)]
pub use crate::bounded::{Mtu, Psn, Qkey, Qpn, ReadDepth};
#[doc(no_inline)]
pub use crate::qp::{
    AnyThread, ConnectedInit, InLane, NoReads, NoRq, OrdinaryPosting, OwnRq, QpAccess, RcRtr,
    RcRts, Reads, Selective, SharedRq, SignalAll, UcRtr, UcRts, UdInit, UdRtr, UdRts,
};
#[doc(no_inline)]
pub use crate::state::{self, Draining, Init, Reset, Rtr, Rts, Sqd, Sqe};
#[doc(no_inline)]
pub use crate::transport::{Rc, Srd, Uc, Ud, Xrc};
#[doc(no_inline)]
pub use crate::{DefaultProfile, Depth, Profile, QueuePair, SharedReceiveQueue, profile};

// Work requests and posting.
#[doc(no_inline)]
pub use crate::post::{RecvSlots, SendSlots};
#[doc(no_inline)]
pub use crate::wr;
#[doc(no_inline)]
pub use crate::{PostError, post_recv, post_send, post_srq_recv};

// Completions.
#[doc(no_inline)]
pub use crate::completion::WcStatus;
#[doc(no_inline)]
pub use crate::{Completion, CompletionChannel, CompletionQueue, Outcome};

// Opcodes and types of extensions.
#[doc(no_inline)]
pub use crate::ext;

// Errors.
#[doc(no_inline)]
pub use crate::{ErrorKind, Refused};
