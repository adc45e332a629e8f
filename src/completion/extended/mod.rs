//! Extended polling: completion queues whose completions have fields that were asked for.

#![allow(unsafe_code)] // reads what was polled

pub(crate) mod adapter;
mod fields;

pub use fields::{CompletionTs, CompletionWallclock, DlidPathBits, HasField, ReadFields, WcFields};

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;

use adapter::Row;

use crate::completion::inbox::BATCH;
use crate::completion::{Completion, CompletionQueue, Completions};
use crate::memory::{Buf, Owned};
use crate::sys::polling::wc_flags;
use crate::terms::error::{Error, Refused};
use crate::terms::threads::{AnyThread, Threads};

/// A completion queue whose completions have the fields `F` besides their own (`ibv_create_cq_ex`,
/// extended polling).
///
/// It is a [`CompletionQueue`], and may be used as one: queue pairs are created on it, are drained
/// into it, and channels wait for it. What is different is [`poll`](Self::poll): each completion
/// comes with its [`ReadFields`]. Reading a field that was not asked for does not compile
/// ([R14.4](crate::guide::rules#r14-4)).
///
/// A poll reads from `ibv_start_poll` to `ibv_end_poll` what is there, up to 16 completions, and
/// then hands it out. So the provider's lock is never held while the program runs
/// ([R14.5](crate::guide::rules#r14-5)), whatever panics or is forgotten. Each field costs a call
/// of the provider; so ask for what is looked at.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::{CompletionQueueEx, CompletionTs};
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// let clock = context.query_device_ex()?.clock().ok_or("the device has no clock")?;
/// let mut cq: CompletionQueueEx<CompletionTs> = context.cq(64).fields().create()?;
/// let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 8, recv: 8 })?;
/// # let gid = context.roce_v2_gid(1)?;
/// # let address = AddressVector::roce_v2(gid, gid.gid())?;
/// # let (itself, psn) = (Qpn::try_from(qp.qp_num())?, Psn::try_from(0)?);
/// # let mut qp = qp
/// #     .modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?
/// #     .modify(RcRtr::new(address, itself, psn))?
/// #     .modify(RcRts::new(psn, ReadDepth::try_from(1)?))?;
/// # let region = pd.register::<RemoteWrite>(8)?;
/// # let counter = region.remote();
/// // ... and now that it is connected:
/// for number in 0..2u64 {
///     qp.post_send(wr::RdmaWrite::inline(&number.to_ne_bytes(), counter.write()))?;
/// }
/// let mut times = Vec::new();
/// while times.len() < 2 {
///     for (completion, fields) in cq.poll()? {
///         completion.status()?;
///         times.extend(fields.completion_ts());
///     }
/// }
/// println!("the second one came {:?} after the first", clock.between(times[0], times[1]));
/// # assert!(clock.between(times[0], times[1]) > std::time::Duration::ZERO);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Not every device has every field: `create` after
/// [`fields`](crate::completion::CqBuilder::fields) fails with EOPNOTSUPP on one that does not
/// ([R14.6](crate::guide::rules#r14-6)). Soft-RoCE has no clocks.
#[doc(alias = "ibv_cq_ex")]
pub struct CompletionQueueEx<F: WcFields, E: Owned = Buf, L: Threads = AnyThread> {
    queue: CompletionQueue<E, L>,
    _fields: PhantomData<fn(F)>,
}

impl<F: WcFields, E: Owned, L: Threads> CompletionQueueEx<F, E, L> {
    /// A queue that was created with these fields.
    pub(super) fn of(queue: CompletionQueue<E, L>) -> Self {
        CompletionQueueEx { queue, _fields: PhantomData }
    }

