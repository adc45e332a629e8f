//! Handles of completion queues, with which other threads create queues.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::completion::CompletionQueue;
use crate::completion::booking::CqShared;
use crate::completion::inbox::Inbox;
use crate::memory::{Buf, Entry};
use crate::terms::counters::CqCounters;
use crate::terms::error::{Error, ErrorKind};
use crate::terms::threads::{AnyThread, Threads};

/// A handle of a [`CompletionQueue`]. Any thread can create queue pairs, shared receive queues and
/// connections with it while another thread polls. The poller takes no lock.
///
/// Each call that creates something on a completion queue takes a handle. A [`CompletionQueue`]
/// dereferences to its handle, so `&cq` is one too. [`CompletionQueue::handle`] returns one that
/// other threads can keep.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::CqHandle;
/// use std::thread;
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// let mut cq: CompletionQueue = context.create_cq(64)?;
/// let handle: CqHandle = cq.handle();
/// let connects = thread::spawn(move || {
///     let depth = Depth { send: 8, recv: 8 };
///     pd.create_qp::<Rc, DefaultProfile>(&handle, &handle, depth)
/// });
/// cq.poll()?.for_each(drop); // at the same time
/// let qp = connects.join().map_err(|_| "panicked")??;
/// assert_eq!(cq.capacity() - cq.unbooked(), 17);
/// # drop(qp);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A handle does not keep the completion queue alive. After the queue was dropped or destroyed, or
/// [failed](CompletionQueue::poll), each call with a handle fails with
/// [`ErrorKind::CqGone`](crate::ErrorKind::CqGone).
///
/// The thread that polls receives the entries of all queues. So a handle is `Send` and `Sync` only
/// if the entry type `E` is `Send` ([R17.1](crate::guide::rules#r17-1)), and a handle of a queue of
/// a [`Lane`](crate::device::Lane) is neither.
#[doc(alias = "ibv_cq")]
pub struct CqHandle<E: Entry = Buf, L: Threads = AnyThread> {
    inbox: Arc<Inbox>,
    /// A handle has the same limits as the sender of a channel: through it, entries move to the
    /// poller.
    _types: PhantomData<(Sender<E>, L)>,
}

impl<E: Entry, L: Threads> CqHandle<E, L> {
    pub(super) fn new(inbox: &Arc<Inbox>) -> Self {
        CqHandle { inbox: inbox.clone(), _types: PhantomData }
    }

    /// The number of completions that the queue can hold, as granted by the device: at least the
    /// requested number.
    #[doc(alias = "cqe")]
    pub fn capacity(&self) -> u32 {
        self.inbox.capacity()
    }

    /// The number of entries that no queue has reserved ([R9.9](crate::guide::rules#r9-9)).
    pub fn unbooked(&self) -> u32 {
        self.inbox.unbooked()
    }

    /// The entries that are not free, for `Debug`. (Another thread may resize the queue between the
    /// two reads.)
    pub(super) fn booked(&self) -> u32 {
        self.capacity().saturating_sub(self.unbooked())
    }

    /// The monitoring counters of the completion queue, or `None` if the queue was created without
    /// [`counted`](crate::completion::CqBuilder::counted).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::completion::CqCounters;
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// let mut cq: CompletionQueue = context.cq(64).counted().create()?;
    /// let counters: CqCounters = cq.counters().ok_or("not counted")?;
    ///
    /// let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    /// let depth = Depth { send: 8, recv: 8 };
    /// let mut qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?.modify(init)?;
    /// qp.post_recv(wr::Recv::empty())?;
    /// let _qp = qp.to_error()?; // flushes the receive
    /// while cq.poll_one()?.is_none() {}
    ///
    /// let shown = std::thread::spawn(move || {
    ///     (counters.completions(), counters.failed(WcStatus::WrFlush), counters.unbooked())
    /// });
    /// let (completions, flushed, unbooked) = shown.join().map_err(|_| "panicked")?;
    /// assert_eq!((completions, flushed, unbooked), (1, 1, cq.unbooked()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn counters(&self) -> Option<CqCounters> {
        self.inbox.tally().map(|tally| CqCounters::new(tally, &self.inbox.budget))
    }

    /// The completion queue, for a queue that is created on it.
    pub(crate) fn queue(&self, verb: &'static str) -> Result<Arc<CqShared>, Error> {
        self.inbox.queue().ok_or_else(|| Error::new(verb, ErrorKind::CqGone))
    }
}

impl<E: Entry, L: Threads> Clone for CqHandle<E, L> {
    fn clone(&self) -> Self {
        CqHandle::new(&self.inbox)
    }
}

impl<E: Entry, L: Threads> Deref for CompletionQueue<E, L> {
    type Target = CqHandle<E, L>;

    fn deref(&self) -> &CqHandle<E, L> {
        &self.handle
    }
}

impl_debug!([E: Entry, L: Threads] CqHandle<E, L>, |it|
    "CqHandle({} of {} booked)", it.booked(), it.capacity());
