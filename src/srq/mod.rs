//! Shared receive queues.

#![allow(unsafe_code)] // creates and posts

mod post;

pub use post::SrqPost;

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::buf::header::mark;
use crate::buf::{Buf, Pool, count_posted, reclaim_everything};
use crate::cq::{AtEnd, Inbox, Over, Parked};
use crate::entry::{Entry, Owned};
use crate::error::{Error, ErrorKind, Refused};
use crate::in_flight::books::RECEIVE;
use crate::in_flight::{Books, Quiet};
use crate::limits::{Limit, Max};
use crate::pd::ProtectionDomain;
use crate::rules::SharesReceives;
use crate::sys::handle;
use crate::sys::types::{ibv_srq, ibv_srq_attr, ibv_srq_attr_mask, ibv_srq_init_attr};
use crate::wr::Data;

/// A shared receive queue (`ibv_create_srq`) for queue pairs of transport `T` (RC or UD; R7.3), with entries of type `E` and
/// at most `M` scatter/gather elements a receive.
///
/// It is fed from one pool, whose buffers bound what can be outstanding: each completion queue that
/// receives from it books room for all of them, once (R9.9). Receives posted here belong to the queue, not to a
/// queue pair, and are not flushed when one dies (R7.7).
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { pd, pool, .. } = proverbs::guide::ends()?;
/// let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
/// srq.post_srq_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
/// srq.arm_limit(1)?; // an event when fewer than 1 is left
/// let attr: SrqAttr = srq.query()?;
/// assert!(attr.max_wr >= 16 && attr.srq_limit == 1);
/// let id: SrqId = srq.id(); // what the event names
/// srq.destroy()?; // the receive is stranded: `Pool::reclaim` brings it back
/// # let _ = id;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedReceiveQueue<T: SharesReceives, E: Entry = Buf, M: Limit = Max<1>> {
    core: Arc<SrqCore>,
    /// The C object of `core`.
    raw: *mut ibv_srq,
    /// What headers of buffers show that were posted here last; `POISONED` after a post without a known outcome.
    mark: u64,
    _pool: Box<dyn Any>,
    _types: PhantomData<(T, E, M, *mut ())>,
}

// SAFETY: the queue takes entries and its pool gives them, and they are Send.
unsafe impl<T: SharesReceives, E: Entry + Send, M: Limit> Send for SharedReceiveQueue<T, E, M> {}

/// The mark of no queue.
const POISONED: u64 = mark::NEVER;

/// # Invariants
/// `home` is the home of the pool's headers; `buffers` is the number of its buffers.
pub(crate) struct SrqCore {
    handle: handle::Srq,
    pub books: Arc<Books>,
    pub home: *const (),
    /// Where the pool's headers begin.
    slots: usize,
    pub buffers: u32,
    pub pd: u32,
    id: SrqId,
    /// Of the completion queues that have its completions, which are to know that it is gone.
    inboxes: Mutex<Vec<Weak<Inbox>>>,
    parked: Mutex<ParkedHere>,
}

/// Queue pairs that receive from a shared receive queue, and are dropped and not destroyed.
#[derive(Default)]
struct ParkedHere {
    known: Vec<Weak<Parked>>,
    /// The shared receive queue was dropped: none is to be added.
    is_over: bool,
}

/// A shared receive queue, as events name it: [`SharedReceiveQueue::id`], where C has `srq_context` (ibv_create_srq(3)). Unique
/// in the process, and never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SrqId(u64);

impl SrqId {
    fn mint() -> SrqId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        SrqId(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn from_context(context: u64) -> SrqId {
        SrqId(context)
    }
}

impl fmt::Debug for SrqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SrqId({})", self.0)
    }
}

// SAFETY: `home` is only compared.
unsafe impl Send for SrqCore {}
// SAFETY: as above.
unsafe impl Sync for SrqCore {}

impl SrqCore {
    pub fn as_ptr(&self) -> *mut ibv_srq {
        self.handle.as_ptr()
    }

    /// Its receives may complete into this completion queue, which is to know when it goes.
    pub fn completes_into(&self, inbox: &Arc<Inbox>) {
        let mut inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes.retain(|known| known.strong_count() != 0);
        let inbox = Arc::downgrade(inbox);
        if !inboxes.iter().any(|known| known.ptr_eq(&inbox)) {
            inboxes.push(inbox);
        }
    }

    /// Its receives that are with the device, or in completions that nobody took apart; it stops at `most`.
    fn outstanding(&self, most: usize) -> usize {
        count_posted(self.slots, self.books.id, most)
    }

