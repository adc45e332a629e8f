//! Completion queues.

#![allow(unsafe_code)] // polls

use std::marker::PhantomData;
use std::sync::Arc;

use crate::cold::drop_each;
use crate::completion::booking::CqShared;
use crate::completion::create::within_limit;
use crate::completion::deferred_destroy::Over;
use crate::completion::handle::CqHandle;
use crate::completion::inbox::Inbox;
use crate::device::{Context, CqId};
use crate::memory::{Buf, Entry};
use crate::sys::handle;
use crate::terms::error::{Error, Refused};
use crate::terms::threads::{AnyThread, InLane, Threads};

/// Keeps a completion on the thread that polled it, because only one thread may write the counters
/// that it updates.
///
/// The type is neither `Send` nor `Sync`, and its name appears in the error message.
pub(crate) type OneThread = dyn SendIntoEntryInstead;

/// Appears in the `!Send` diagnostic of [`Completion`].
pub(crate) trait SendIntoEntryInstead {}

/// A completion queue (`ibv_create_cq`). `E` is the entry type of the queues that complete into it.
///
/// Each of these queues reserves its share of the capacity when it is created, so the completion
/// queue cannot overrun ([R9.9](crate::guide::rules#r9-9)). Polling requires `&mut`, so only one
/// thread at a time polls a completion queue, without locks. Other threads create queue pairs on it
/// with its [`handle`](Self::handle).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// let cq: CompletionQueue = context.create_cq(64)?;
/// let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 8, recv: 8 })?;
/// assert_eq!(cq.capacity() - cq.unbooked(), 8 + 1 + 8); // the sends, a drain, the receives
/// let cq = cq.destroy().unwrap_err().into_object(); // fails, because `qp` completes into it
/// drop(qp);
/// cq.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `L` is [`AnyThread`], or [`InLane`] for a queue of a [`Lane`](crate::device::Lane), which is not
/// `Send`.
#[doc(alias = "ibv_cq")]
pub struct CompletionQueue<E: Entry = Buf, L: Threads = AnyThread> {
    // Invariants:
    // - `inbox` is the inbox of `shared`. It is a raw pointer, because completions that are held
    //   point into it.
    // - `shared` keeps the counters of every queue that completes here until none of its
    //   completions can arrive any more.
    pub(crate) inbox: At,
    pub(super) shared: Arc<CqShared>,
    pub(super) handle: CqHandle<E, L>,
    pub(super) id: CqId,
    pub(super) is_single_threaded: bool,
    pub(super) _types: PhantomData<(E, L, OneThread)>,
}

/// The address of the inbox, for use on any thread.
#[derive(Clone, Copy)]
pub(crate) struct At(pub(crate) *const Inbox);

// SAFETY: any thread may refer to and use an inbox (see `Inbox`).
unsafe impl Send for At {}
// SAFETY: an inbox is `Sync`, and nothing is written to it through this pointer.
unsafe impl Sync for At {}

