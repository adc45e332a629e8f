//! Completion queues.

#![allow(unsafe_code)] // polls

mod booking;
mod inbox;
mod notify;
mod parked;
mod poll;
mod settle;
mod stand_in;
mod switch;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

pub(crate) use booking::CqShared;
pub(crate) use inbox::{AtEnd, Inbox, Share};
pub use notify::{CqId, Notify};
pub(crate) use parked::{Over, Parked, Rest};
pub use poll::Completions;

use crate::buf::Buf;
use crate::channel::CompletionChannel;
use crate::cold::drop_each;
use crate::context::Context;
use crate::entry::Entry;
use crate::error::{Error, ErrorKind, Refused};
use crate::sys::handle;
use crate::wc::OneThread;

/// A completion queue (`ibv_create_cq`) of queues whose entry type is `E`.
///
/// Its capacity is booked when a queue attaches, so it cannot overrun (R9.9). It belongs to one thread at
/// a time, as polling takes `&mut`; that is why nothing locks.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { context, pd, .. } = proverbs::guide::ends()?;
/// let cq: CompletionQueue = context.create_cq(64)?;
/// let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 8, recv: 8 })?;
/// assert_eq!(cq.capacity() - cq.unbooked(), 8 + 1 + 8); // the sends, a drain, the receives
/// let cq = cq.destroy().unwrap_err().object; // `qp` completes into it: refused, and back
/// drop(qp);
/// cq.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Invariants
/// - `inbox` is that of `shared`: a pointer, since completions that are held are pointers into it.
/// - `shared` keeps the books of every queue that completes here, until none of its completions can
///   come.
pub struct CompletionQueue<E: Entry = Buf> {
    inbox: At,
    shared: Arc<CqShared>,
    id: CqId,
    _entries: PhantomData<(E, OneThread)>,
}

/// Where the inbox is, which any thread may know.
#[derive(Clone, Copy)]
struct At(*const Inbox);

// SAFETY: an inbox may be known and used by any thread, as `Inbox` says.
unsafe impl Send for At {}
// SAFETY: an inbox is `Sync`, and so is a pointer to it that nothing writes through.
unsafe impl Sync for At {}

// SAFETY: the queue gives out entries, which are Send; completions borrow it and stay on its thread.
unsafe impl<E: Entry + Send> Send for CompletionQueue<E> {}

impl<E: Entry> CompletionQueue<E> {
    pub(crate) fn new(
        context: &Context,
        cqe: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<Self, Error> {
        const VERB: &str = "ibv_create_cq";
        let max = context.query_device()?.max_cqe;
        if cqe > max {
            return Err(Error::limit(VERB, "cqe", cqe.into(), max.into()));
        }
        if channel.is_some_and(|channel| !channel.is_of(context)) {
            let what = "the completion channel and the completion queue";
            return Err(Error::new(VERB, ErrorKind::ContextMismatch { what }));
        }
        let control = context.handle.control();
        let at = channel.map_or(std::ptr::null_mut(), |channel| channel.handle().as_ptr());
        // SAFETY: context and channel are live.
        match unsafe { (control.create_cq)(context.handle.as_ptr(), cqe as i32, at, 0) } {
            Ok(cq) => {
                let channel = channel.map(|channel| channel.handle().clone());
                let parents = handle::CqParents { context: context.handle.clone(), channel };
                let id = CqId::mint();
                // SAFETY: just created.
                unsafe { id.name(cq) };
                // SAFETY: just created.
                let granted = unsafe { (*cq.as_ptr()).cqe }.max(0) as u32;
                // SAFETY: just created, and owned by nobody else.
                let handle = unsafe { handle::Cq::new(cq, control, parents) };
                let shared = Arc::new(CqShared::new(Arc::new(handle), granted));
                Ok(CompletionQueue {
                    inbox: At(Arc::as_ptr(shared.inbox())),
                    shared,
                    id,
                    _entries: PhantomData,
                })
            }
            Err(errno) => Err(Error::os(VERB, errno, format!("cqe {cqe}"))),
        }
    }

    /// How many completions it can hold, as the device granted: at least as many as were asked for.
    pub fn capacity(&self) -> u32 {
        self.shared.capacity()
    }

    /// How many of them are not booked by a queue (R9.9).
    pub fn unbooked(&self) -> u32 {
        self.shared.unbooked()
    }

    pub(crate) fn shared(&self) -> &Arc<CqShared> {
        &self.shared
    }

    pub(crate) fn is_on(&self, channel: &Arc<handle::Channel>) -> bool {
        let parents = self.shared.handle().parents();
        parents.channel.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, channel))
    }

    /// Takes back the [`SharedBuf`](crate::SharedBuf) and [`OpenBuf`](crate::OpenBuf) handles that destroyed
    /// or reset queue pairs left stranded, as [`Pool::reclaim`](crate::Pool::reclaim) does for buffers: they
    /// come home by polls, too, and under the same condition. Gives their number.
    ///
    /// ```
    /// # use proverbs::*;
    /// profile! { Fanout { entry: SharedBuf } }
    ///
    /// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, .. } = proverbs::guide::ends_of::<Fanout>()?;
    /// let record = pool.take().ok_or("no buffer")?.freeze();
    /// a.post_send(Send::new(record))?; // the peer has no receive, so it waits
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

    /// Destroys it (`ibv_destroy_cq`). Queues that complete into it must be gone, or it comes back.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the queue comes back: EBUSY if queue pairs complete into it.
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

    /// Sends the entries of all completions that are there home.
    fn discard(&mut self) {
        drop_each(&mut std::iter::from_fn(|| {
            let is_left = !self.shared.handle().is_closed() && matches!(self.fetch(), Ok(true));
            is_left.then(|| drop(self.hand_out().next()))
        }));
    }
}

impl<E: Entry> Drop for CompletionQueue<E> {
    fn drop(&mut self) {
        /// Nothing is handed out any more, even if an entry panics as it is dropped.
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
        // What a device leaves of those is discarded, too.
        self.end_parked();
        self.discard();
    }
}

impl<E: Entry> fmt::Debug for CompletionQueue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CompletionQueue({} of {} booked)",
            self.capacity() - self.unbooked(),
            self.capacity()
        )
    }
}
