//! Creating completion queues.

// No model: the lock-free part is `counters::ids::mint`, which has one.

#![allow(unsafe_code)] // creates C objects

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::completion::booking::CqShared;
use crate::completion::counted::Counts;
use crate::completion::handle::CqHandle;
use crate::completion::queue::At;
use crate::completion::{CompletionChannel, CompletionQueue};
use crate::counters::ids;
use crate::device::{CompVector, Context, CqId};
use crate::memory::Entry;
use crate::sync::{AtomicU64, global};
use crate::sys::handle;
use crate::sys::polling::adapter::Extended;
use crate::sys::polling::{CqAttr, ibv_cq_ex};
use crate::sys::refusal::of_creation;
use crate::sys::types::ibv_cq;
use crate::terms::error::Error;
use crate::terms::threads::Threads;

/// The extra fields of a queue with extended polling.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    /// The flags of all requested fields.
    pub wc_flags: u64,
    /// Creates the adapter that is polled in place of a queue with these fields.
    pub adapter: unsafe fn(NonNull<ibv_cq_ex>, bool) -> Extended,
}

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    /// Creates a queue, with events on a channel and with extra fields if these are given.
    pub(crate) fn create(
        context: &Context,
        cqe: u32,
        channel: Option<&CompletionChannel>,
        vector: Option<&CompVector>,
        fields: Option<Fields>,
        counts: Counts,
    ) -> Result<Self, Error> {
        if let Some(vector) = vector {
            vector.check_is_of(context)?;
        }
        let verb = if fields.is_some() { "ibv_create_cq_ex" } else { "ibv_create_cq" };
        within_limit(verb, context, cqe)?;
        let is_one = channel.is_none_or(|channel| channel.is_of(context));
        Error::unless_one_context(verb, "the completion channel and the completion queue", is_one)?;
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
            // SAFETY: their handles keep context and channel. If one thread uses the queue, the
            // queue and its queue pairs belong to a lane, so all calls on them are made by that
            // thread.
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
        global! { static NEXT: AtomicU64 = AtomicU64::new(1); }
        let id = ids::mint(&NEXT);
        // SAFETY: the queue was just created, so it is live and not shared. It may be read and
        // owned, and its name, which events report, may be written.
        let (granted, handle) = unsafe {
            (*cq.as_ptr()).cq_context = ptr::without_provenance_mut(id as usize);
            ((*cq.as_ptr()).cqe, handle::Cq::new(cq, control, parents))
        };
        let extended = fields.map(|fields| {
            let is_single = context.handle.is_soft_roce();
            // SAFETY: it was created with these fields, and code that polls through the inbox holds
            // the handle.
            unsafe { (fields.adapter)(cq.cast(), is_single) }
        });
        // The program chooses the wr_ids of `Raw` entries, so a completion does not identify its
        // queue pair.
        let counts = Counts { is_shared: counts.is_shared && E::OWNED, ..counts };
        let capacity = granted.max(0) as u32;
        let shared = CqShared::new(Arc::new(handle), capacity, extended, counts);
        Ok(CompletionQueue {
            inbox: At(Arc::as_ptr(shared.inbox())),
            handle: CqHandle::new(shared.inbox()),
            shared,
            id: CqId::from_context(id),
            is_single_threaded,
            _types: PhantomData,
        })
    }
}

/// Rejects sizes above `max_cqe`. Devices return EINVAL for them, and some already for 2^31.
pub(super) fn within_limit(verb: &'static str, context: &Context, cqe: u32) -> Result<(), Error> {
    let max = context.limits()?.max_cqe.max(0) as u32;
    Error::at_most(verb, "cqe", cqe, max)
}
