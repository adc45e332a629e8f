//! Builders of completion queues.

use std::marker::PhantomData;

use crate::allows::{Allows, call};
use crate::completion::counted::Counts;
use crate::completion::{CompletionChannel, CompletionQueue};
use crate::device::{CompVector, Context, Lane};
use crate::memory::Entry;
use crate::terms::error::Error;
use crate::terms::threads::{AnyThread, InLane, Threads};

/// A builder of a completion queue ([`Context::cq`], [`Lane::cq`]).
///
/// The queue has room for the entries that [`Context::cq`] requests, plus the entries that
/// [`queue_pairs`](Self::queue_pairs) and [`receives`](Self::receives) add. It can also have a
/// [channel](Self::channel) for its events, a completion [vector](Self::vector) of that channel,
/// and extra [fields](Self::fields) in its completions. Each of these three can be set once.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};
/// use proverbs::qp::InLane;
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// let channel = context.create_comp_channel()?;
/// let vectors = context.comp_vectors();
///
/// let plain: CompletionQueue = context.create_cq(64)?; // short for `cq(64).create()`
/// let woken: CompletionQueue = context.cq(64).channel(&channel).create()?;
/// let spread: CompletionQueue = context.cq(64).channel(&channel).vector(&vectors[0]).create()?;
/// let timed: CompletionQueueEx<CompletionTs> = context.cq(64).fields().create()?;
///
/// // A lane has the same options.
/// let lane = pd.alloc_lane()?;
/// let own: CompletionQueueEx<CompletionTs, Buf, InLane> =
///     lane.cq(64).fields().channel(&channel).create()?;
/// # drop((plain, woken, spread, timed, own));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The vector selects the interrupt that wakes the channel. It has no effect without a channel, so
/// this does not compile:
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair().unwrap();
/// let vectors = context.comp_vectors();
/// let cq: CompletionQueue = context.cq(64).vector(&vectors[0]).create().unwrap();
/// ```
#[must_use = "`create` creates the completion queue"]
#[doc(alias("ibv_cq_init_attr_ex", "ibv_cq_init_attr_mask", "IBV_CQ_INIT_ATTR_MASK_FLAGS"))]
#[doc(alias = "cq_context")]
pub struct CqBuilder<'a, L: Threads = AnyThread, F = NoFields, C = NoChannel> {
    pub(crate) context: Context,
    pub(crate) cqe: u32,
    pub(crate) counts: Counts,
    pub(crate) events: Option<&'a CompletionChannel>,
    pub(crate) on: Option<&'a CompVector>,
    _chosen: PhantomData<(L, F, C)>,
}

/// The completions of the queue have only the fields of `ibv_wc`.
pub enum NoFields {}

/// The queue delivers no events.
#[doc(hidden)]
pub enum NoChannel {}

/// The events of the queue are delivered to a channel, on vector 0.
#[doc(hidden)]
pub enum WithChannel {}

/// The events of the queue are delivered to a channel, on a vector that the program selected.
#[doc(hidden)]
pub struct WithVector<C>(PhantomData<C>);

/// The state of a builder without a channel ([R13.7](crate::guide::rules#r13-7)).
#[diagnostic::on_unimplemented(
    message = "this completion queue already has a channel",
    label = "a second channel",
    note = "a completion queue has one channel; a channel may have many completion queues"
)]
pub trait TakesChannel {}
#[diagnostic::do_not_recommend]
impl TakesChannel for NoChannel {}
// `vector` already reports a vector without a channel. A bound here would add a second error.
#[diagnostic::do_not_recommend]
impl TakesChannel for WithVector<NoChannel> {}

/// The state of a builder with a channel and without a vector ([R13.7](crate::guide::rules#r13-7)).
#[diagnostic::on_unimplemented(
    message = "a completion vector needs a completion channel, and is chosen once",
    label = "there is no channel yet, or a vector already",
    note = "choose the channel first, and then the vector: `.channel(&channel).vector(&vector)`"
)]
pub trait TakesVector {}
#[diagnostic::do_not_recommend]
impl TakesVector for WithChannel {}

allows! {
    ['a, L: Threads, F, C: TakesChannel] CqBuilder<'a, L, F, C>: SetChannel;
    ['a, L: Threads, F, C: TakesVector] CqBuilder<'a, L, F, C>: SetVector;
}

impl Lane {
    /// Starts building a completion queue of this lane (`ibv_create_cq_ex` with
    /// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`), like [`Context::cq`]. If the device does not support
    /// single-threaded queues, the queue is created with locks
    /// ([R17.2](crate::guide::rules#r17-2)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};
    /// use proverbs::qp::InLane;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let lane = pd.alloc_lane()?;
    /// let cq: CompletionQueueEx<CompletionTs, Buf, InLane> = lane.cq(64).fields().create()?;
    /// assert!(cq.is_single_threaded());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("IBV_CREATE_CQ_ATTR_SINGLE_THREADED", "ibv_create_cq_attr_flags"))]
    pub fn cq(&self, cqe: u32) -> CqBuilder<'static, InLane> {
        sized(self.context(), cqe)
    }

    /// Creates a completion queue of this lane with room for at least `cqe` completions
    /// (`ibv_create_cq_ex` with `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`). Use [`cq`](Self::cq) to set
    /// options.
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
    /// As for [`CqBuilder::create`]. If the device does not support single-threaded queues, the
    /// queue is created with locks ([R17.2](crate::guide::rules#r17-2)).
    pub fn create_cq<E: Entry>(&self, cqe: u32) -> Result<CompletionQueue<E, InLane>, Error> {
        self.cq(cqe).create()
    }
}

/// A builder with only a size.
pub(crate) fn sized<L: Threads>(context: Context, cqe: u32) -> CqBuilder<'static, L> {
    let counts = Counts::default();
    CqBuilder { context, cqe, counts, events: None, on: None, _chosen: PhantomData }
}

