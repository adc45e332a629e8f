//! Creating a shared receive queue from a pool or an arena.

// No model: the lock-free part is `counters::ids::mint`, which has one.

#![allow(unsafe_code)] // one verb

use std::any::Any;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::allows::{Allows, Same, Seal, call};
use crate::completion::booking::CqShared;
use crate::counters::ids;
use crate::counters::queue_counters::{QueueCounters, RECEIVE};
use crate::device::{ProtectionDomain, SrqId};
use crate::in_flight::InFlight;
use crate::in_flight::stale::StaleCredits;
use crate::memory::slab::Slab;
use crate::memory::{Arena, Buf, Entry, Memory, Owned, Pool};
use crate::post::queue::{Queue, SlabAddress};
use crate::rules::{HasBothQueues, SharesReceives};
use crate::srq::{Dependents, SharedReceiveQueue, SrqCore};
use crate::sync::{AtomicU64, global};
use crate::sys::handle;
use crate::sys::refusal::of_creation;
use crate::sys::types::{ibv_srq, ibv_srq_attr, ibv_srq_init_attr, zeroed};
use crate::terms::bounded::SrqNum;
use crate::terms::error::Error;
use crate::terms::threads::Threads;
use crate::work::data::Data;
use crate::work::limits::Limit;

impl<L: Threads> ProtectionDomain<L> {
    /// Creates a shared receive queue that can hold every buffer of `pool` as a separate receive
    /// (`ibv_create_srq`). For an arena, it can hold one receive for each header.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::qp::Max;
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// profile! { Server { receive: SharedRq } }
    ///
    /// // The source of its buffers, which limits the number of receives.
    /// let pool = pd.create_pool(16, 256)?;
    /// let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool)?;
    /// while let Some(buf) = pool.take() {
    ///     srq.post_srq_recv(wr::Recv::new(buf))?;
    /// }
    /// let cq = context.create_cq(64)?;
    /// let one = pd.create_qp::<Rc, Server>(&cq, &cq, Depth::on_srq(8, &srq))?;
    /// let two = pd.create_qp::<Rc, Server>(&cq, &cq, Depth::on_srq(8, &srq))?; // they share the 16
    /// # drop((one, two));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::PdMismatch`](crate::ErrorKind::PdMismatch): the pool belongs to another
    /// protection domain ([R6.8](crate::guide::rules#r6-8)).
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit): the device grants less than requested
    /// ([R2.11](crate::guide::rules#r2-11)). Otherwise [`ErrorKind::Os`](crate::ErrorKind::Os) with
    /// the errno; EINVAL if the device does not support shared receive queues of this size.
    #[doc(alias("ibv_create_srq", "IBV_SRQT_BASIC", "ibv_srq_init_attr"))]
    pub fn create_srq<T, E, M, C>(
        &self,
        pool: &impl FeedsSrq<C>,
    ) -> Result<SharedReceiveQueue<T, E, M, L>, Error>
    where
        Self: Allows<call::CreateSrq<T>>,
        T: SharesReceives,
        E: Owned + Allows<call::FeedFrom<C>>,
        M: Limit,
        C: 'static,
    {
        self.create_srq_of(pool.feed())
    }

    /// Creates a queue for RC or UD.
    pub(super) fn create_srq_of<T: SharesReceives, E: Entry, M: Limit>(
        &self,
        feed: Feed,
    ) -> Result<SharedReceiveQueue<T, E, M, L>, Error> {
        const VERB: &str = "ibv_create_srq";
        let pd = self.handle();
        self.create_any_srq(VERB, feed, |_, init| {
            let asked = init.attr;
            // SAFETY: the protection domain is alive, and `init` is a local.
            let made = unsafe { (pd.control().create_srq)(pd.as_ptr(), init) };
            let srq = made.map_err(|errno| refused(VERB, errno, asked))?;
            let parents = pd.clone().into();
            Ok(Made { srq, parents, completes_into: None, number: SrqNum::NONE })
        })
    }

    /// Creates a shared receive queue with a verb. The verb receives the counters of the queue and
    /// its attributes, which it sets to the granted values.
    pub(crate) fn create_any_srq<T: SharesReceives, E: Entry, M: Limit>(
        &self,
        verb: &'static str,
        feed: Feed,
        make: impl FnOnce(&Arc<QueueCounters>, &mut ibv_srq_init_attr) -> Result<Made, Error>,
    ) -> Result<SharedReceiveQueue<T, E, M, L>, Error> {
        let what = "the pool and the shared receive queue";
        Error::unless_one_pd(verb, what, feed.pd == self.id())?;
        let counters = QueueCounters::shared(self.id(), feed.number)
            .ok_or_else(|| Error::os(verb, libc::ENOSPC, "too many queues exist"))?;
        let buffers = feed.count as u32;
        let attr = ibv_srq_attr { max_wr: buffers, max_sge: M::VALUE, ..zeroed() };
        global! { static NEXT: AtomicU64 = AtomicU64::new(1); }
        let id = ids::mint(&NEXT);
        let srq_context = ptr::without_provenance_mut(id as usize);
        let mut init = ibv_srq_init_attr { srq_context, attr, ..zeroed() };
        let Made { srq, parents, completes_into, number } = make(&counters, &mut init)?;
        // SAFETY: the object was just created, and has no other owner.
        let handle = unsafe { handle::Srq::new(srq, self.handle().control(), parents) };
        // The types limit what may be posted, and the pool limits how much. The device must grant
        // at least that (R2.11).
        let granted = init.attr;
        let fits = Error::at_most(verb, "max_wr", buffers, granted.max_wr)
            .and_then(|()| Error::at_most(verb, "max_sge", M::VALUE, granted.max_sge));
        if let Err(error) = fits {
            drop(handle);
            completes_into.inspect(|cq| cq.detach(&counters));
            return Err(error);
        }
        let dependents = Dependents::default();
        if let Some(cq) = &completes_into {
            dependents.completes_into(cq.inbox());
        }
        let core = SrqCore {
            handle,
            counters,
            stale_keys: Default::default(),
            slots: feed.first,
            buffers,
            pd: self.id(),
            id: SrqId::from_context(id),
            dependents,
            number,
            _cq: completes_into,
        };
        let room = (buffers, Vec::new());
        let in_flight = InFlight::open(&core.counters, RECEIVE, room, StaleCredits::default());
        Ok(SharedReceiveQueue {
            queue: Queue { own: SlabAddress(feed.slab), ..Queue::new(core.as_ptr(), in_flight) },
            core: Arc::new(core),
            _pool: feed.keep,
            _types: PhantomData,
        })
    }
}

