//! Queue pairs.

#![allow(unsafe_code)] // owns the C object

pub(crate) mod ah_table;
pub(crate) mod attr;
mod begun;
mod bump;
mod create;
mod drain;
mod extend;
mod limit;
mod list;
mod list_slow;
mod modify;
mod multicast;
mod park;
#[cfg(all(test, feature = "loopback"))]
mod provider_tests;
mod query;
mod raw;
pub(crate) mod recv;
mod recv_list;
mod recv_list_slow;
pub(crate) mod send;
mod send_slow;
#[cfg(all(test, feature = "loopback"))]
mod tests;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

pub use ah_table::AhIndex;
pub use begun::Begun;
pub use create::Depth;
pub use drain::Drained;
pub use list::{SendList, SendSlots};
pub use modify::Transition;
pub use query::QpAttr;
pub use raw::RawPostError;
pub use recv::RecvPost;
pub use recv_list::{RecvList, RecvSlots};
pub use send::{SendPost, Unsettled};

use crate::ah::AddressHandle;
use crate::buf::reclaim_everything;
use crate::context::Context;
use crate::cq::{AtEnd, CqShared};
use crate::entry::Entry;
use crate::error::{Error, ErrorKind, Refused};
use crate::in_flight::handles::Handles;
use crate::in_flight::ring::Released;
use crate::in_flight::{Books, Quiet, SendBooks, SendMode};
use crate::pd::ProtectionDomain;
use crate::profile::{DefaultProfile, Profile, Selective};
use crate::rules::TakesDestinations;
use crate::srq::SrqCore;
use crate::state::State;
use crate::sys::handle;
use crate::sys::types::ibv_qp;
use crate::transport::Transport;
use crate::wc::{Completion, WcError};
use ah_table::AhTable;

/// A queue pair (`ibv_create_qp`) of transport `T` in state `S`, with all that was fixed at creation in `P`.
///
/// It is not Clone, and there is no safe way to its C handle, so the state cannot be forged: `Rts` means
/// that this program moved it to RTS. **It is what we did, not what is:** the device may have moved it to
/// the error state since; posts then succeed and are flushed (R8.15).
///
/// Posting takes `&mut self`. The queue pair may move between threads, but belongs to one at a time.
/// Dropping destroys it and does not drain: see [`drain`](Self::drain).
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { a, b, mut cq, pool, .. } = proverbs::guide::ends()?;
/// let mut qp: QueuePair<Rc, Rts> = a; // that is `QueuePair<Rc, Rts, DefaultProfile>`
/// assert_eq!((qp.depth(), qp.send_room()), (Depth { send: 8, recv: 8 }, 8));
/// assert!(qp.granted_depth().send >= qp.depth().send);
/// qp.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
/// assert_eq!((qp.recvs_outstanding(), qp.recv_room(), qp.sends_outstanding()), (1, 7, 0));
/// let attr: QpAttr = qp.query()?;
/// assert_eq!((attr.state, attr.dest_qpn), (Some(QpState::Rts), b.qp_num()));
///
/// // An orderly end: every buffer home, then the queue pair.
/// let mut qp: QueuePair<Rc, Error> = qp.to_error()?;
/// let mut home = Vec::new();
/// qp.drain(&mut cq, |found| {
///     if let Drained::Entry(buf) = found {
///         home.push(buf);
///     }
/// })?;
/// assert_eq!(home.len(), 1);
/// qp.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct QueuePair<T: Transport, S: State, P: Profile = DefaultProfile> {
    pub(crate) core: Core<P>,
    _types: PhantomData<(T, S)>,
}

/// The books of a profile's send queue.
pub(crate) type SendQueue<P> =
    <<P as Profile>::Signaling as SendMode>::Books<<P as Profile>::Entry>;

/// A queue pair without its types.
///
/// # Invariants
/// - `handle` is the queue pair `qp`, alive until `close` succeeded.
/// - `books` are those that `send` and `recv` point to, and attached to both completion queues.
/// - What the device may use (`ah`, the entries of `send`) is given up only after the queue pair was
///   destroyed or reset; if the device refuses to destroy it, it leaks.
pub(crate) struct Core<P: Profile> {
    pub qp: *mut ibv_qp,
    pub send: SendQueue<P>,
    pub recv: Handles<P::Entry>,
    pub ah: AhTable,
    pub books: Arc<Books>,
    pub depth: Depth,
    pub granted: Depth,
    /// The port, from the transition that set it on; 0 before.
    pub port: u8,
    pub send_cq: Arc<CqShared>,
    pub recv_cq: Arc<CqShared>,
    pub srq: Option<Arc<SrqCore>>,
    /// Its receives were drained: nothing of them is in the completion queue.
    pub is_drained: bool,
    /// The multicast groups that it is attached to.
    pub groups: Vec<multicast::Attachment>,
    pub handle: handle::Qp,
}