    /// Whether a queue pair of it that is destroyed may take receives along: some are outstanding, and it is not about to
    /// go itself.
    pub fn may_lose_receives(&self) -> bool {
        !self.parked().is_over && self.outstanding(1) != 0
    }

    fn parked(&self) -> MutexGuard<'_, ParkedHere> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue pair of it is parked. False if none should be.
    pub fn knows_parked(&self, parked: &Arc<Parked>) -> bool {
        let mut here = self.parked();
        here.known.retain(|known| known.strong_count() != 0);
        here.known.push(Arc::downgrade(parked));
        !here.is_over
    }

    /// Destroys the queue pairs that are parked.
    fn end_parked(&self) {
        let known: Vec<_> = self.parked().known.drain(..).collect();
        let mut over = Over::default();
        for parked in known.iter().filter_map(Weak::upgrade) {
            parked.end(&mut over);
        }
        over.send_home();
    }

    fn close(&mut self) -> Result<(), i32> {
        if self.handle.is_closed() {
            return Ok(());
        }
        self.handle.close()?;
        let mut quiet = Quiet::default();
        let inboxes = self.inboxes.get_mut().unwrap_or_else(PoisonError::into_inner);
        for inbox in inboxes.iter().filter_map(Weak::upgrade) {
            // What is posted has no count here; the marks in the headers tell.
            inbox.end(&self.books, AtEnd::UNKNOWN, &mut quiet);
        }
        quiet.end_one(self.books.clone());
        reclaim_everything(&quiet);
        Ok(())
    }
}

impl Drop for SrqCore {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// The attributes of a shared receive queue (`ibv_query_srq`): [`SharedReceiveQueue::query`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqAttr {
    /// Receives that it holds at most, as the device granted.
    pub max_wr: u32,
    /// Scatter/gather elements a receive, as the device granted.
    pub max_sge: u32,
    /// The limit that is armed; 0 if none, or if it fired.
    pub srq_limit: u32,
}

impl ProtectionDomain {
    /// Creates a shared receive queue that can hold every buffer of `pool`, each a receive of its own
    /// (`ibv_create_srq`).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { context, pd, .. } = proverbs::guide::ends()?;
    /// profile! { Server { receive: SharedRq } }
    ///
    /// let pool = pd.create_pool(16, 256)?; // what feeds it, and bounds how many receives there are
    /// let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool)?;
    /// while let Some(buf) = pool.take() {
    ///     srq.post_srq_recv(Recv::new(buf))?;
    /// }
    /// let cq = context.create_cq(64)?;
    /// let one = pd.create_qp_on_srq::<Rc, Server, _>(&cq, &cq, &srq, 8)?;
    /// let two = pd.create_qp_on_srq::<Rc, Server, _>(&cq, &cq, &srq, 8)?; // they share the 16
    /// # drop((one, two));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::PdMismatch`] if the pool is of another protection domain (R6.8), [`ErrorKind::Limit`] if the device grants less than that
    /// (R2.11), [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno otherwise: EINVAL if the device's
    /// shared receive queues hold fewer.
    pub fn create_srq<T, E, M, C>(
        &self,
        pool: &Pool<C>,
    ) -> Result<SharedReceiveQueue<T, E, M>, Error>
    where
        T: SharesReceives,
        E: Owned,
        M: Limit,
        C: 'static,
        Buf<C>: Data<E>,
    {
        const VERB: &str = "ibv_create_srq";
        if pool.region().pd() != self.id() {
            let what = "the pool and the shared receive queue";
            return Err(Error::new(VERB, ErrorKind::PdMismatch { what }));
        }
        let books = Books::shared(self.id())
            .ok_or_else(|| Error::os(VERB, libc::ENOSPC, "queue ids are used up"))?;
        let buffers = pool.count() as u32;
        let attr = ibv_srq_attr { max_wr: buffers, max_sge: M::VALUE, srq_limit: 0 };
        let id = SrqId::mint();
        let srq_context = ptr::without_provenance_mut(id.0 as usize);
        let mut init = ibv_srq_init_attr { srq_context, attr };
        let pd = self.handle();
        let control = pd.control();
        // SAFETY: the protection domain is live, and `init` is a local.
        match unsafe { (control.create_srq)(pd.as_ptr(), &mut init) } {
            Ok(srq) => {
                // SAFETY: just created, and owned by nobody else.
                let handle = unsafe { handle::Srq::new(srq, control, pd.clone()) };
                // The types say what may be posted, and the pool how much: what was granted must be at least that (R2.11).
                let granted = init.attr;
                for (what, asked, granted) in
                    [("max_wr", buffers, granted.max_wr), ("max_sge", M::VALUE, granted.max_sge)]
                {
                    if asked > granted {
                        return Err(Error::limit(VERB, what, asked.into(), granted.into()));
                    }
                }
                let home = pool.home();
                let (inboxes, parked) = Default::default();
                let (slots, pd) = (pool.slots(), self.id());
                let core = SrqCore { handle, books, home, slots, buffers, pd, id, inboxes, parked };
                Ok(SharedReceiveQueue {
                    raw: core.as_ptr(),
                    mark: core.books.mark(RECEIVE),
                    core: Arc::new(core),
                    _pool: Box::new(pool.clone()),
                    _types: PhantomData,
                })
            }
            Err(errno) => {
                let asked = format!("max_wr {buffers}, max_sge {}", M::VALUE);
                Err(Error::os(VERB, errno, asked))
            }
        }
    }
}

