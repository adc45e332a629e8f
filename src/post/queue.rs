//! The three queues that work requests are posted to, and what a post needs to know of each.

#![allow(unsafe_code)] // reads the counters, and lists that were emitted

use std::marker::PhantomData;
use std::ptr;

use crate::completion::attachments::AtEnd;
use crate::counters::queue_counters::SEND;
use crate::device::ah_table::AhKeys;
use crate::in_flight::credits::Credits;
use crate::in_flight::uncounted::Uncounted;
use crate::in_flight::{InFlight, SendMode, Until};
use crate::memory::entry::Entry;
use crate::profile::{Posting, Profile};
use crate::sys::data::{Link, PostRecv, PostSrqRecv, Verb, is_rdma};
use crate::sys::device::is_iwarp;
use crate::sys::types::{ibv_qp, ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_srq};
use crate::work::chain::trim;
use crate::work::flags::SendFlags;
use crate::work::limits::{Limit, Max};
use crate::work::opcode;
use crate::work::refusal::PostErrorKind;

/// A queue: of sends, of receives, or a shared receive queue.
#[doc(hidden)]
#[repr(C)] // what each post touches, first, and so on one cache line
pub struct Queue<Q: Kind> {
    // Invariants:
    // - `object` is alive as long as something is posted.
    pub(crate) object: *mut Q::Object,
    pub(crate) in_flight: Q::InFlight,
    /// What queues of this kind alone have.
    pub(crate) own: Q::Own,
}

impl<Q: Kind> Queue<Q> {
    pub(crate) fn new(object: *mut Q::Object, in_flight: Q::InFlight) -> Self {
        Queue { object, in_flight, own: Q::Own::default() }
    }
}

/// What a queue is of.
#[doc(hidden)]
pub trait Kind: Sized {
    type Entry: Entry;
    /// C's work request.
    type Wr: Link;
    type InFlight: InFlight<Self::Entry>;
    /// What queues of this kind alone have.
    type Own: Default;
    /// What C posts to.
    type Object;
    type Verb: Verb<Object = Self::Object, Wr = Self::Wr>;

    const VERB: &'static str = Self::Verb::NAME;
    /// Most scatter/gather elements of a work request, and most inline bytes: of sends.
    type MaxSge: Limit;
    type MaxInline: Limit;
    const MAX_SGE: u32 = Self::MaxSge::VALUE;
    const MAX_INLINE: u32 = Self::MaxInline::VALUE;
    const RECEIVES: bool = true;
    /// Whether each work request must have a buffer.
    const NEEDS_BUFFERS: bool = false;

    /// The address handles that its work requests may name: null, if it is of receives.
    fn ahs(_queue: &Queue<Self>) -> *const AhKeys {
        ptr::null()
    }

    /// The number of the queue pair, if it is not a shared receive queue.
    ///
    /// # Safety
    /// The object is live.
    #[cfg(feature = "tracing")]
    unsafe fn qp_num(_object: *mut Self::Object) -> Option<u32> {
        None
    }

    /// The slab of the headers of the only pool that buffers may come from; 0 if any may.
    fn slab(_queue: &Queue<Self>) -> usize {
        0
    }

    /// Leaves out elements of no bytes, and says whether the message of a work request is too long:
    /// for the port, if its buffers are mismatched, or for what it goes to or comes from. Receives
    /// have no message yet.
    ///
    /// # Safety
    /// The queue's object is live, and `wr` is emitted.
    unsafe fn measure(
        _queue: &Queue<Self>,
        _wr: *mut Self::Wr,
        _is_mismatch: bool,
    ) -> Option<PostErrorKind> {
        None
    }

    /// The bytes of an inline payload; 0 if the data is in buffers.
    ///
    /// # Safety
    /// `wr` is emitted.
    unsafe fn inline_bytes(_wr: *mut Self::Wr) -> u64 {
        0
    }