    /// Polls (`ibv_start_poll`, `ibv_next_poll`, `ibv_end_poll`): returns up to 16 completions,
    /// those that are there, each with its fields. All else is as for [`CompletionQueue::poll`]:
    /// the next poll hands out what the iterator did not.
    ///
    /// # Errors
    /// As for [`CompletionQueue::poll`]; and EINVAL if the queue in here was exchanged (by
    /// `mem::swap`) for one of other fields.
    #[doc(alias("ibv_start_poll", "ibv_next_poll", "ibv_end_poll", "ibv_cq_ex_to_cq"))]
    #[doc(alias("ibv_wc_read_opcode", "ibv_wc_read_vendor_err", "ibv_wc_read_byte_len"))]
    #[doc(alias("ibv_wc_read_imm_data", "ibv_wc_read_invalidated_rkey", "ibv_wc_read_qp_num"))]
    #[doc(alias("ibv_wc_read_src_qp", "ibv_wc_read_wc_flags", "ibv_wc_read_slid"))]
    #[doc(alias("ibv_wc_read_sl", "cq_context", "wr_id"))]
    pub fn poll(&mut self) -> Result<CompletionsEx<'_, F, E>, Error> {
        self.check()?;
        let inbox = self.queue.inbox.0;
        let count = self.queue.ask(BATCH as i32);
        let polled = self.queue.found(count)?;
        let completions = self.queue.completions(polled);
        // SAFETY: it was polled from the queue of this inbox, which has the fields.
        let row = |wc| unsafe { (*inbox).row_of(wc) };
        // (A batch begins with the first row, which so is not looked for: 5 instructions a poll.)
        let row = match completions.first() {
            _ if count > 0 => row(inbox.cast()),
            Some(first) => row(first),
            None => ptr::null(),
        };
        Ok(CompletionsEx { completions, row, _fields: PhantomData })
    }

    /// Like [`poll`](Self::poll), for one completion at most.
    ///
    /// # Errors
    /// As for [`poll`](Self::poll).
    pub fn poll_one(&mut self) -> Result<Option<WithFields<'_, F, E>>, Error> {
        self.check()?;
        let count = self.queue.ask(1);
        let Some(at) = self.queue.find_one(count)? else { return Ok(None) };
        // SAFETY: the inbox lives as long as the queue, which is borrowed; the completion was
        // polled from it just now, and is handed out once, here. The queue has the fields.
        Ok(Some(unsafe {
            let row = (*self.queue.inbox.0).row_of(at);
            with_fields(Completion::new(at), row)
        }))
    }

    /// Destroys the completion queue (`ibv_destroy_cq`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// As for [`CompletionQueue::destroy`].
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        self.queue.destroy().map_err(|refused| refused.map(Self::of))
    }

    /// The queue in here is one of these fields, unless the program put another one in its place.
    #[inline(always)]
    fn check(&self) -> Result<(), Error> {
        // SAFETY: the inbox lives as long as `shared`.
        let inbox = unsafe { &*self.queue.inbox.0 };
        if inbox.is_polled_for(F::WC_FLAGS) { Ok(()) } else { Err(exchanged()) }
    }
}

/// A completion and its fields, as a poll of a [`CompletionQueueEx`] hands them out.
pub type WithFields<'cq, F, E> = (Completion<'cq, E>, ReadFields<'cq, F>);

#[cold]
fn exchanged() -> Error {
    let asked = "the completion queue was exchanged for one of other fields";
    Error::os("ibv_start_poll", libc::EINVAL, asked)
}

/// A completion and its fields.
///
/// # Safety
/// It was polled into an inbox that lives as long as `'cq` and has an adapter of the fields `F`,
/// and `row` is its row.
#[inline(always)]
unsafe fn with_fields<'cq, F, E: Owned>(
    completion: Completion<'cq, E>,
    row: *const Row,
) -> WithFields<'cq, F, E> {
    // SAFETY: the row is the completion's (this function's contract), and neither is written while
    // the completion queue is borrowed.
    let fields = unsafe { ReadFields::new(completion.wc, row) };
    (completion, fields)
}

impl<F: WcFields, E: Owned, L: Threads> Deref for CompletionQueueEx<F, E, L> {
    type Target = CompletionQueue<E, L>;

    fn deref(&self) -> &CompletionQueue<E, L> {
        &self.queue
    }
}

impl<F: WcFields, E: Owned, L: Threads> DerefMut for CompletionQueueEx<F, E, L> {
    fn deref_mut(&mut self) -> &mut CompletionQueue<E, L> {
        &mut self.queue
    }
}

impl_debug!([F: WcFields, E: Owned, L: Threads] CompletionQueueEx<F, E, L>, |it|
    "CompletionQueueEx({:?}, wc_flags {:#x})", it.queue, F::WC_FLAGS | wc_flags::OURS);

/// The completions of one poll of a [`CompletionQueueEx`], each with its fields, an iterator. They
/// borrow the completion queue, so none outlives the next poll.
#[doc(alias("IBV_WC_STANDARD_FLAGS", "IBV_WC_EX_WITH_BYTE_LEN", "IBV_WC_EX_WITH_IMM"))]
#[doc(alias("IBV_WC_EX_WITH_QP_NUM", "IBV_WC_EX_WITH_SRC_QP", "IBV_WC_EX_WITH_SLID"))]
#[doc(alias("IBV_WC_EX_WITH_SL", "ibv_create_cq_wc_flags", "ibv_cq_ex"))]
pub struct CompletionsEx<'cq, F: WcFields, E: Owned> {
    // Invariants:
    // The completions are in an inbox that has an adapter of the fields `F`. If one is left, `row`
    // is the next one's; a row for each of the others follows.
    completions: Completions<'cq, E>,
    row: *const Row,
    _fields: PhantomData<fn(F)>,
}

impl<F: WcFields, E: Owned> CompletionsEx<'_, F, E> {
    /// Whether no completion is left.
    pub fn is_empty(&self) -> bool {
        self.completions.is_empty()
    }
}

impl<'cq, F: WcFields, E: Owned> Iterator for CompletionsEx<'cq, F, E> {
    type Item = WithFields<'cq, F, E>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let completion = self.completions.next()?;
        let row = self.row;
        self.row = row.wrapping_add(1);
        // SAFETY: one was left, so it was its row (invariant).
        Some(unsafe { with_fields(completion, row) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.completions.size_hint()
    }
}

impl<F: WcFields, E: Owned> ExactSizeIterator for CompletionsEx<'_, F, E> {}

impl_debug!([F: WcFields, E: Owned] CompletionsEx<'_, F, E>, |it|
    "CompletionsEx({} left)", it.completions.len());
