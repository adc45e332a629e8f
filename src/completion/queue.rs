//! Completion queues.

#![allow(unsafe_code)] // polls

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::cold::drop_each;
use crate::completion::booking::CqShared;
use crate::completion::channel::CompletionChannel;
use crate::completion::extended::adapter::Extended;
use crate::completion::inbox::Inbox;
use crate::completion::parked::Over;
use crate::device::comp_vector::CompVector;
use crate::device::context::Context;
use crate::device::ids::CqId;
use crate::device::lane::Lane;
use crate::memory::buf::Buf;
use crate::memory::entry::Entry;
use crate::sys::handle;
use crate::sys::polling::{CqAttr, ibv_cq_ex};
use crate::sys::types::ibv_cq;
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::threads::{AnyThread, InLane, Threads};

/// Keeps a completion on the thread that polled it: the counters that it moves have one writer.
///
/// The type is neither `Send` nor `Sync`, and has a name for the error message.
pub(crate) type OneThread = dyn UsedByOneThreadAtATime;

/// Appears in the `!Send` diagnostic of [`Completion`].
pub(crate) trait UsedByOneThreadAtATime {}

/// A completion queue (`ibv_create_cq`) of queues whose entry type is `E`.
///
/// A queue books its share of the capacity when it attaches, so the completion queue cannot overrun
/// (R9.9). It belongs to one thread at a time, since polling takes `&mut`; that is why nothing
/// locks.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// let cq: CompletionQueue = context.create_cq(64)?;
/// let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 8, recv: 8 })?;
/// assert_eq!(cq.capacity() - cq.unbooked(), 8 + 1 + 8); // the sends, a drain, the receives
/// let cq = cq.destroy().unwrap_err().into_object(); // `qp` completes into it: refused, and back
/// drop(qp);
/// cq.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `L` is [`AnyThread`], or [`InLane`] for a queue of a [`Lane`](crate::device::Lane), which stays
/// on its thread.
///
/// # Invariants
/// - `inbox` is that of `shared`. It is a raw pointer, since completions that are held point into
///   it.
/// - `shared` keeps the books of every queue that completes here until none of its completions can
///   come any more.
pub struct CompletionQueue<E: Entry = Buf, L: Threads = AnyThread> {
    pub(super) inbox: At,
    pub(super) shared: Arc<CqShared>,
    pub(super) id: CqId,
    is_single_threaded: bool,
    _types: PhantomData<(E, L, OneThread)>,
}

/// What a queue that is polled for fields is made with.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    /// All that are asked for.
    pub wc_flags: u64,
    /// Makes what is polled, of a queue with these.
    pub adapter: unsafe fn(NonNull<ibv_cq_ex>, bool) -> Extended,
}

/// The address of the inbox, which any thread may know.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) *const Inbox);

// SAFETY: an inbox may be known to and used by any thread, as `Inbox` says.
unsafe impl Send for At {}
// SAFETY: an inbox is `Sync`, and nothing writes through this pointer to it.
unsafe impl Sync for At {}

// SAFETY: the queue hands out entries, which are `Send`. Completions borrow it and stay on its
// thread. A queue of a lane is not `Send`, as `InLane` is not.
unsafe impl<E: Entry + Send, L: Threads + Send> Send for CompletionQueue<E, L> {}

impl Context {
    /// Creates a completion queue with room for at least `cqe` completions, of queues whose entry
    /// type is `E` (`ibv_create_cq`).
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
    pub fn create_cq<E: Entry>(&self, cqe: u32) -> Result<CompletionQueue<E>, Error> {
        CompletionQueue::new(self, cqe, None, 0)
    }