    /// What the device's refusal of a work request means.
    ///
    /// # Safety
    /// The queue's object is live, and `wr` is emitted.
    unsafe fn meaning(_: &Queue<Self>, _wr: *mut Self::Wr, errno: i32) -> PostErrorKind {
        PostErrorKind::Refused { errno }
    }
}

/// The send queue of a queue pair.
pub(crate) type SendQueue<P> = Queue<Sends<P>>;
/// The receive queue of a queue pair.
pub(crate) type RecvQueue<P> = Queue<Receives<P>>;
/// A shared receive queue: of entries `E`, with at most `M` elements a receive.
pub(crate) type SharedQueue<E, M> = Queue<SharedReceives<E, M>>;

/// The in-flight table of a profile's sends.
pub(crate) type SendInFlight<P> =
    <<P as Profile>::Signaling as SendMode>::InFlight<<P as Profile>::Entry>;

#[doc(hidden)]
pub struct Sends<P>(PhantomData<P>);
#[doc(hidden)]
pub struct Receives<P>(PhantomData<P>);
#[doc(hidden)]
pub struct SharedReceives<E, M>(PhantomData<(E, M)>);

impl<P: Profile> Kind for Sends<P> {
    type Entry = P::Entry;
    type Wr = ibv_send_wr;
    type InFlight = SendInFlight<P>;
    type Own = AhKeys;
    type Object = ibv_qp;
    type Verb = <P::Posting as Posting>::Verb;
    type MaxSge = P::MaxSendSge;
    type MaxInline = P::MaxInline;
    const RECEIVES: bool = false;

    #[inline(always)]
    fn ahs(queue: &SendQueue<P>) -> *const AhKeys {
        &raw const queue.own
    }

    #[cfg(feature = "tracing")]
    unsafe fn qp_num(object: *mut ibv_qp) -> Option<u32> {
        // SAFETY: the queue pair is live (this function's contract).
        Some(unsafe { (*object).qp_num })
    }

    unsafe fn measure(
        queue: &SendQueue<P>,
        wr: *mut ibv_send_wr,
        is_mismatch: bool,
    ) -> Option<PostErrorKind> {
        let (max, by_mtu) = queue.in_flight.state().counters.longest_message();
        // SAFETY: the caller says that the work request is emitted.
        let asked = unsafe { trim(wr) };
        // SAFETY: the queue pair is live, and the work request is emitted (this function's
        // contract).
        if is_mismatch && asked > max.into() && !unsafe { is_rdma_on_srd(queue.object, wr) } {
            return Some(match by_mtu {
                true => PostErrorKind::ExceedsMtu { asked, max },
                false => PostErrorKind::ExceedsMessage { asked, max },
            });
        }
        // SAFETY: it is emitted, and this is what is in its list.
        unsafe { opcode::beyond(wr, asked) }
    }

    unsafe fn inline_bytes(wr: *mut ibv_send_wr) -> u64 {
        // SAFETY: an emitted work request has its flags, and its elements as `trim` reads them.
        unsafe {
            match (*wr).send_flags & SendFlags::INLINE.bits() {
                0 => 0,
                _ => trim(wr),
            }
        }
    }

    unsafe fn meaning(queue: &SendQueue<P>, wr: *mut ibv_send_wr, errno: i32) -> PostErrorKind {
        let is_siw = queue.in_flight.state().counters.is_siw();
        // SAFETY: the queue pair is live, and its context with it; the work request is emitted
        // (this function's contract).
        let why = unsafe {
            let may_say = errno == libc::EINVAL && is_iwarp((*queue.object).context);
            may_say.then(|| opcode::why_not_on_iwarp(wr, is_siw)).flatten()
        };
        why.unwrap_or(PostErrorKind::Refused { errno })
    }
}

