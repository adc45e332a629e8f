//! RDMA verbs whose rules are types.
//!
//! What a verbs program may not do does not compile; what cannot be known before run time comes back as a
//! typed error with every buffer accounted for; and what compiles costs no more than the C that it
//! replaces. The library is libibverbs, with the names of its manual pages in Rust casing.
//!
//! 1. **Illegal is unwritable.** Transport, state, receive source, opcode, flags, immediate, inline size, SGE
//!    count, access rights, parents' lifetimes: a wrong combination fails at `cargo check`.
//! 2. **Safe means sound.** No safe code, `mem::forget` included, makes the device touch memory that Rust
//!    believes to be free or exclusively its own. Posting moves a buffer to the device; its completion
//!    gives it back. There is one `unsafe` way to post, for those who keep their own books.
//! 3. **Zero overhead.** No allocation, no lock, no atomic read-modify-write and no dynamic dispatch on the post
//!    and poll paths besides the provider's own call, which C makes too.
//! 4. **Nothing lost.** After a failed or partial post, a flush or a destroyed queue pair, each buffer is either
//!    back in the caller's hands or known to be still in flight.
//!
//! # A worked example
//!
//! Two queue pairs in this process, on the loopback device. With hardware, `Context::open("mlx5_0")` takes
//! the place of the fabric, and the peer's numbers come from the peer.
//!
//! ```
//! use proverbs::{loopback::Fabric, *};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = Fabric::new().open_device();
//! let pd = context.alloc_pd()?;
//! let mut cq = context.create_cq(64)?;
//! let pool = pd.create_pool(8, 4096)?;
//!
//! // Transport and profile are types; depths are numbers.
//! let depth = Depth { send: 8, recv: 8 };
//! let a = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?;
//! let b = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?;
//!
//! // RESET -> INIT -> RTR -> RTS: each step takes the queue pair and its transport's attributes.
//! let gid = context.query_gid(1, 1)?;
//! let connect = |qp: QueuePair<Rc, Reset>, peer: u32| -> Result<QueuePair<Rc, Rts>, VerbsError> {
//!     let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
//!     let address = AddressVector::roce(1, gid, 1);
//!     let psn = Psn::try_from(0)?;
//!     let qp = qp.modify(RcRtr::new(address, Qpn::try_from(peer)?, psn))?;
//!     Ok(qp.modify(RcRts::new(psn, ReadDepth::ONE))?)
//! };
//! let (a_num, b_num) = (a.qp_num(), b.qp_num());
//! let (mut a, mut b) = (connect(a, b_num)?, connect(b, a_num)?);
//!
//! // Buffers move in with the work request ...
//! b.post_recv(Recv::new(pool.take().expect("8 buffers")))?;
//! let mut message = pool.take().expect("7 buffers");
//! message.copy_from(b"hello")?;
//! post_send!(a, [Send::new(message)])?;
//!
//! // ... and come back with its completion.
//! let mut received = None;
//! while received.is_none() {
//!     for completion in cq.poll()? {
//!         match completion.outcome() {
//!             Outcome::Sent(sent) => assert_eq!(sent.entry.as_deref(), Some(&b"hello"[..])),
//!             Outcome::Received(message) => received = Some(message.data().to_vec()),
//!             Outcome::Failed(failed) => return Err(failed.error.into()),
//!             _ => unreachable!("RC queue pairs whose every send is signaled"),
//!         }
//!     }
//! }
//! assert_eq!(received.as_deref(), Some(&b"hello"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! # Where to go on
//!
//! New to verbs: [the guide](guide), which also says what the examples leave out. From C: [each call beside its form here](guide::porting). In front of a long error:
//! [how to read it](guide::compile_errors). Measuring: [what pays when](guide::performance).
//!
//! # The map of the rooms
//!
//! | for | see |
//! |---|---|
//! | devices, ports, GIDs | [`devices`], [`Context`] |
//! | memory | [`Pool`] of [`Buf`]s; [`MemoryRegion`] open to the fabric, [`RemoteSlice`] at the peer |
//! | queue pairs | [`QueuePair`], its [`Profile`], its [transitions](Transition) |
//! | work requests | [`Send`], [`SendWithImm`], [`RdmaWrite`], [`RdmaWriteWithImm`], [`RdmaRead`], [`CmpAndSwp`], [`FetchAndAdd`], [`Recv`] |
//! | posting | [`QueuePair::post_send`], [`post_send!`], [`QueuePair::send_list`], and the same for receives |
//! | completions | [`CompletionQueue::poll`], [`Outcome`], [`QueuePair::complete`], [`CompletionChannel`] |
//! | asynchronous events | [`DeviceEvents`] |
//! | telling the peer, connecting | [`endpoint`] |
//! | connections by rdma_cm, and the calls of rdma_verbs.h | [`cm`] |
//! | what may be posted where | [`rules`] |
//! | without hardware | [`loopback`] |
//!
//! # Features
//!
//! | feature | what |
//! |---|---|
//! | `loopback` (default) | [`loopback`], a software device in this process |
//! | `rdma-sys` (default) | the C types of rdma-sys, generated from the installed headers; without it, the crate's own |
//! | `tokio` | `AsyncCompletionChannel` and `AsyncDeviceEvents`: completions and events to await |
//! | `serde` | `Serialize` and `Deserialize` for [`endpoint::Endpoint`] |
//!
//! Rule numbers such as R7.1 are those of the project's catalogue of correct verbs use.