impl<T: SharesReceives, E: Entry, M: Limit> SharedReceiveQueue<T, E, M> {
    /// What events call it (ibv_get_async_event(3)).
    pub fn id(&self) -> SrqId {
        self.core.id
    }

    pub(crate) fn core(&self) -> &Arc<SrqCore> {
        &self.core
    }

    /// Receives posted here, of which no completion was taken apart or dropped yet. It has to count them, in time with the number
    /// of the pool's buffers.
    ///
    /// A receive of which nothing is known any more counts too: so it is seen if a device keeps one that belonged to a
    /// queue pair which is gone (see [`QueuePair::destroy`](crate::QueuePair::destroy)). It comes home when the
    /// shared receive queue is gone.
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pd, pool, .. } = proverbs::guide::ends()?;
    /// let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    /// srq.post_srq_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
    /// assert_eq!((srq.recvs_outstanding(), pool.available()), (1, 15));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recvs_outstanding(&self) -> usize {
        self.core.outstanding(usize::MAX)
    }

    /// Its attributes (`ibv_query_srq`).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    pub fn query(&self) -> Result<SrqAttr, Error> {
        let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 0 };
        let query = self.core.handle.control().query_srq;
        // SAFETY: the queue is live, and `attr` is a local.
        match unsafe { query(self.core.as_ptr(), &mut attr) } {
            0 => {
                let ibv_srq_attr { max_wr, max_sge, srq_limit } = attr;
                Ok(SrqAttr { max_wr, max_sge, srq_limit })
            }
            errno => Err(Error::os("ibv_query_srq", errno, "")),
        }
    }

    /// Arms the limit (`ibv_modify_srq`): one [`SrqEvent::LimitReached`](crate::SrqEvent) when fewer than `limit` receives are left; 0 disarms.
    /// It must be re-armed after it fired (R7.6).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if `limit` exceeds what the queue holds.
    pub fn arm_limit(&mut self, limit: u32) -> Result<(), Error> {
        let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: limit };
        let mask = ibv_srq_attr_mask::IBV_SRQ_LIMIT.0 as i32;
        let modify = self.core.handle.control().modify_srq;
        // SAFETY: the queue is live, and `attr` is a local.
        match unsafe { modify(self.core.as_ptr(), &mut attr, mask) } {
            0 => Ok(()),
            errno => Err(Error::os("ibv_modify_srq", errno, format!("srq_limit {limit}"))),
        }
    }

    /// Destroys it (`ibv_destroy_srq`). Queue pairs attached to it must be gone, or it comes back. Receives still posted are
    /// then stranded: [`Pool::reclaim`] takes them back.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the queue comes back: EBUSY if queue pairs are attached to it.
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        const VERB: &str = "ibv_destroy_srq";
        self.core.end_parked();
        let error = match Arc::get_mut(&mut self.core).map(SrqCore::close) {
            Some(Ok(())) => return Ok(()),
            Some(Err(errno)) => Error::os(VERB, errno, ""),
            None => Error::os(VERB, libc::EBUSY, "queue pairs are attached to it"),
        };
        Err(Refused::new(self, error))
    }
}

impl<T: SharesReceives, E: Entry, M: Limit> Drop for SharedReceiveQueue<T, E, M> {
    fn drop(&mut self) {
        self.core.parked().is_over = true;
        self.core.end_parked();
    }
}

impl<T: SharesReceives, E: Entry, M: Limit> fmt::Debug for SharedReceiveQueue<T, E, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedReceiveQueue({}, {} buffers)", T::NAME, self.core.buffers)
    }
}
