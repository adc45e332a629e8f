//! Completion queues from their creation.

#![allow(unsafe_code)] // creates C objects

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::completion::booking::CqShared;
use crate::completion::channel::CompletionChannel;
use crate::completion::extended::adapter::Extended;
use crate::completion::queue::{At, CompletionQueue};
use crate::device::comp_vector::CompVector;
use crate::device::context::Context;
use crate::device::ids::CqId;
use crate::device::lane::Lane;
use crate::device::refusal::of_creation;
use crate::memory::entry::Entry;
use crate::sys::handle;
use crate::sys::polling::{CqAttr, ibv_cq_ex};
use crate::sys::types::ibv_cq;
use crate::terms::error::{Error, ErrorKind};
use crate::terms::threads::{InLane, Threads};

/// What a queue that is polled for fields is made with.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    /// All that are asked for.
    pub wc_flags: u64,
    /// Makes what is polled, of a queue with these.
    pub adapter: unsafe fn(NonNull<ibv_cq_ex>, bool) -> Extended,
}

impl Context {
    /// Creates a completion queue with room for at least `cqe` completions, of queues whose entry
    /// type is `E` (`ibv_create_cq`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// // Two queue pairs of depth 8 each way, and room for a drain of each.
    /// let cq: CompletionQueue = context.create_cq(2 * (8 + 1 + 8))?;
    /// assert!(cq.capacity() >= 34);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if `cqe` exceeds the device's `max_cqe`,
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno otherwise.
    #[doc(alias = "ibv_create_cq")]
    pub fn create_cq<E: Entry>(&self, cqe: u32) -> Result<CompletionQueue<E>, Error> {
        CompletionQueue::create(self, cqe, None, None, None)
    }

    /// Like [`create_cq`](Self::create_cq), with events delivered to `channel`
    /// ([R13.7](crate::guide::rules#r13-7)).
    ///
    /// # Errors
    /// As for [`create_cq`](Self::create_cq), and [`ErrorKind::ContextMismatch`] if the channel is
    /// of another context ([R12.1](crate::guide::rules#r12-1)).
    pub fn create_cq_on<E: Entry>(
        &self,
        cqe: u32,
        channel: &CompletionChannel,
    ) -> Result<CompletionQueue<E>, Error> {
        CompletionQueue::create(self, cqe, Some(channel), None, None)
    }

    /// Like [`create_cq_on`](Self::create_cq_on), with the events on `vector`, which
    /// [`comp_vectors`](Self::comp_vectors) has; [`CompVector`] has an example. (The other two take
    /// vector 0.)
    ///
    /// # Errors
    /// As for [`create_cq_on`](Self::create_cq_on), also for a vector of another context.
    pub fn create_cq_on_vector<E: Entry>(
        &self,
        cqe: u32,
        channel: &CompletionChannel,
        vector: &CompVector,
    ) -> Result<CompletionQueue<E>, Error> {
        CompletionQueue::create(self, cqe, Some(channel), Some(vector), None)
    }
}

impl Lane {
    /// Creates a completion queue of this lane, with room for at least `cqe` completions
    /// (`ibv_create_cq_ex` with `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::qp::InLane;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let lane = pd.alloc_lane()?;
    /// let cq: CompletionQueue<Buf, InLane> = lane.create_cq(64)?;
    /// assert!(cq.capacity() >= 64 && cq.is_single_threaded());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Context::create_cq`]. A device that has no such queues is no error
    /// ([R17.2](crate::guide::rules#r17-2)).
    pub fn create_cq<E: Entry>(&self, cqe: u32) -> Result<CompletionQueue<E, InLane>, Error> {
        CompletionQueue::create(&self.context(), cqe, None, None, None)
    }

    /// Like [`create_cq`](Self::create_cq), with events delivered to `channel`
    /// ([R13.7](crate::guide::rules#r13-7)).
    ///
    /// # Errors
    /// As for [`Context::create_cq_on`].
    pub fn create_cq_on<E: Entry>(
        &self,
        cqe: u32,
        channel: &CompletionChannel,
    ) -> Result<CompletionQueue<E, InLane>, Error> {
        CompletionQueue::create(&self.context(), cqe, Some(channel), None, None)
    }

