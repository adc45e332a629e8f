//! Extended polling: completion queues whose completions have extra fields.
//! [`CqBuilder::fields`] adds them. [`CompletionQueueEx`] has an example.
//!
//! The design is in
//! [docs/extended-polling.md](https://docs.rs/crate/proverbs/latest/source/docs/extended-polling.md).

#![allow(unsafe_code)] // reads polled C structs

mod fields;

pub use fields::{CompletionTs, CompletionWallclock, DlidPathBits, HasField, ReadFields, WcFields};

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;

use crate::completion::builder::NoFields;
use crate::completion::create;
use crate::completion::inbox::BATCH;
use crate::completion::{Completion, CompletionQueue, Completions, CqBuilder};
use crate::memory::{Buf, Owned};
use crate::sys::polling::adapter::{self, Extended, ROWS, Row};
use crate::sys::polling::wc_flags;
use crate::terms::error::{Error, Refused};
use crate::terms::threads::{AnyThread, Threads};

static_assertions::const_assert_eq!(ROWS, BATCH);

/// A completion queue whose completions also have the fields `F` (`ibv_create_cq_ex`, extended
/// polling).
///
/// It dereferences to a [`CompletionQueue`] and can be used like one: create queue pairs on it,
/// drain them, and wait for it on a channel. Its [`poll`](Self::poll) returns each completion with
/// its [`ReadFields`]. Reading a field that the queue was not created with does not compile
/// ([R14.4](crate::guide::rules#r14-4)).
///
/// A poll reads up to 16 completions between `ibv_start_poll` and `ibv_end_poll`, and then returns
/// them. So the provider's lock is never held while the program runs
/// ([R14.5](crate::guide::rules#r14-5)). Each field costs a provider call per completion, so
/// request only the fields that you read.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};
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
/// // ... and once it is connected:
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
/// println!("the second one completed {:?} after the first", clock.between(times[0], times[1]));
/// # assert!(clock.between(times[0], times[1]) > std::time::Duration::ZERO);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Not every device supports every field. `create` after
/// [`fields`](crate::completion::CqBuilder::fields) fails with EOPNOTSUPP if the device lacks one
/// ([R14.6](crate::guide::rules#r14-6)). Soft-RoCE has no clocks.
#[doc(alias = "ibv_cq_ex")]
pub struct CompletionQueueEx<F: WcFields, E: Owned = Buf, L: Threads = AnyThread> {
    queue: CompletionQueue<E, L>,
    _fields: PhantomData<fn(F)>,
}

impl<F: WcFields, E: Owned, L: Threads> CompletionQueueEx<F, E, L> {
    /// Wraps a queue that was created with these fields.
    fn of(queue: CompletionQueue<E, L>) -> Self {
        CompletionQueueEx { queue, _fields: PhantomData }
    }

    /// Returns up to 16 available completions, each with its fields (`ibv_start_poll`,
    /// `ibv_next_poll`, `ibv_end_poll`). Otherwise it works like [`CompletionQueue::poll`]: if you
    /// stop iterating early, the next poll returns the rest.
    ///
    /// # Errors
    /// As for [`CompletionQueue::poll`], and EINVAL if the inner queue was exchanged (with
    /// `mem::swap`) for a queue with other fields.
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
        // (A batch begins with the first row, so it needs no look-up: 5 instructions a poll.)
        let row = match completions.first() {
            _ if count > 0 => row(inbox.cast()),
            Some(first) => row(first),
            None => ptr::null(),
        };
        Ok(CompletionsEx { completions, row, _fields: PhantomData })
    }

    /// Like [`poll`](Self::poll), but returns at most one completion.
    ///
    /// # Errors
    /// As for [`poll`](Self::poll).
    pub fn poll_one(&mut self) -> Result<Option<WithFields<'_, F, E>>, Error> {
        self.check()?;
        let count = self.queue.ask(1);
        let Some(at) = self.queue.find_one(count)? else { return Ok(None) };
        // SAFETY: the inbox lives as long as the queue, which is borrowed. The completion was just
        // polled from it and is returned once, here. The queue has the fields.
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

    /// Checks that the program did not exchange the inner queue for a queue with other fields.
    #[inline(always)]
    fn check(&self) -> Result<(), Error> {
        // SAFETY: the inbox lives as long as `shared`.
        let inbox = unsafe { &*self.queue.inbox.0 };
        if inbox.is_polled_for(F::WC_FLAGS) { Ok(()) } else { Err(exchanged()) }
    }
}

