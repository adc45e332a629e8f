//! Completion queues.

#![allow(unsafe_code)] // polls

use std::marker::PhantomData;
use std::sync::Arc;

use crate::cold::drop_each;
use crate::completion::booking::CqShared;
use crate::completion::create::within_limit;
use crate::completion::deferred_destroy::Over;
use crate::completion::inbox::Inbox;
use crate::device::{Context, CqId};
use crate::memory::{Buf, Entry};
use crate::sys::handle;
use crate::terms::error::{Error, Refused};
use crate::terms::threads::{AnyThread, InLane, Threads};

/// Keeps a completion on the thread that polled it: the counters that it moves have one writer.
///
/// The type is neither `Send` nor `Sync`, and has a name for the error message.
pub(crate) type OneThread = dyn SendIntoEntryInstead;

/// Appears in the `!Send` diagnostic of [`Completion`].
pub(crate) trait SendIntoEntryInstead {}

/// A completion queue (`ibv_create_cq`) of queues whose entry type is `E`.
///
/// A queue books its share of the capacity when it attaches, so the completion queue cannot overrun
/// ([R9.9](crate::guide::rules#r9-9)). It belongs to one thread at a time, since polling takes
/// `&mut`; that is why nothing locks.
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
#[doc(alias = "ibv_cq")]
pub struct CompletionQueue<E: Entry = Buf, L: Threads = AnyThread> {
    // Invariants:
    // - `inbox` is that of `shared`. It is a raw pointer, since completions that are held point
    //   into it.
    // - `shared` keeps the counters of every queue that completes here until none of its
    //   completions can come any more.
    pub(super) inbox: At,
    pub(super) shared: Arc<CqShared>,
    pub(super) id: CqId,
    pub(super) is_single_threaded: bool,
    pub(super) _types: PhantomData<(E, L, OneThread)>,
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

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    /// The number of completions that it holds, as the device granted: at least as many as asked
    /// for.
    #[doc(alias = "cqe")]
    pub fn capacity(&self) -> u32 {
        self.shared.capacity()
    }

    /// The number of entries that no queue has booked ([R9.9](crate::guide::rules#r9-9)).
    pub fn unbooked(&self) -> u32 {
        self.shared.unbooked()
    }

    /// Gives the queue room for at least `cqe` completions (`ibv_resize_cq`): more, or less, but
    /// not less than its queues have booked.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
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
    /// The queue is as before. [`Booked`](crate::ErrorKind::Booked);
    /// [`Limit`](crate::ErrorKind::Limit) if `cqe` exceeds the device's `max_cqe`, or the device
    /// granted less (then it has what was granted); otherwise [`Os`](crate::ErrorKind::Os) with the
    /// errno: EINVAL if it holds more completions than that, EOPNOTSUPP if the device cannot do it.
    #[doc(alias = "ibv_resize_cq")]
    pub fn resize(&mut self, cqe: u32) -> Result<(), Error> {
        const VERB: &str = "ibv_resize_cq";
        let handle = self.shared.handle();
        let context = Context { handle: handle.parents().context.clone() };
        within_limit(VERB, &context, cqe)?;
        self.shared.resize(cqe, || {
            let resize = handle.control().resize_cq;
            // SAFETY: the queue is live, and `&mut` keeps others from polling and resizing it.
            let resized = unsafe { resize(handle.as_ptr(), cqe as i32) };
            resized.map_err(|errno| Error::os(VERB, errno, format!("cqe {cqe}")))?;
            // SAFETY: the same; `cqe` is as the device left it.
            Ok(unsafe { (*handle.as_ptr()).cqe }.max(0) as u32)
        })
    }

    pub(crate) fn shared(&self) -> &Arc<CqShared> {
        &self.shared
    }

    pub(crate) fn is_on(&self, channel: &Arc<handle::Channel>) -> bool {
        let mine = &self.shared.handle().parents().channel;
        // (One comparison: the address of another channel is not null either.)
        std::ptr::eq(mine.as_ref().map_or(std::ptr::null(), Arc::as_ptr), Arc::as_ptr(channel))
    }

    /// Takes back the [`SharedBuf`](crate::SharedBuf) and [`OpenBuf`](crate::memory::OpenBuf)
    /// handles that destroyed or reset queue pairs left orphaned, as
    /// [`Pool::reclaim`](crate::Pool::reclaim) does for buffers. Polls bring them back too, under
    /// the same condition. Returns how many.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Fanout { entry: SharedBuf } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair_of::<Fanout>()?;
    /// let record = pool.take().ok_or("no buffer")?.freeze();
    /// a.post_send(wr::Send::new(record))?; // the peer has no receive, so it waits
    /// let a = a.reset()?; // and nobody drained it
    /// assert_eq!((cq.reclaim_handles(), pool.available()), (0, 15)); // a completion may still come
    /// while cq.poll_one()?.is_some() {}
    /// // With the poll that found nothing.
    /// assert_eq!((cq.reclaim_handles(), pool.available()), (0, 16));
    /// # drop(a);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim_handles(&mut self) -> usize {
        self.settle_now().give_back().handles
    }

    /// Destroys the completion queue (`ibv_destroy_cq`). Queues that complete into it must be gone;
    /// buffers that they left go back to their pools ([how a queue pair
    /// ends](crate::qp#how-a-queue-pair-ends)).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the queue is given back: EBUSY
    /// if queue pairs complete into it, or a shared receive queue of XRC does.
    #[doc(alias = "ibv_destroy_cq")]
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        const VERB: &str = "ibv_destroy_cq";
        if self.shared.has_queues() {
            let error = Error::os(
                VERB,
                libc::EBUSY,
                "queue pairs, or shared receive queues of XRC, complete into it: destroy them first",
            );
            return Err(Refused::new(self, error));
        }
        self.discard();
        self.end_deferred();
        self.discard();
        let handle = Arc::get_mut(&mut self.shared).and_then(CqShared::handle_mut);
        let closed = handle.map_or(Err(libc::EBUSY), handle::Cq::close);
        closed.map_err(|errno| Refused::new(self, Error::os(VERB, errno, "")))
    }

    /// Gives back the entries of all completions that are there.
    fn discard(&mut self) {
        drop_each(&mut std::iter::from_fn(|| {
            let is_left = !self.shared.handle().is_closed() && matches!(self.fetch(), Ok(true));
            is_left.then(|| drop(self.hand_out().next()))
        }));
    }
}

impl<E: Entry> CompletionQueue<E, InLane> {
    /// Whether the provider was told that one thread uses the queue. If not, the device has no such
    /// queues, and this one is as any other ([R17.2](crate::guide::rules#r17-2)).
    pub fn is_single_threaded(&self) -> bool {
        self.is_single_threaded
    }
}

impl<E: Entry, L: Threads> Drop for CompletionQueue<E, L> {
    fn drop(&mut self) {
        /// Closes the inbox at the end, even if an entry panics when dropped.
        struct Close<'a>(&'a CqShared);

        impl Drop for Close<'_> {
            fn drop(&mut self) {
                let mut over = Over::default();
                self.0.close(&mut over);
                over.give_back();
            }
        }

        let shared = self.shared.clone();
        let _close = Close(&shared);
        self.discard();
        // The completions that a device leaves of these are discarded, too.
        self.end_deferred();
        self.discard();
    }
}

impl_debug!([E: Entry, L: Threads] CompletionQueue<E, L>, |it|
    "CompletionQueue({} of {} booked)", it.capacity() - it.unbooked(), it.capacity());
