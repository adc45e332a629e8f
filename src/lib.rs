//! RDMA verbs whose rules are types.
//!
//! This crate wraps libibverbs, with the names of its manual pages in Rust casing. It expresses
//! many rules of the manual pages as types, so programs that break them do not compile. Rules that
//! depend on run-time values are checked when the program runs: the errors are typed, and no buffer
//! is lost. The README compares single calls with C code that makes no checks, and whole loops with
//! C code that makes the same checks.
//!
//! 1. **Illegal combinations do not compile.** A wrong combination of transport, state, receive
//!    source, opcode, flags, immediate data, access rights or lifetimes fails at `cargo check`. The
//!    same is true for an array with too many inline bytes or too many scatter/gather elements.
//!    Sizes that are known only at run time are checked by the post.
//! 2. **Safe code is sound.** No safe code, even with `mem::forget`, can make the device access
//!    memory that was freed or that Rust code has exclusive access to. Posting moves a buffer to
//!    the device; its completion returns it. Programs that do their own bookkeeping can use the
//!    `unsafe` posting functions.
//! 3. **No hidden cost.** The ordinary post and poll paths contain no allocation, lock, atomic
//!    read-modify-write or dynamic dispatch, except the call of the provider, which C makes too.
//! 4. **No lost buffers.** After a failed or partial post, a flush or a destroyed queue pair, each
//!    buffer has been returned or is still in flight. If a provider does not report what it
//!    accepted, the buffers count as in flight until the queue pair is reset or destroyed.
//!
//! # A worked example
//!
//! This program connects two queue pairs in one process, on the loopback device. With hardware, use
//! `Context::open("mlx5_0")` instead of the fabric, and get the peer's queue pair number and GID
//! from the peer.
//!
//! ```
//! use proverbs::{loopback::Fabric, prelude::*};
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
//! let gid = context.roce_v2_gid(1)?;
//! let connect = |qp: QueuePair<Rc, Reset>, peer: u32| -> Result<QueuePair<Rc, Rts>, proverbs::Error> {
//!     let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
//!     let address = AddressVector::roce(1, gid.gid(), gid.index());
//!     let psn = Psn::try_from(0)?;
//!     let qp = qp.modify(RcRtr::new(address, Qpn::try_from(peer)?, psn))?;
//!     Ok(qp.modify(RcRts::new(psn, ReadDepth::ONE))?)
//! };
//! let (a_num, b_num) = (a.qp_num(), b.qp_num());
//! let (mut a, mut b) = (connect(a, b_num)?, connect(b, a_num)?);
//!
//! // Buffers move in with the work request ...
//! b.post_recv(wr::Recv::new(pool.take().expect("8 buffers")))?;
//! let mut message = pool.take().expect("7 buffers");
//! message.copy_from(b"hello")?;
//! post_send!(a, [wr::Send::new(message)])?;
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
//! # Next steps
//!
//! Are you new to verbs? Read [the guide](guide), which also shows the setup that the examples
//! leave out. Are you porting C code? See the [table of C calls](guide::porting). Facing a long
//! compiler error? [Start here](guide::compile_errors). Tuning performance? See [when each option
//! pays off](guide::performance).
//!
//! # Modules
//!
//! The crate root has the types you start with; the [`prelude`] adds what most programs use.
//! Everything else is in the module for its topic.
//!
//! | for | see |
//! |---|---|
//! | devices, ports, GIDs | [`devices`], [`Context`], [`device`] |
//! | memory | [`Pool`] of [`Buf`]s of equal size, [`Arena`] of any size; [`MemoryRegion`] that peers can access, [`RemoteSlice`] at the peer; [`memory`] |
//! | queue pairs | [`QueuePair`] and its [`Profile`]; transitions and their attributes in [`qp`], [`transport`], [`state`] |
//! | numbers with fewer bits than C's | [`bounded`] |
//! | shared receive queues | [`SharedReceiveQueue`], [`srq`] |
//! | work requests | [`wr::Send`], [`wr::RdmaWrite`], [`wr::RdmaRead`], [`wr::Recv`] and the others in [`wr`] |
//! | posting | [`QueuePair::post_send`], [`post_send!`], [`QueuePair::send_list`], and the same for receives; [`post`] |
//! | completions | [`CompletionQueue::poll`], [`Outcome`], [`QueuePair::complete`], [`CompletionChannel`]; [`completion`] |
//! | asynchronous events | [`DeviceEvents`] |
//! | errors | [`Error`], [`Refused`], [`PostError`], [`completion::WcError`] |
//! | exchanging addresses, connecting | [`endpoint`] |
//! | connections by rdma_cm, and the calls of rdma_verbs.h | [`cm`] |
//! | which work request may be posted where | [`rules`] |
//! | extensions: windows, XRC, SRD, on-demand paging, FLUSH, device memory and others | [`ext`] |
//! | tests, and programs without hardware | [`loopback`], [`loopback::pair`] |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `cm` (default) | [`cm`], connections through rdma_cm; without it, librdmacm is never loaded |
//! | `loopback` | [`loopback`], a software device in this process, for tests and machines without RDMA hardware |
//! | `tokio` | `async` completions, events, connections and drains: [the guide](guide::tokio) |
//! | `serde` | `Serialize` and `Deserialize` for [`endpoint::Endpoint`] |
//! | `zerocopy` | structs and slices of plain data in buffers and regions: `Buf::set`, `Buf::view` |
//! | `anyhow`, `eyre` | `?` converts errors that carry an object ([`Refused`], [`PostError`]) into `anyhow::Error` and `eyre::Report` |
//! | `tracing` | events of the crate `tracing` on cold paths: docs/tracing.md lists their names, levels and fields |
//! | `rdma-sys` | the C handles of [`raw`] are rdma-sys types, for programs that use both crates; the build needs the C headers, pkg-config and libclang 15 or older |
//!
//! Rule numbers such as [R7.1](crate::guide::rules#r7-1) refer to the project's [catalogue of
//! correct verbs use](crate::guide::rules).