    /// Like [`create_cq`](Self::create_cq), with events delivered to `channel` (R13.7).
    ///
    /// # Errors
    /// As for [`create_cq`](Self::create_cq), and [`ErrorKind::ContextMismatch`] if the channel is
    /// of another context (R12.1).
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
            // SAFETY: context and channel are live. If one thread uses the queue, it and the queue
            // pairs on it are of a lane, so all calls on them are this thread's.
            unsafe { (control.create_cq_ex)(at, attr) }.map(NonNull::cast::<ibv_cq>)
        };
        let any = || match fields {
            Some(_) => extended(false),
            // SAFETY: context and channel are live.
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
                    // SAFETY: the context is live.
                    let is_single = unsafe { (control.polls_singly)(at) };
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
                Err(Error::os(verb, errno, asked))
            }
            Err(errno) => Err(Error::os(verb, errno, format!("cqe {cqe}"))),
        }
    }

    /// The number of completions that it holds, as the device granted: at least as many as asked
    /// for.
    pub fn capacity(&self) -> u32 {
        self.shared.capacity()
    }

    /// The number of entries that no queue has booked (R9.9).
    pub fn unbooked(&self) -> u32 {
        self.shared.unbooked()
    }

    /// Gives the queue room for at least `cqe` completions (`ibv_resize_cq`): more, or less, but
    /// not less than its queues have booked.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// let mut cq: CompletionQueue = context.create_cq(17)?;
    /// let depth = Depth { send: 8, recv: 8 };
    /// let one = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?; // books all of it
    /// assert!(pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).is_err());
    /// cq.resize(34)?;
    /// let two = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?;
    /// let error = cq.resize(20).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::Booked { asked: 20, booked: 34 }));
    /// # drop((one, two));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The queue is as before. [`ErrorKind::Booked`]; [`ErrorKind::Limit`] if `cqe` exceeds the
    /// device's `max_cqe`, or the device granted less (then it has what was granted); otherwise
    /// [`ErrorKind::Os`] with the errno: EINVAL if it holds more completions than that, EOPNOTSUPP
    /// if the device cannot do it.
    pub fn resize(&mut self, cqe: u32) -> Result<(), Error> {
        const VERB: &str = "ibv_resize_cq";
        let handle = self.shared.handle();
        let context = Context { handle: handle.parents().context.clone() };
        within_limit(VERB, &context, cqe)?;
        self.shared.resize(cqe, || {
            let resize = handle.control().resize_cq;
            // SAFETY: the queue is live. `&mut` keeps others from polling and resizing it, so `cqe`
            // is read as the device left it.
            match unsafe { (resize(handle.as_ptr(), cqe as i32), (*handle.as_ptr()).cqe) } {
                (0, granted) => Ok(granted.max(0) as u32),
                (errno, _) => Err(Error::os(VERB, errno, format!("cqe {cqe}"))),
            }
        })
    }

    pub(crate) fn shared(&self) -> &Arc<CqShared> {
        &self.shared
    }

    pub(crate) fn is_on(&self, channel: &Arc<handle::Channel>) -> bool {
        let parents = self.shared.handle().parents();
        parents.channel.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, channel))
    }

    /// Takes back the [`SharedBuf`](crate::SharedBuf) and [`OpenBuf`](crate::memory::OpenBuf)
    /// handles that destroyed or reset queue pairs left stranded, as
    /// [`Pool::reclaim`](crate::Pool::reclaim) does for buffers. Polls bring them home too, under
    /// the same condition. Returns how many.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Fanout { entry: SharedBuf } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, .. } = proverbs::loopback::pair_of::<Fanout>()?;
    /// let record = pool.take().ok_or("no buffer")?.freeze();
    /// a.post_send(wr::Send::new(record))?; // the peer has no receive, so it waits
    /// let (a, _) = a.reset()?; // and nobody drained it
    /// assert_eq!((cq.reclaim_lent(), pool.available()), (0, 15)); // a completion may still come
    /// while cq.poll_one()?.is_some() {}
    /// assert_eq!((cq.reclaim_lent(), pool.available()), (0, 16)); // with the poll that found nothing
    /// # drop(a);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim_lent(&mut self) -> usize {
        self.settle_now().send_home().lent
    }

    /// Destroys the completion queue (`ibv_destroy_cq`). Queues that complete into it must be gone.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the queue is given back: EBUSY
    /// if queue pairs complete into it.
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        const VERB: &str = "ibv_destroy_cq";
        if self.shared.has_queue_pairs() {
            let error = Error::os(VERB, libc::EBUSY, "queue pairs complete into it");
            return Err(Refused::new(self, error));
        }
        self.discard();
        self.end_parked();
        self.discard();
        let handle = Arc::get_mut(&mut self.shared).and_then(CqShared::handle_mut);
        match handle.map_or(Err(libc::EBUSY), handle::Cq::close) {
            Ok(()) => Ok(()),
            Err(errno) => Err(Refused::new(self, Error::os(VERB, errno, ""))),
        }
    }

    /// Sends home the entries of all completions that are there.
    fn discard(&mut self) {
        drop_each(&mut std::iter::from_fn(|| {
            let is_left = !self.shared.handle().is_closed() && matches!(self.fetch(), Ok(true));
            is_left.then(|| drop(self.hand_out().next()))
        }));
    }
}

impl Lane {
    /// Creates a completion queue of this lane, with room for at least `cqe` completions
    /// (`ibv_create_cq_ex` with `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`).
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
    /// As for [`Context::create_cq`]. A device that has no such queues is no error (R17.2).
    pub fn create_cq<E: Entry>(&self, cqe: u32) -> Result<CompletionQueue<E, InLane>, Error> {
        CompletionQueue::new(&self.context(), cqe, None, 0)
    }

    /// Like [`create_cq`](Self::create_cq), with events delivered to `channel` (R13.7).
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

impl<E: Entry> CompletionQueue<E, InLane> {
    /// Whether the provider was told that one thread uses the queue. If not, the device has no such
    /// queues, and this one is as any other (R17.2).
    pub fn is_single_threaded(&self) -> bool {
        self.is_single_threaded
    }
}

/// Devices answer EINVAL to more than `max_cqe`, and some of them to 2^31.
fn within_limit(verb: &'static str, context: &Context, cqe: u32) -> Result<(), Error> {
    let max = context.limits()?.max_cqe.max(0) as u32;
    if cqe > max { Err(Error::limit(verb, "cqe", cqe.into(), max.into())) } else { Ok(()) }
}

impl<E: Entry, L: Threads> Drop for CompletionQueue<E, L> {
    fn drop(&mut self) {
        /// Closes the inbox at the end, even if an entry panics when dropped.
        struct Close<'a>(&'a CqShared);

        impl Drop for Close<'_> {
            fn drop(&mut self) {
                let mut over = Over::default();
                self.0.close(&mut over);
                over.send_home();
            }
        }

        let shared = self.shared.clone();
        let _close = Close(&shared);
        self.discard();
        // The completions that a device leaves of these are discarded, too.
        self.end_parked();
        self.discard();
    }
}

impl<E: Entry, L: Threads> fmt::Debug for CompletionQueue<E, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CompletionQueue({} of {} booked)",
            self.capacity() - self.unbooked(),
            self.capacity()
        )
    }
}
