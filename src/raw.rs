//! Conversions from and to C handles, for verbs that this crate does not offer, and for programs
//! that are partly written in C.
//!
//! [`AsRaw`] returns the handle of each object. `from_raw` of [`Context`] and [`ProtectionDomain`],
//! [`region_from_raw`](ProtectionDomain::region_from_raw) and
//! [`qp_from_raw`](ProtectionDomain::qp_from_raw) take objects that were created elsewhere. The C
//! types are in this module; with the feature `rdma-sys` they are the types of that crate. It lacks
//! device memory, whose handle is still this crate's `ibv_dm` (cast it). Memory windows, XRC
//! domains, and the ids and channels of rdma_cm do not have a handle here.
//!
//! In this example, C code has opened a device and allocated a protection domain, and the Rust
//! program uses both:
//!
//! ```no_run
//! use std::ptr::NonNull;
//!
//! use proverbs::{prelude::*, raw::{AsRaw, ibv_context, ibv_pd}};
//!
//! unsafe extern "C" {
//!     fn library_context() -> *mut ibv_context; // open until `library_end`
//!     fn library_pd() -> *mut ibv_pd;
//!     fn library_end();
//!     fn library_verb(pd: *mut ibv_pd) -> i32; // a verb that this crate does not offer
//! }
//!
//! /// Keeps the library open. It is dropped after the last object that was created from it here.
//! struct Library;
//!
//! impl Drop for Library {
//!     fn drop(&mut self) {
//!         // SAFETY: this program calls it once, here, and does not use the library afterwards.
//!         unsafe { library_end() };
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // SAFETY: both live until the library ends, which is when `Library` is dropped; the domain keeps
//! // the context.
//! let (context, pd) = unsafe {
//!     let context = NonNull::new(library_context()).ok_or("no device")?;
//!     let context = Context::from_raw(context, Library);
//!     let pd = NonNull::new(library_pd()).ok_or("no domain")?;
//!     let pd = ProtectionDomain::from_raw(&context, pd, ())?;
//!     (context, pd)
//! };
//! let pool = pd.create_pool(16, 4096)?; // and so on, as if this program had created them
//! // SAFETY: the verb only reads the domain, which is live.
//! let answer = unsafe { library_verb(pd.as_raw()) };
//! # let _ = (context, pool, answer);
//! # Ok(())
//! # }
//! ```
//!
//! # What cannot come from C
//!
//! - A completion queue or a shared receive queue: their wr_ids are handles of this crate, so a
//!   foreign wr_id would be taken for a buffer. Instead, C code can create queue pairs on this
//!   program's queues, with the handles from `as_raw`.
//! - A queue pair with outstanding work, for the same reason.

#![allow(unsafe_code)] // takes objects that C created

use crate::completion::{CompletionChannel, CompletionQueue};
use crate::device::{AddressHandle, Context, ProtectionDomain};
use crate::ext::device_memory::Dm;
use crate::ext::xrc::XrcTarget;
use crate::memory::{Access, Arena, Entry, MemoryRegion, Pool};
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::rules::SharesReceives;
use crate::srq::SharedReceiveQueue;
use crate::terms::state::State;
use crate::terms::threads::Threads;
use crate::terms::transport::Transport;
use crate::work::limits::Limit;

#[cfg(all(test, feature = "loopback"))]
mod tests;

pub use crate::sys::memory::ibv_dm;
pub use crate::sys::types::raw::{
    ibv_ah, ibv_comp_channel, ibv_context, ibv_cq, ibv_mr, ibv_pd, ibv_qp, ibv_srq,
};

/// An object with a C handle.
///
/// The handle is valid while the object lives. Getting it is safe. Every use of it is `unsafe`, and
/// this crate does not notice such uses. Therefore, with a handle:
///
/// - do not destroy an object, move a queue pair to another state, resize a queue, or reregister a
///   region;
/// - post work requests only to a queue pair or shared receive queue whose [entry](Entry) is
///   [`Raw`](crate::memory::Raw), under the contract of
///   [`post_send_unchecked`](QueuePair::post_send_unchecked);
/// - poll completions only from a `CompletionQueue<Raw>`, and not while another thread polls or
///   posts;
/// - use objects of a [`Lane`](crate::device::Lane) only on its thread;
/// - do not take or acknowledge events, and do not write fields of the C objects.
///
/// You can call all other verbs: queries, and verbs that create or change objects in which this
/// crate is not involved.
///
/// On the [loopback](crate::loopback) device, only the inline functions of verbs.h work
/// (`ibv_post_send`, `ibv_post_recv`, `ibv_post_srq_recv`, `ibv_poll_cq`, `ibv_req_notify_cq`,
/// `ibv_memcpy_to_dm`, `ibv_memcpy_from_dm`). The functions of libibverbs do not.
///
/// ```
/// use proverbs::raw::{AsRaw, ibv_qp};
///
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { a, .. } = proverbs::loopback::pair()?;
/// let handle: *mut ibv_qp = a.as_raw();
/// // SAFETY: the queue pair lives, and its number does not change.
/// assert_eq!(unsafe { (*handle).qp_num }, a.qp_num());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AsRaw {
    /// The C type.
    type Raw;

    /// The handle, which still belongs to `self`.
    fn as_raw(&self) -> *mut Self::Raw;
}

/// `as_raw` of each type: its parameters, the type, the C type, and the handle.
macro_rules! handles {
    ($($(#[$doc:meta])* [$($param:tt)*] $t:ty, $raw:ident, |$this:ident| $handle:expr;)*) => {$(
        $(#[$doc])*
        impl<$($param)*> AsRaw for $t {
            type Raw = $raw;

            fn as_raw(&self) -> *mut $raw {
                let $this = self;
                $handle
            }
        }
    )*};
}

handles! {
    [] Context, ibv_context, |this| this.handle.as_ptr();
    [L: Threads] ProtectionDomain<L>, ibv_pd, |this| this.handle().as_ptr();
    [A: Access, M] MemoryRegion<A, M>, ibv_mr, |this| this.registered().mr();
    /// The region of the whole pool: its keys and its address.
    [C, M] Pool<C, M>, ibv_mr, |this| this.registered().mr();
    /// The region of the whole arena: its keys and its address.
    [C, M] Arena<C, M>, ibv_mr, |this| this.registered().mr();
    [] Dm, ibv_dm, |this| this.as_ptr();
    [] AddressHandle, ibv_ah, |this| this.handle.as_ptr();
    [] CompletionChannel, ibv_comp_channel, |this| this.handle().as_ptr();
    [E: Entry, L: Threads] CompletionQueue<E, L>, ibv_cq, |this| this.shared().handle().as_ptr();
    [T: SharesReceives, E: Entry, M: Limit, L: Threads] SharedReceiveQueue<T, E, M, L>, ibv_srq,
        |this| this.core().as_ptr();
    [T: Transport, S: State, P: Profile] QueuePair<T, S, P>, ibv_qp, |this| this.core.qp();
    [S: State] XrcTarget<S>, ibv_qp, |this| this.as_ptr();
}