/// The error of a device that did not create a shared receive queue with these attributes.
pub(crate) fn refused(verb: &'static str, errno: c_int, asked: ibv_srq_attr) -> Error {
    of_creation(verb, errno, format!("max_wr {}, max_sge {}", asked.max_wr, asked.max_sge))
}

/// A shared receive queue that a verb created, and the objects that it needs.
pub(crate) struct Made {
    pub srq: NonNull<ibv_srq>,
    pub parents: handle::SrqParents,
    /// For XRC, the completion queue with reserved entries, and the number.
    pub completes_into: Option<Arc<CqShared>>,
    pub number: SrqNum,
}

/// The source of the buffers of a shared receive queue: a [`Pool`] or an [`Arena`] whose buffers
/// have a context `C` ([R9.9](crate::guide::rules#r9-9)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::srq::FeedsSrq;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// fn serve(
///     pd: &ProtectionDomain,
///     from: &impl FeedsSrq<()>,
/// ) -> Result<SharedReceiveQueue<Rc>, proverbs::Error> {
///     pd.create_srq(from)
/// }
/// serve(&pd, &pd.create_pool(16, 256)?)?;
/// serve(&pd, &pd.create_arena(4096, 16)?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a shared receive queue cannot take its buffers from `{Self}`",
    label = "not a pool or an arena",
    note = "`pd.create_pool` or `pd.create_arena` creates one; the number of its buffers limits the number of receives"
)]
pub trait FeedsSrq<C: 'static>: sealed::FeedsSrq<C> {}

impl<C: 'static, M: Memory> FeedsSrq<C> for Pool<C, M> {}
impl<C: 'static, M: Memory> FeedsSrq<C> for Arena<C, M> {}

mod sealed {
    use super::*;

    /// The properties that the queue uses. Sealed for each context, because a program could
    /// otherwise claim another type of context for a pool, with its own type.
    pub trait FeedsSrq<C> {
        #[doc(hidden)]
        fn feed(&self) -> Feed;
    }

    impl<C: 'static, M: Memory> FeedsSrq<C> for Pool<C, M> {
        fn feed(&self) -> Feed {
            Feed::of(self.shared(), Box::new(self.clone()))
        }
    }

    impl<C: 'static, M: Memory> FeedsSrq<C> for Arena<C, M> {
        fn feed(&self) -> Feed {
            Feed::of(self.shared(), Box::new(self.clone()))
        }
    }
}

allows! {
    [L: Threads, T: HasBothQueues] ProtectionDomain<L>: CreateSrq<T>;
}

impl<E, C, Object> Allows<call::FeedFrom<C>> for Object
where
    E: Entry,
    C: 'static,
    Buf<C>: Data<E>,
    Object: Same<This = E>,
{
    const SEAL: Seal = Seal;
}

/// A pool or an arena for a shared receive queue, or neither.
#[doc(hidden)]
pub struct Feed {
    /// The number of the protection domain.
    pd: u32,
    /// The number in the type tags of its buffers. It is unique while `keep` exists.
    number: u32,
    /// The number of headers, the address of the first, and their `slab`.
    count: usize,
    first: usize,
    slab: usize,
    keep: Box<dyn Any>,
}

impl Feed {
    /// Without a pool: at most `max_wr` receives, which the program counts.
    pub(crate) fn counted_by_caller(
        verb: &'static str,
        pd: u32,
        max_wr: u32,
    ) -> Result<Self, Error> {
        const MOST: u32 = u32::MAX / 4; // as for other queues
        Error::at_most(verb, "max_wr", max_wr, MOST)?;
        let (count, keep) = (max_wr as usize, Box::new(()));
        Ok(Feed { pd, number: 0, count, first: 0, slab: 0, keep })
    }

    fn of<C>(slots: &Slab<C>, keep: Box<dyn Any>) -> Self {
        Feed {
            pd: slots.region.pd(),
            number: slots.number(),
            count: slots.count(),
            first: slots.first().addr(),
            slab: ptr::from_ref(slots).addr(),
            keep,
        }
    }
}