// SAFETY: `qp` is owned, the books' pointers are to books that are owned too, and entries are Send.
// The counters shared with completion queues on other threads are atomics.
unsafe impl<P: Profile> Send for Core<P> where P::Entry: Send {}

impl<P: Profile> Core<P> {
    /// Destroys the queue pair, and only then gives up what the device may have used.
    fn close(&mut self) -> Result<Vec<P::Entry>, i32> {
        if self.handle.is_closed() {
            return Ok(Vec::new());
        }
        self.detach_all();
        self.handle.close()?;
        let mut quiet = Quiet::default();
        let at_end = self.at_end();
        self.books.end([self.send.posted_as_wr_ids(), self.recv.count()]);
        let entries = self.send.release_all();
        at_end.tell(&self.books, &self.send_cq, &self.recv_cq, &mut quiet);
        self.ah = AhTable::default();
        reclaim_everything(&quiet);
        Ok(entries)
    }

    /// How much is outstanding of this life, now that the queue pair is destroyed or reset.
    fn at_end(&self) -> AtEnd {
        AtEnd::of::<P::Entry, _>(&self.send, self.recv.outstanding())
    }
}

impl<P: Profile> Drop for Core<P> {
    fn drop(&mut self) {
        if self.park() {
            return;
        }
        match self.close() {
            Ok(entries) => drop(entries),
            Err(_) => {
                // The device still has it: everything that it may use must stay.
                std::mem::forget(std::mem::take(&mut self.ah));
                std::mem::forget(self.send_cq.clone());
                std::mem::forget(self.recv_cq.clone());
                std::mem::forget(self.srq.clone());
                std::mem::forget(self.books.clone());
            }
        }
    }
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    pub(crate) fn from_core(core: Core<P>) -> Self {
        QueuePair { core, _types: PhantomData }
    }

    pub(crate) fn context(&self) -> Context {
        Context { handle: self.core.handle.parents().pd.parents().clone() }
    }

    /// The queue pair number.
    pub fn qp_num(&self) -> u32 {
        // SAFETY: the queue pair is alive.
        unsafe { (*self.core.qp).qp_num }
    }

    /// The depths that were asked for; the crate holds to these.
    pub fn depth(&self) -> Depth {
        self.core.depth
    }

    /// The depths that the device granted, which may be more.
    pub fn granted_depth(&self) -> Depth {
        self.core.granted
    }

    /// Whether it was created on `pd`.
    pub(crate) fn check_pd(&self, pd: &ProtectionDomain) -> Result<(), Error> {
        if self.core.books.pd == pd.id() {
            return Ok(());
        }
        let what = "the queue pair and what it should work with";
        Err(Error::new("rdma_create_qp", ErrorKind::PdMismatch { what }))
    }

    /// Whether its receives come from a shared receive queue.
    pub(crate) fn has_srq(&self) -> bool {
        self.core.srq.is_some()
    }

    /// How many sends may be posted now.
    pub fn send_room(&mut self) -> usize {
        self.core.send.room() as usize
    }

    /// How many receives may be posted now.
    pub fn recv_room(&mut self) -> usize {
        self.core.recv.free() as usize
    }

    /// Sends posted and not known to be complete.
    pub fn sends_outstanding(&self) -> usize {
        self.core.send.posted().wrapping_sub(self.core.send.completed()) as usize
    }

    /// Receives posted and not known to be complete.
    pub fn recvs_outstanding(&self) -> usize {
        self.core.recv.outstanding() as usize
    }

    /// Destroys it (`ibv_destroy_qp`), and gives back what its ring still held (queue pairs with
    /// selective signaling). If the device refuses, it comes back.
    ///
    /// Buffers that are the wr_id of an outstanding work request come back with their completions, if
    /// those are already in the completion queue, and otherwise go home by themselves as it is polled on (see
    /// [`Pool::reclaim`](crate::Pool::reclaim)). To have them all back in order, [`drain`](Self::drain) first. The room in the
    /// completion queue is free at once if nothing is outstanding, and else then.
    ///
    /// With a shared receive queue, drain it first, or drop it instead: some devices (mlx5) take the completions of receives away with a
    /// queue pair that is destroyed, and their buffers then stay with the shared receive queue as long as that lives
    /// ([`recvs_outstanding`](crate::SharedReceiveQueue::recvs_outstanding) counts them). A queue pair
    /// that is dropped moves to ERR, and is destroyed once its receive completion queue was polled empty, or that or the shared receive
    /// queue goes. (What the device is filling just then, and flushes later, may stay.)
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and it comes back: EBUSY if something is attached that this crate does not know of.
    pub fn destroy(mut self) -> Result<Vec<P::Entry>, Refused<Self>> {
        match self.core.close() {
            Ok(entries) => Ok(entries),
            Err(errno) => Err(Refused::new(self, Error::os("ibv_destroy_qp", errno, ""))),
        }
    }