#![deny(unsafe_code)]
#![deny(missing_docs)]
// The documentation covers all features. Items that a build leaves out are shown without links.
#![cfg_attr(not(all(feature = "cm", feature = "loopback")), allow(rustdoc::broken_intra_doc_links))]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::missing_safety_doc)]
// Errors return objects by value: a failed transition its queue pair, a failed post its buffers.
#![allow(clippy::result_large_err)]

extern crate self as proverbs;
#[macro_use(impl_debug, or_refused)]
extern crate proverbs_sys as sys;

#[macro_use]
mod allows;

// First, because rustdoc shows methods in the order of the modules that define them.
mod first_calls;

pub mod device;

pub mod memory;

pub mod completion;

pub mod qp;

// The rest.
mod black_box;
#[doc(alias("rdma_cm", "librdmacm", "rdma_verbs"))]
#[cfg(feature = "cm")]
pub mod cm;
mod cold_calls;
pub mod diagnostics;
pub mod endpoint;
pub mod ext;
pub mod guide;
mod in_flight;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(feature = "loopback")]
pub mod loopback;
pub mod post;
mod profile;
#[cfg(all(test, feature = "loopback"))]
mod provider_tests;
pub mod raw;
pub mod rules;
pub mod srq;
#[cfg(feature = "tokio")]
mod wait;
mod wait_for;
mod work;

use sys::{cold, counters, sync, terms};

/// The states of a queue pair, the second type parameter of a [`QueuePair`].
///
/// The ERR state of the manual pages is [`Err`](state::Err): write it with its module,
/// `state::Err`.
pub mod state {
    pub use crate::terms::state::{Draining, Err, Init, QpState, Reset, Rtr, Rts, Sqd, Sqe, State};
}

/// The transports, the first type parameter of a [`QueuePair`].
pub mod transport {
    pub use crate::terms::transport::{Rc, Srd, Transport, Uc, Ud, Xrc};
}

/// One blocking wait for several sources: completions, rdma_cm events, asynchronous events, and
/// wake-ups from other threads.
///
/// To wait for one source only, use [`CompletionChannel::wait`], [`cm::EventChannel::wait`] or
/// [`DeviceEvents::wait`].
pub mod events {
    pub use crate::sys::wait::Waker;
    pub use crate::wait_for::{Found, WaitFor, wait, wait_slice};
}

/// Numbers and codes with fewer bits than the integers that C stores them in.
pub mod bounded {
    pub use crate::terms::bounded::{
        MinRnrTimer, Mtu, OutOfRange, PrivilegedQkey, Psn, Qkey, Qpn, ReadDepth, ResponderDepth,
        RetryCount, RnrRetries, RnrRetry, ServiceLevel, SrqNum, Timeout, TimeoutExponent,
    };
}

/// Work requests: the opcodes, and the other parts of a work request.
///
/// Write each opcode with this module: [`wr::Send`], [`wr::RdmaWrite`]. A work request is an
/// opcode, its data ([`Data`](wr::Data)), its destination ([`Address`](wr::Address)), and flags.
pub mod wr {
    pub use crate::rules::{RecvOn, SendOn, SrqRecvOn};
    pub use crate::work::address::{Address, Connected, Datagram, Destination, ToSrq};
    pub use crate::work::data::{
        AtomicSink, Data, Fits, IntoData, RecvSink, Sink, Source, SrqSink, Takes,
    };
    pub use crate::work::flags::{
        AlwaysSignaled, Fenced, MayBeSignaled, Plain, Signaled, Unfenced,
    };
    pub use crate::work::inline::{Empty, Inline, InlineList, InlineSlice};
    pub use crate::work::opcode::*;
    pub use crate::work::prepared::{Placeholder, Prepared};
    pub use crate::work::recv::Recv;
    pub use crate::work::request::WorkRequest;
    pub use crate::work::sge::{Piece, Sge};
    pub use crate::work::sge_list::SgeList;
    pub use crate::work::with_context::{NoContext, WithContext};
    pub use crate::work::with_id::{NoBuffer, WithId};
}