impl<'a, L: Threads, F, C> CqBuilder<'a, L, F, C> {
    /// Adds room for `count` receives that complete here. Use it for a shared receive queue, with
    /// the number of buffers in its pool, or for queue pairs whose sends complete on another queue.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Served { receive: SharedRq } }
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// let pool = pd.create_pool(32, 4096)?;
    /// let srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    /// // 100 queue pairs that share the receives.
    /// let sends = Depth { send: 16, recv: 0 };
    /// let cq: CompletionQueue = context.cq(0).queue_pairs(100, sends).receives(32).create()?;
    /// assert!(cq.capacity() >= 100 * 17 + 32);
    /// # drop((srq, cq));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn receives(self, count: u32) -> Self {
        // A sum that overflows `u32` exceeds every device's `max_cqe`, as `u32::MAX` does.
        CqBuilder { cqe: self.cqe.saturating_add(count), ..self }
    }

    /// Lets queue pairs share the entries: each work request takes an entry when it is posted, and
    /// creating a queue pair takes none. So 1,000 queue pairs of depth 256 fit a completion queue
    /// of 4,096 entries, provided at most 4,096 work requests are in flight at once
    /// ([R9.9](crate::guide::rules#r9-9)).
    ///
    /// An entry becomes free when its completion is polled. The entries of a destroyed or reset
    /// queue pair become free at a later poll; a poller that sleeps until a completion arrives is
    /// not woken for this. Free entries go to the queue pair that posts first. No entries are
    /// reserved, and a post that finds no room is not queued: it fails with
    /// [`CqFull`](crate::post::PostErrorKind::CqFull);
    /// [`send_cq_room`](crate::QueuePair::send_cq_room) waits for room. A list or chain is posted
    /// as a whole or not at all.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::post::PostErrorKind;
    /// # let proverbs::loopback::Pair { context, pd, pool, .. } = proverbs::loopback::pair()?;
    /// let mut cq: CompletionQueue = context.cq(16).shared_budget().create()?;
    /// let depth = Depth { send: 256, recv: 256 };
    /// let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    /// let mut one = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?.modify(init)?;
    /// let mut two = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?.modify(init)?;
    /// for _ in 0..cq.capacity() {
    ///     one.post_recv(wr::Recv::empty())?;
    /// }
    /// let error = two.post_recv(wr::Recv::empty()).unwrap_err();
    /// assert_eq!(error.kind(), PostErrorKind::CqFull { asked: 1, room: 0 });
    /// one.destroy()?; // nothing will arrive
    /// assert!(cq.poll_one()?.is_none());
    /// two.post_recv(wr::Recv::empty())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Shared receive queues still reserve an entry for each buffer. Queue pairs with
    /// [`Raw`](crate::memory::Raw) entries still reserve their depth, because their posts are not
    /// counted. With a budget, a post costs a few hundred instructions more.
    pub fn shared_budget(self) -> Self {
        CqBuilder { counts: Counts { is_shared: true, ..self.counts }, ..self }
    }

    /// Counts completions, failures and received bytes, for monitoring. [`CqHandle::counters`]
    /// returns the counts. Each poll then goes through an adapter, which reads each completion once
    /// more.
    ///
    /// [`CqHandle::counters`]: crate::completion::CqHandle::counters
    pub fn counted(self) -> Self {
        CqBuilder { counts: Counts { has_counters: true, ..self.counts }, ..self }
    }

    /// Delivers events to `channel` ([R13.7](crate::guide::rules#r13-7)).
    pub fn channel(self, channel: &'a CompletionChannel) -> CqBuilder<'a, L, F, WithChannel>
    where
        Self: Allows<call::SetChannel>,
    {
        CqBuilder { events: Some(channel), ..self.typed() }
    }

    /// Delivers events on `vector`, which is one of [`Context::comp_vectors`]; [`CompVector`] has
    /// an example. The default is vector 0.
    #[doc(alias = "comp_vector")]
    pub fn vector(self, vector: &'a CompVector) -> CqBuilder<'a, L, F, WithVector<C>>
    where
        Self: Allows<call::SetVector>,
    {
        CqBuilder { on: Some(vector), ..self.typed() }
    }

    /// Changes the type parameters that record the options.
    pub(crate) fn typed<G, D>(self) -> CqBuilder<'a, L, G, D> {
        let CqBuilder { context, cqe, counts, events, on, .. } = self;
        CqBuilder { context, cqe, counts, events, on, _chosen: PhantomData }
    }
}

impl<L: Threads, C> CqBuilder<'_, L, NoFields, C> {
    /// Creates the completion queue, for queues whose entry type is `E` (`ibv_create_cq`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): more entries than the device's `max_cqe`.
    /// - [`ErrorKind::ContextMismatch`](crate::ErrorKind::ContextMismatch): the channel or vector
    ///   belongs to another context ([R12.1](crate::guide::rules#r12-1)).
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno otherwise.
    #[doc(alias("ibv_create_cq", "cqe"))]
    pub fn create<E: Entry>(self) -> Result<CompletionQueue<E, L>, Error> {
        let CqBuilder { context, cqe, counts, events, on, .. } = self;
        CompletionQueue::create(&context, cqe, events, on, None, counts)
    }
}

impl_debug!([L: Threads, F, C] CqBuilder<'_, L, F, C>, |it| "CqBuilder({} entries)", it.cqe);