    /// For tests of this crate: lets it believe that more sends fit than were asked for, so that the
    /// device itself refuses. Nothing depends on the crate's count for soundness but the completion
    /// queue, whose room is checked here.
    #[doc(hidden)]
    pub fn believe_in_send_depth(self, depth: u32) -> Result<Self, Error> {
        create::believe_in_send_depth(self.core, depth).map(Self::from_core)
    }
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Gives the queue pair an address handle to send with; the name that it gets is for
    /// [`Destination`](crate::Destination). Both must be of one protection domain (R5.2).
    ///
    /// See [`AddressHandle`](crate::AddressHandle) for an example with removing.
    ///
    /// # Errors
    /// [`ErrorKind::PdMismatch`](crate::ErrorKind::PdMismatch) if they are not of one domain (R5.2), [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno ENOSPC after 2^32
    /// names; the handle comes back.
    pub fn add_address_handle(
        &mut self,
        ah: AddressHandle,
    ) -> Result<AhIndex, Refused<AddressHandle>>
    where
        T: TakesDestinations,
    {
        const VERB: &str = "ibv_post_send";
        if ah.pd != self.core.books.pd {
            let what = "the address handle and the queue pair";
            return Err(Refused::new(ah, Error::new(VERB, ErrorKind::PdMismatch { what })));
        }
        let pd = ah.pd;
        self.core.ah.add(ah.handle).map_err(|handle| {
            let error = Error::os(VERB, libc::ENOSPC, "names of address handles are used up");
            Refused::new(AddressHandle { handle, pd }, error)
        })
    }

    /// Takes an address handle away: no later post can name it, and it is destroyed once every send
    /// posted before has completed (R5.3). Whether the name was known.
    ///
    /// As [`AddressHandle`](crate::AddressHandle) shows.
    pub fn remove_address_handle(&mut self, index: AhIndex) -> bool {
        let posted = self.core.send.posted();
        let known = self.core.ah.remove(index, posted);
        self.reap_address_handles();
        known
    }

    /// Destroys the removed address handles that no outstanding send can name any more. Gives the number
    /// of those that wait. (Removing does this too.)
    ///
    /// As [`AddressHandle`](crate::AddressHandle) shows.
    pub fn reap_address_handles(&mut self) -> usize {
        let completed = self.core.send.completed();
        self.core.ah.reap(completed)
    }
}

/// What a completion of a selectively signaled send queue says and releases: [`QueuePair::complete`] (R10.7).
pub struct Completed<'q, E: Entry> {
    /// Success, or why the work request that it names failed.
    pub status: Result<(), WcError>,
    /// The entries of that work request and of those before it, in posting order.
    pub released: Released<'q, E>,
}

impl<T: Transport, S: State, P: Profile<Signaling = Selective>> QueuePair<T, S, P> {
    /// Takes a completion of this queue pair's send queue, and releases every entry up to its own
    /// (R10.7). A completion of another queue, or of before a reset, comes back.
    ///
    /// ```
    /// # use proverbs::*;
    /// profile! { Stream { signaling: Selective } }
    ///
    /// # let proverbs::guide::Ends { a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends_of::<Stream>()?;
    /// # let region = pd.register::<RemoteWrite>(256)?;
    /// # let at = region.remote().write();
    /// let mut qp: QueuePair<Rc, Rts, Stream> = a;
    /// let _: Unsettled = qp.post_send_unsignaled(RdmaWrite::new(pool.take().ok_or("no buffer")?, at))?;
    /// qp.post_send(RdmaWrite::new(pool.take().ok_or("no buffer")?, at))?; // signaled
    ///
    /// let mut home = Vec::new();
    /// while home.is_empty() {
    ///     for completion in cq.poll()? {
    ///         let done: Completed<'_, Buf> = qp.complete(completion).map_err(|_| "of another queue pair")?;
    ///         done.status?;
    ///         let released: Released<'_, Buf> = done.released;
    ///         home.extend(released);
    ///     }
    /// }
    /// assert_eq!(home.len(), 2); // the completion of the second speaks for both
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The completion, if it is not of this queue pair's send queue: try the next one.
    #[inline(always)]
    pub fn complete<'cq>(
        &mut self,
        completion: Completion<'cq, P::Entry>,
    ) -> Result<Completed<'_, P::Entry>, Completion<'cq, P::Entry>> {
        let Some(count) = self.core.send.done_with(completion.wr_id()) else {
            return Err(completion);
        };
        let released = self.core.send.release(count);
        let status = completion.status();
        // A completion of a ring owns nothing.
        std::mem::forget(completion);
        Ok(Completed { status, released })
    }
}

impl<T: Transport, S: State, P: Profile> fmt::Debug for QueuePair<T, S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueuePair({} {:#08x}, {})", T::NAME, self.qp_num(), S::NAME)
    }
}