/// A completion and its fields. Returned by a poll of a [`CompletionQueueEx`].
pub type WithFields<'cq, F, E> = (Completion<'cq, E>, ReadFields<'cq, F>);

#[cold]
fn exchanged() -> Error {
    let asked = "the completion queue was exchanged for one with other fields";
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
    // SAFETY: the row belongs to the completion (this function's contract), and neither is written
    // while the completion queue is borrowed.
    let fields = unsafe { ReadFields::new(completion.wc, row) };
    (completion, fields)
}

/// Marks a [`CqBuilder`] whose queue adds the fields `F` to each completion.
#[doc(hidden)]
pub struct Fields<F>(PhantomData<F>);

/// The fields `F`, for the adapter.
struct FieldsOf<F>(PhantomData<F>);

impl<F: WcFields> adapter::Fields for FieldsOf<F> {
    const WC_FLAGS: u64 = F::WC_FLAGS;
}

impl<'a, L: Threads, C> CqBuilder<'a, L, NoFields, C> {
    /// Adds the fields `G` to each completion (`wc_flags` of ibv_create_cq_ex(3)). `create` then
    /// returns a [`CompletionQueueEx`].
    ///
    /// Waiting on its channel returns completions without these fields. To get the fields, drop
    /// that result and poll.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::ext::extended_polling::CompletionWallclock;
    /// use std::time::Duration;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let mut channel = context.create_comp_channel()?;
    /// let timed = context.cq(64).fields::<CompletionWallclock>().channel(&channel);
    /// let mut cq = timed.create::<Buf>()?;
    /// channel.wait_timeout(&mut cq, Duration::from_millis(1))?;
    /// for (completion, fields) in cq.poll()? {
    ///     println!("{completion:?} at {:?}", fields.completion_wallclock_ns());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("wc_flags", "ibv_cq_init_attr_ex"))]
    pub fn fields<G: WcFields>(self) -> CqBuilder<'a, L, Fields<G>, C> {
        self.typed()
    }
}

impl<L: Threads, F: WcFields, C> CqBuilder<'_, L, Fields<F>, C> {
    /// Creates the completion queue, for queues whose entry type is `E` (`ibv_create_cq_ex`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// As without fields, and [`ErrorKind::Os`](crate::ErrorKind::Os) with EOPNOTSUPP if the device
    /// or the library lacks one of the fields or extended polling
    /// ([R14.6](crate::guide::rules#r14-6)).
    #[doc(alias = "ibv_create_cq_ex")]
    pub fn create<E: Owned>(self) -> Result<CompletionQueueEx<F, E, L>, Error> {
        let wc_flags = wc_flags::OURS | F::WC_FLAGS;
        let fields = create::Fields { wc_flags, adapter: Extended::new::<FieldsOf<F>> };
        let CqBuilder { context, cqe, counts, events, on, .. } = self;
        CompletionQueue::create(&context, cqe, events, on, Some(fields), counts)
            .map(CompletionQueueEx::of)
    }
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

/// An iterator over the completions of one poll of a [`CompletionQueueEx`], each with its fields.
/// They borrow the completion queue, so they must be gone before the next poll.
#[doc(alias("IBV_WC_STANDARD_FLAGS", "IBV_WC_EX_WITH_BYTE_LEN", "IBV_WC_EX_WITH_IMM"))]
#[doc(alias("IBV_WC_EX_WITH_QP_NUM", "IBV_WC_EX_WITH_SRC_QP", "IBV_WC_EX_WITH_SLID"))]
#[doc(alias("IBV_WC_EX_WITH_SL", "ibv_create_cq_wc_flags", "ibv_cq_ex"))]
pub struct CompletionsEx<'cq, F: WcFields, E: Owned> {
    // Invariants:
    // The completions are in an inbox that has an adapter of the fields `F`. If one is left, `row`
    // is the row of the next one, and a row for each of the others follows.
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
        // SAFETY: a completion was left, so this was its row (invariant).
        Some(unsafe { with_fields(completion, row) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.completions.size_hint()
    }
}

impl<F: WcFields, E: Owned> ExactSizeIterator for CompletionsEx<'_, F, E> {}

impl_debug!([F: WcFields, E: Owned] CompletionsEx<'_, F, E>, |it|
    "CompletionsEx({} left)", it.completions.len());