// Last, so that the compiler's messages name the modules above.
pub mod prelude;

/// Items that the expansions of the macros name. Not part of the interface.
#[doc(hidden)]
pub mod macros {
    pub use crate::post::chain::Begun;
    pub use crate::profile::{ProfileKeys, defaults};
    pub use proverbs_macros::{post_recv, post_send, post_srq_recv};
}

// Devices.
#[cfg(feature = "tokio")]
#[doc(inline)]
pub use crate::device::AsyncDeviceEvents;
#[doc(inline)]
pub use crate::device::{AddressHandle, Context, DeviceEvents, ProtectionDomain, devices};

// Memory.
#[doc(inline)]
pub use crate::memory::{Arena, Buf, MemoryRegion, Pool, RemoteSlice, SharedBuf};

// Queues.
#[doc(inline)]
pub use crate::qp::{DefaultProfile, Depth, Profile, QueuePair};
#[doc(inline)]
pub use crate::srq::SharedReceiveQueue;

// Posting.
#[doc(inline)]
pub use crate::post::PostError;
/// Posts several receives with one call of `ibv_post_recv`.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut b, pool, .. } = proverbs::loopback::pair()?;
/// let (one, two) = (pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?);
/// post_recv!(b, [wr::Recv::new(one), wr::Recv::new(two), wr::Recv::empty()])?;
/// assert_eq!(b.recvs_outstanding(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Everything else is the same as for [`post_send!`].
#[macro_export]
macro_rules! post_recv {
    // SAFETY: `$crate` is this crate.
    ($($list:tt)*) => { $crate::macros::post_recv!(unsafe $crate, $($list)*) };
}
/// Posts several sends with one call of `ibv_post_send`.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// let table = pd.register::<RemoteReadWrite>(256)?; // normally at the peer
/// let remote = table.remote();
/// post_send!(a, [
///     wr::RdmaWrite::inline(b"8 bytes!", remote.write()),
///     wr::RdmaRead::new(pool.take().ok_or("no buffer")?, remote.read()),
/// ])?;
/// let read = proverbs::loopback::poll(&mut cq, 2)?.remove(1).ok_or("a READ has a buffer")?;
/// assert_eq!(&read[..8], b"8 bytes!"); // RC executes in order
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each element is an expression that returns a work request. The expressions are evaluated in
/// order, outside any `unsafe` block of the macro. The chain is built on the stack and posted with
/// one call of `ibv_post_send`. On a queue pair with selective signaling the last work request is
/// signaled; `post_send!(qp, [...], unsignaled)` leaves it unsignaled and returns an `Unsettled`
/// that must be used.
///
/// On a queue pair whose entry is `Raw`, `unsafe { post_send!(qp, [...], unchecked) }` posts a
/// chain without the crate's bookkeeping, under the contract of `post_send_unchecked`. Only work
/// requests with a signaled flag are signaled, and the error is a `RawPostError` with the index of
/// `bad_wr`. `post_recv!` and `post_srq_recv!` have the same form.
///
/// The result is `Ok`, or a `PostError` with the index of C's `bad_wr` and the entries of all work
/// requests that the device did not accept. If an expression panics or returns with `?`, nothing is
/// posted and the work requests so far are dropped. The queue pair stays borrowed until then, so no
/// expression in the list can destroy or move it (R11.1).
///
/// If a stackful coroutine is suspended inside an element and then leaked, the work requests so far
/// leak, as with `mem::forget`. The list detects a future that is leaked while suspended at an
/// `await`, but not a leaked coroutine. After such a leak, up to the same number of posted buffers
/// may also leak when the queue pair ends.
#[macro_export]
macro_rules! post_send {
    // SAFETY: `$crate` is this crate.
    ($($list:tt)*) => { $crate::macros::post_send!(unsafe $crate, $($list)*) };
}
/// Posts several receives of a shared receive queue with one call of `ibv_post_srq_recv`.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, pool, .. } = proverbs::loopback::pair()?;
/// let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
/// let (one, two) = (pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?);
/// post_srq_recv!(srq, [wr::Recv::new(one), wr::Recv::new(two)])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Everything else is the same as for [`post_send!`].
#[macro_export]
macro_rules! post_srq_recv {
    // SAFETY: `$crate` is this crate.
    ($($list:tt)*) => { $crate::macros::post_srq_recv!(unsafe $crate, $($list)*) };
}

// Completions.
#[cfg(feature = "tokio")]
#[doc(inline)]
pub use crate::completion::AsyncCompletionChannel;
#[doc(inline)]
pub use crate::completion::{Completion, CompletionChannel, CompletionQueue, Outcome};

// Errors.
pub use crate::terms::error::{Error, ErrorKind, Refused};
