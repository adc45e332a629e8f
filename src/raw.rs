//! C handles as rdma-sys's types (feature `rdma-sys`), for verbs that this crate does not offer
//! yet.

use crate::completion::channel::CompletionChannel;
use crate::completion::queue::CompletionQueue;
use crate::device::context::Context;
use crate::device::pd::ProtectionDomain;
use crate::memory::entry::Entry;
use crate::memory::region::{Access, MemoryRegion};
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::rules::SharesReceives;
use crate::srq::SharedReceiveQueue;
use crate::sys::types::{ibv_comp_channel, ibv_context, ibv_cq, ibv_mr, ibv_pd, ibv_qp, ibv_srq};
use crate::terms::state::State;
use crate::terms::transport::Transport;
use crate::work::limits::Limit;

/// An object that has a C handle of rdma-sys's type (feature `rdma-sys`).
///
/// The handle is valid as long as the object lives. All that is done through it is `unsafe`, like
/// all of rdma-sys, and this crate does not learn of it. So through a handle:
///
/// - nothing is destroyed, and no queue pair is moved to another state;
/// - work requests are posted only to a queue pair or shared receive queue whose [entry](Entry) is
///   [`Raw`](crate::memory::Raw), under the contract of
///   [`post_send_unchecked`](QueuePair::post_send_unchecked);
/// - completions are polled only from a `CompletionQueue<Raw>`, and not while another thread polls
///   or posts.
///
/// On the [loopback](crate::loopback) device only the inlines of verbs.h work (`ibv_post_send`,
/// `ibv_post_recv`, `ibv_post_srq_recv`, `ibv_poll_cq`, `ibv_req_notify_cq`), and no function of
/// libibverbs.
///
/// ```
/// use proverbs::raw::AsRaw;
///
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { a, .. } = proverbs::loopback::pair()?;
/// let handle: *mut rdma_sys::ibv_qp = a.as_raw();
/// assert!(!handle.is_null());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AsRaw {
    /// The C type.
    type Raw;

    /// The handle, which belongs to `self`.
    fn as_raw(&self) -> *mut Self::Raw;
}

impl AsRaw for Context {
    type Raw = ibv_context;

    fn as_raw(&self) -> *mut ibv_context {
        self.handle.as_ptr()
    }
}

impl AsRaw for ProtectionDomain {
    type Raw = ibv_pd;

    fn as_raw(&self) -> *mut ibv_pd {
        self.handle().as_ptr()
    }
}

impl<A: Access, M> AsRaw for MemoryRegion<A, M> {
    type Raw = ibv_mr;

    fn as_raw(&self) -> *mut ibv_mr {
        self.registered().mr()
    }
}

impl AsRaw for CompletionChannel {
    type Raw = ibv_comp_channel;

    fn as_raw(&self) -> *mut ibv_comp_channel {
        self.handle().as_ptr()
    }
}

impl<E: Entry> AsRaw for CompletionQueue<E> {
    type Raw = ibv_cq;

    fn as_raw(&self) -> *mut ibv_cq {
        self.shared().handle().as_ptr()
    }
}

impl<T: SharesReceives, E: Entry, M: Limit> AsRaw for SharedReceiveQueue<T, E, M> {
    type Raw = ibv_srq;

    fn as_raw(&self) -> *mut ibv_srq {
        self.core().as_ptr()
    }
}

impl<T: Transport, S: State, P: Profile> AsRaw for QueuePair<T, S, P> {
    type Raw = ibv_qp;

    fn as_raw(&self) -> *mut ibv_qp {
        self.core.qp()
    }
}
