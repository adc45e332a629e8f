//! Completion queues from their creation.

#![allow(unsafe_code)] // creates C objects

use std::marker::PhantomData;
use std::ptr::NonNull;
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
pub(super) struct Fields {
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
        CompletionQueue::new(self, cqe, None, 0)
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
        CompletionQueue::new(self, cqe, Some(channel), 0)
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
        vector.check_is_of(self)?;
        CompletionQueue::new(self, cqe, Some(channel), vector.index())
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
        CompletionQueue::new(&self.context(), cqe, None, 0)
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
        CompletionQueue::new(&self.context(), cqe, Some(channel), 0)
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
        vector.check_is_of(&self.context())?;
        CompletionQueue::new(&self.context(), cqe, Some(channel), vector.index())
    }
}

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    pub(crate) fn new(
        context: &Context,
        cqe: u32,
        channel: Option<&CompletionChannel>,
        vector: u32,
    ) -> Result<Self, Error> {
        Self::create(context, cqe, channel, vector, None)
    }

    /// Like `new`, and polled for fields, if some are given.
    pub(super) fn create(
        context: &Context,
        cqe: u32,
        channel: Option<&CompletionChannel>,
        vector: u32,
        fields: Option<Fields>,
    ) -> Result<Self, Error> {
        let verb = if fields.is_some() { "ibv_create_cq_ex" } else { "ibv_create_cq" };
        within_limit(verb, context, cqe)?;
        if channel.is_some_and(|channel| !channel.is_of(context)) {
            let what = "the completion channel and the completion queue";
            return Err(Error::new(verb, ErrorKind::ContextMismatch { what }));
        }
        let control = context.handle.control();
        let channel_at = channel.map_or(std::ptr::null_mut(), |channel| channel.handle().as_ptr());
        let at = context.handle.as_ptr();
        let wc_flags = fields.map_or(0, |fields| fields.wc_flags);
        let extended = |is_single_threaded| {
            let (cqe, vector) = (cqe as i32, vector as i32);
            let channel = channel_at;
            let attr = CqAttr { cqe, channel, vector, wc_flags, is_single_threaded };
            // SAFETY: their handles keep context and channel. If one thread uses the queue, it and
            // the queue pairs on it are of a lane, so all calls on them are this thread's.
            unsafe { (control.create_cq_ex)(at, attr) }.map(NonNull::cast::<ibv_cq>)
        };
        let any = || match fields {
            Some(_) => extended(false),
            // SAFETY: their handles keep context and channel.
            None => unsafe { (control.create_cq)(at, cqe as i32, channel_at, vector as i32) },
        };
        let mut is_single_threaded = L::IS_LANE;
        let created = match if L::IS_LANE { extended(true) } else { any() } {
            Err(libc::EOPNOTSUPP | libc::ENOSYS) if L::IS_LANE => {
                is_single_threaded = false;
                any()
            }
            created => created,
        };
        match created {
            Ok(cq) => {
                let channel = channel.map(|channel| channel.handle().clone());
                let parents = handle::CqParents { context: context.handle.clone(), channel };
                let id = CqId::mint();
                // SAFETY: the queue was just created, so it is live and known only here: it may be
                // named, read and owned.
                let (granted, handle) = unsafe {
                    id.name(cq);
                    ((*cq.as_ptr()).cqe, handle::Cq::new(cq, control, parents))
                };
                let granted = granted.max(0) as u32;
                let extended = fields.map(|fields| {
                    let is_single = context.handle.is_soft_roce();
                    // SAFETY: it was created with these fields, and whoever has the inbox to poll
                    // it has the handle.
                    unsafe { (fields.adapter)(cq.cast(), is_single) }
                });
                let shared = Arc::new(CqShared::new(Arc::new(handle), granted, extended));
                Ok(CompletionQueue {
                    inbox: At(Arc::as_ptr(shared.inbox())),
                    shared,
                    id,
                    is_single_threaded,
                    _types: PhantomData,
                })
            }
            Err(errno) if fields.is_some() => {
                let asked = format!("cqe {cqe}, wc_flags {wc_flags:#x}");
                Err(of_creation(verb, errno, asked))
            }
            Err(errno) => Err(of_creation(verb, errno, format!("cqe {cqe}"))),
        }
    }
}

/// Devices answer EINVAL to more than `max_cqe`, and some of them to 2^31.
pub(super) fn within_limit(verb: &'static str, context: &Context, cqe: u32) -> Result<(), Error> {
    let max = context.limits()?.max_cqe.max(0) as u32;
    if cqe > max { Err(Error::limit(verb, "cqe", cqe.into(), max.into())) } else { Ok(()) }
}