// SAFETY: the queue returns entries, which are `Send`. Completions borrow it and stay on their
// thread. A queue of a lane is not `Send`, because `InLane` is not.
unsafe impl<E: Entry + Send, L: Threads + Send> Send for CompletionQueue<E, L> {}

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    /// Returns a handle with which any thread can create queues on this completion queue, while
    /// it is polled. [`CqHandle`] has an example.
    pub fn handle(&self) -> CqHandle<E, L> {
        self.handle.clone()
    }

    /// Resizes the queue to hold at least `cqe` completions (`ibv_resize_cq`). It can grow, and it
    /// can shrink down to the entries that its queues have reserved.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// let mut cq: CompletionQueue = context.create_cq(17)?;
    /// let depth = Depth { send: 8, recv: 8 };
    /// let one = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?; // reserves all entries
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
    /// The queue is unchanged, unless the error says otherwise.
    /// - [`Booked`](crate::ErrorKind::Booked): its queues have reserved more than `cqe` entries.
    /// - [`Limit`](crate::ErrorKind::Limit): `cqe` exceeds the device's `max_cqe`, or the device
    ///   granted less. If the device granted less, the queue has the granted size.
    /// - [`Os`](crate::ErrorKind::Os) with the errno: EINVAL if it holds more than `cqe`
    ///   completions, EOPNOTSUPP if the device cannot resize.
    #[doc(alias = "ibv_resize_cq")]
    pub fn resize(&mut self, cqe: u32) -> Result<(), Error> {
        const VERB: &str = "ibv_resize_cq";
        let handle = self.shared.handle();
        let context = Context { handle: handle.parents().context.clone() };
        within_limit(VERB, &context, cqe)?;
        self.shared.resize(cqe, || {
            let resize = handle.control().resize_cq;
            // SAFETY: the queue is live, and `&mut` excludes other polls and resizes.
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
        // (One comparison is enough: the address of another channel is not null either.)
        std::ptr::eq(mine.as_ref().map_or(std::ptr::null(), Arc::as_ptr), Arc::as_ptr(channel))
    }

    /// Releases the orphaned [`SharedBuf`](crate::SharedBuf) and
    /// [`OpenBuf`](crate::memory::OpenBuf) handles of destroyed or reset queue pairs, and returns
    /// their number. [`Pool::reclaim`](crate::Pool::reclaim) does this for buffers. Polls also
    /// release the handles, under the same conditions.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Fanout { entry: SharedBuf } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair_of::<Fanout>()?;
    /// let record = pool.take().ok_or("no buffer")?.freeze();
    /// a.post_send(wr::Send::new(record))?; // the peer has no receive, so it waits
    /// let a = a.reset()?; // and it was not drained
    /// assert_eq!((cq.reclaim_handles(), pool.available()), (0, 15)); // a completion may still come
    /// while cq.poll_one()?.is_some() {}
    /// // After the poll that found nothing.
    /// assert_eq!((cq.reclaim_handles(), pool.available()), (0, 16));
    /// # drop(a);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim_handles(&mut self) -> usize {
        self.settle_now().give_back().handles
    }

    /// Destroys the completion queue (`ibv_destroy_cq`). The queues that complete into it must be
    /// destroyed first. The buffers that they left are returned to their pools ([how a queue pair
    /// ends](crate::qp#how-a-queue-pair-ends)).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The queue, with [`ErrorKind::Os`](crate::ErrorKind::Os) and the errno: EBUSY if queue pairs
    /// or XRC shared receive queues complete into it, or are being created on it.
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
        let inbox = self.shared.inbox().clone();
        let closed = inbox.destroy(&mut self.shared, |queue| {
            queue.and_then(CqShared::handle_mut).map_or(Err(libc::EBUSY), handle::Cq::close)
        });
        closed.map_err(|errno| Refused::new(self, Error::os(VERB, errno, "")))
    }

    /// Returns the entries of all available completions.
    fn discard(&mut self) {
        drop_each(&mut std::iter::from_fn(|| {
            let is_left = !self.shared.handle().is_closed() && matches!(self.fetch(), Ok(true));
            is_left.then(|| drop(self.hand_out().next()))
        }));
    }
}

impl<E: Entry> CompletionQueue<E, InLane> {
    /// Whether the provider created the queue for use by a single thread. If not, the device does
    /// not support such queues, and this one is like any other
    /// ([R17.2](crate::guide::rules#r17-2)).
    pub fn is_single_threaded(&self) -> bool {
        self.is_single_threaded
    }
}

impl<E: Entry, L: Threads> Drop for CompletionQueue<E, L> {
    fn drop(&mut self) {
        /// Closes the inbox at the end, even if dropping an entry panics.
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
        // Their remaining completions are discarded, too.
        self.end_deferred();
        self.discard();
    }
}

impl_debug!([E: Entry, L: Threads] CompletionQueue<E, L>, |it|
    "CompletionQueue({} of {} booked)", it.booked(), it.capacity());