    /// Like [`create_cq_on`](Self::create_cq_on), with the events on `vector`, as for
    /// [`Context::create_cq_on_vector`].
    ///
    /// # Errors
    /// As for [`Context::create_cq_on_vector`].
    pub fn create_cq_on_vector<E: Entry>(
        &self,
        cqe: u32,
        channel: &CompletionChannel,
        vector: &CompVector,
    ) -> Result<CompletionQueue<E, InLane>, Error> {
        CompletionQueue::create(&self.context(), cqe, Some(channel), Some(vector), None)
    }
}

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    /// A queue with events on a channel, and polled for fields, if they are given.
    pub(crate) fn create(
        context: &Context,
        cqe: u32,
        channel: Option<&CompletionChannel>,
        vector: Option<&CompVector>,
        fields: Option<Fields>,
    ) -> Result<Self, Error> {
        if let Some(vector) = vector {
            vector.check_is_of(context)?;
        }
        let verb = if fields.is_some() { "ibv_create_cq_ex" } else { "ibv_create_cq" };
        within_limit(verb, context, cqe)?;
        if channel.is_some_and(|channel| !channel.is_of(context)) {
            let what = "the completion channel and the completion queue";
            return Err(Error::new(verb, ErrorKind::ContextMismatch { what }));
        }
        let control = context.handle.control();
        let wc_flags = fields.map_or(0, |fields| fields.wc_flags);
        let create = |is_single_threaded: bool| {
            let (at, cqe) = (context.handle.as_ptr(), cqe as i32);
            let channel = channel.map_or(ptr::null_mut(), |channel| channel.handle().as_ptr());
            let vector = vector.map_or(0, CompVector::index) as i32;
            if fields.is_none() && !is_single_threaded {
                // SAFETY: their handles keep context and channel.
                return unsafe { (control.create_cq)(at, cqe, channel, vector) };
            }
            let attr = CqAttr { cqe, channel, vector, wc_flags, is_single_threaded };
            // SAFETY: their handles keep context and channel. If one thread uses the queue, it and
            // the queue pairs on it are of a lane, so all calls on them are this thread's.
            unsafe { (control.create_cq_ex)(at, attr) }.map(NonNull::cast::<ibv_cq>)
        };
        let mut is_single_threaded = L::IS_LANE;
        let mut created = create(is_single_threaded);
        if is_single_threaded && matches!(created, Err(libc::EOPNOTSUPP | libc::ENOSYS)) {
            is_single_threaded = false;
            created = create(false);
        }
        let cq = created.map_err(|errno| {
            let fields = fields.map(|_| format!(", wc_flags {wc_flags:#x}")).unwrap_or_default();
            of_creation(verb, errno, format!("cqe {cqe}{fields}"))
        })?;
        let channel = channel.map(|channel| channel.handle().clone());
        let parents = handle::CqParents { context: context.handle.clone(), channel };
        let id = CqId::mint();
        // SAFETY: the queue was just created, so it is live and known only here: it may be named,
        // read and owned.
        let (granted, handle) = unsafe {
            id.name(cq);
            ((*cq.as_ptr()).cqe, handle::Cq::new(cq, control, parents))
        };
        let extended = fields.map(|fields| {
            let is_single = context.handle.is_soft_roce();
            // SAFETY: it was created with these fields, and whoever has the inbox to poll it has
            // the handle.
            unsafe { (fields.adapter)(cq.cast(), is_single) }
        });
        let shared = Arc::new(CqShared::new(Arc::new(handle), granted.max(0) as u32, extended));
        Ok(CompletionQueue {
            inbox: At(Arc::as_ptr(shared.inbox())),
            shared,
            id,
            is_single_threaded,
            _types: PhantomData,
        })
    }
}

/// Devices answer EINVAL to more than `max_cqe`, and some of them to 2^31.
pub(super) fn within_limit(verb: &'static str, context: &Context, cqe: u32) -> Result<(), Error> {
    let max = context.limits()?.max_cqe.max(0) as u32;
    if cqe > max { Err(Error::limit(verb, "cqe", cqe.into(), max.into())) } else { Ok(()) }
}