/// Whether the port's longest message is not what limits a work request: the device has another
/// limit for RDMA on SRD, and tells it.
///
/// # Safety
/// The queue pair is live, and the work request emitted.
#[cold]
unsafe fn is_rdma_on_srd(qp: *mut ibv_qp, wr: *mut ibv_send_wr) -> bool {
    // SAFETY: the queue pair is live, and its type was written at creation. The work request is
    // emitted, so its opcode was written (this function's contract).
    let (qp_type, code) = unsafe { ((*qp).qp_type, (*wr).opcode) };
    qp_type == ibv_qp_type::IBV_QPT_DRIVER && is_rdma(code)
}

impl<P: Profile> Kind for Receives<P> {
    type Entry = P::Entry;
    type Wr = ibv_recv_wr;
    type InFlight = Credits<P::Entry>;
    type Own = ();
    type Object = ibv_qp;
    type Verb = PostRecv;
    type MaxSge = P::MaxRecvSge;
    type MaxInline = Max<0>;

    #[cfg(feature = "tracing")]
    unsafe fn qp_num(object: *mut ibv_qp) -> Option<u32> {
        // SAFETY: the queue pair is live (this function's contract).
        Some(unsafe { (*object).qp_num })
    }
}

impl<E: Entry, M: Limit> Kind for SharedReceives<E, M> {
    type Entry = E;
    type Wr = ibv_recv_wr;
    type InFlight = Uncounted<E>;
    type Own = SlabAddress;
    type Object = ibv_srq;
    type Verb = PostSrqRecv;
    type MaxSge = M;
    type MaxInline = Max<0>;
    const NEEDS_BUFFERS: bool = true;

    fn slab(queue: &SharedQueue<E, M>) -> usize {
        queue.own.0
    }
}

/// The address of the slab of the headers of a shared receive queue's pool.
#[doc(hidden)]
#[derive(Default)]
pub struct SlabAddress(pub(crate) usize);

impl<P: Profile> SendQueue<P> {
    /// The limit of messages is known, or changed.
    pub(crate) fn look_anew(&mut self) {
        let state = self.in_flight.state_mut();
        state.mismatch = state.counters.mismatch(SEND);
    }

    /// The entries that the in-flight table keeps: the queue is gone, or reset.
    #[inline]
    pub(crate) fn release_all(&mut self) -> Vec<P::Entry> {
        match self.in_flight.release(Until::End) {
            Some(released) => released.collect(),
            None => Vec::new(),
        }
    }

    /// Work requests posted whose entry is in the wr_id, so that the counters count their
    /// completions.
    pub(crate) fn posted_as_wr_ids(&self) -> u32 {
        if SendInFlight::<P>::MARKED { self.in_flight.posted() } else { 0 }
    }

    /// The outstanding work of a queue pair that was destroyed or reset: of this queue, and of
    /// `receives` on a receive queue of its own.
    pub(crate) fn at_end(&self, receives: u32) -> AtEnd {
        if !P::Entry::OWNED {
            return AtEnd::UNKNOWN;
        }
        let is_ring = !SendInFlight::<P>::MARKED && self.in_flight.posted() != 0;
        AtEnd { left: [self.in_flight.outstanding(), receives], may_be_stale: is_ring }
    }

    /// The same when the queue pair is destroyed: what completed before a reset, too, may lie in a
    /// completion queue still, whose room it takes.
    pub(crate) fn at_last(&mut self, receives: u32) -> AtEnd {
        let mut at_end = self.at_end(receives);
        at_end.left[SEND] = at_end.left[SEND].saturating_add(self.in_flight.stale_credits());
        at_end
    }

    /// What the last of `n` carries, where the queue would be full of unsignaled ones otherwise
    /// (R9.8).
    #[inline(always)]
    pub(crate) fn signal_if_full(&mut self, n: u32) -> u32 {
        let has_more = self.in_flight.has_room(n + 1);
        if has_more { 0 } else { ibv_send_flags::IBV_SEND_SIGNALED.0 }
    }
}