#![deny(unsafe_code)]
#![deny(missing_docs)]
// `cargo xtask docs` asks for more: an example of each item, and where it comes from.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
// A refused transition gives the queue pair back, and a refused post its buffers, by value.
#![allow(clippy::result_large_err)]

extern crate self as proverbs;

mod ah;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod bounded;
mod buf;
mod channel;
pub mod cm;
mod cold;
mod context;
mod cq;
mod device_attr;
mod device_events;
pub mod endpoint;
mod entry;
mod error;
pub mod guide;
mod in_flight;
mod limits;
#[cfg(feature = "loopback")]
pub mod loopback;
mod mr;
mod open;
mod open_buf;
mod pd;
mod profile;
mod qp;
mod registered;
mod remote;
pub mod rules;
mod srq;
mod state;
mod sync;
mod sys;
mod transport;
mod wc;
mod wr;

pub use ah::{AddressHandle, AddressVector, Gid, GlobalRoute};
pub use bounded::*;
pub use buf::{Buf, BufList, Pool, SharedBuf, TooLong};
#[cfg(feature = "tokio")]
pub use channel::AsyncCompletionChannel;
pub use channel::{AnyCompletionQueue, CompletionChannel};
pub use context::{Context, ForkStatus, devices, fork_status};
pub use cq::{CompletionQueue, Completions, CqId, Notify};
pub use device_attr::{AtomicCap, DeviceAttr, DeviceCap, Guid, LinkLayer, PortAttr, PortState};
#[cfg(feature = "tokio")]
pub use device_events::AsyncDeviceEvents;
pub use device_events::{DeviceEvent, DeviceEvents, PortEvent, QpEvent, SrqEvent};
pub use entry::{AnyBuf, Entry, Owned, Raw};
pub use error::{Error as VerbsError, ErrorKind, Refused};
pub use in_flight::ring::Released;
pub use in_flight::{PostError, PostErrorKind, Rejected};
pub use limits::{Limit, Max};
pub use mr::*;
pub use pd::ProtectionDomain;
pub use profile::*;
/// Posts several receives with one call of `ibv_post_recv`.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut b, pool, .. } = proverbs::guide::ends()?;
/// let (one, two) = (pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?);
/// post_recv!(b, [Recv::new(one), Recv::new(two), Recv::empty()])?;
/// assert_eq!(b.recvs_outstanding(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use proverbs_macros::post_recv;
/// Posts several sends with one call of `ibv_post_send`.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends()?;
/// let table = pd.register::<RemoteReadWrite>(256)?; // at the peer, usually
/// let remote = table.remote();
/// post_send!(a, [
///     RdmaWrite::inline(b"8 bytes!", remote.write()),
///     RdmaRead::new(pool.take().ok_or("no buffer")?, remote.read()),
/// ])?;
/// let read = proverbs::guide::poll(&mut cq, 2)?.remove(1).ok_or("a READ has a buffer")?;
/// assert_eq!(&read[..8], b"8 bytes!"); // RC executes in order
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use proverbs_macros::post_send;
/// Posts several receives of a shared receive queue with one call of `ibv_post_srq_recv`.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { pd, pool, .. } = proverbs::guide::ends()?;
/// let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
/// let (one, two) = (pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?);
/// post_srq_recv!(srq, [Recv::new(one), Recv::new(two)])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use proverbs_macros::post_srq_recv;
pub use qp::attr::*;
pub use qp::*;
pub use remote::{
    AtomicAddr, OutOfBounds, ReadAddr, RemoteAddr, RemoteCell, RemoteSlice, RemoteSpan, ToRead,
    ToWrite, WriteAddr,
};
pub use srq::{SharedReceiveQueue, SrqAttr, SrqId, SrqPost};
pub use state::*;
pub use transport::{Rc, Transport, Uc, Ud};
pub use wc::*;
pub use wr::*;
