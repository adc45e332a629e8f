//! The three kinds of queues that work requests are posted to, and what a post needs to know about
//! each.

#![allow(unsafe_code)] // reads the counters, and lists that were emitted

use std::marker::PhantomData;
use std::ptr;

use crate::completion::attachments::AtEnd;
use crate::counters::queue_counters::SEND;
use crate::in_flight::credits::Credits;
use crate::in_flight::uncounted::Uncounted;
use crate::in_flight::{InFlight, SendMode, Until};
use crate::memory::entry::Entry;
use crate::profile::{Posting, Profile};
use crate::sys::ah_table::AhKeys;
use crate::sys::data::{Link, PostRecv, PostSrqRecv, Verb, bytes_of, is_rdma};
use crate::sys::device::is_iwarp;
use crate::sys::types::{ibv_qp, ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_srq};
use crate::terms::post_error::PostErrorKind;
use crate::work::chain::trim;
use crate::work::flags::SendFlags;
use crate::work::limits::{Limit, Max};
use crate::work::opcode;

/// A send queue, a receive queue, or a shared receive queue.
#[doc(hidden)]
#[repr(C)] // the fields that each post accesses come first, on one cache line
pub struct Queue<Q: Kind> {
    // Invariants:
    // - `object` is alive while something is posted.
    pub(crate) object: *mut Q::Object,
    pub(crate) in_flight: Q::InFlight,
    /// State that only queues of this kind have.
    pub(crate) own: Q::Own,
}

impl<Q: Kind> Queue<Q> {
    pub(crate) fn new(object: *mut Q::Object, in_flight: Q::InFlight) -> Self {
        Queue { object, in_flight, own: Q::Own::default() }
    }
}

/// The kind of a queue.
#[doc(hidden)]
pub trait Kind: Sized {
    type Entry: Entry;
    /// The C work request.
    type Wr: Link;
    type InFlight: InFlight<Self::Entry>;
    /// State that only queues of this kind have.
    type Own: Default;
    /// The C object that is posted to.
    type Object;
    type Verb: Verb<Object = Self::Object, Wr = Self::Wr>;

    const VERB: &'static str = Self::Verb::NAME;
    /// The maximum number of scatter/gather elements of a work request, and of inline bytes of a
    /// send.
    type MaxSge: Limit;
    type MaxInline: Limit;
    const MAX_SGE: u32 = Self::MaxSge::VALUE;
    const MAX_INLINE: u32 = Self::MaxInline::VALUE;
    const RECEIVES: bool = true;
    /// Whether each work request must have a buffer.
    const NEEDS_BUFFERS: bool = false;
    /// Whether posts are counted for monitoring.
    const COUNTED: bool = false;

    /// The address handles that its work requests can name; null for receives.
    fn ahs(_queue: &Queue<Self>) -> *const AhKeys {
        ptr::null()
    }

    /// The number of the queue pair; `None` for a shared receive queue.
    ///
    /// # Safety
    /// The object is alive.
    #[cfg(feature = "tracing")]
    unsafe fn qp_num(_object: *mut Self::Object) -> Option<u32> {
        None
    }

    /// The slab of the only pool whose buffers are accepted; 0 if any are.
    fn slab(_queue: &Queue<Self>) -> usize {
        0
    }

    /// Removes empty elements. Returns an error if the message of a work request is too long, for
    /// the port (if its buffers are mismatched) or for its remote slice or its buffers. Receives do
    /// not have a message yet.
    ///
    /// # Safety
    /// The queue's object is alive, and `wr` is emitted.
    unsafe fn measure(
        queue: &Queue<Self>,
        wr: *mut Self::Wr,
        is_mismatch: bool,
    ) -> Option<PostErrorKind>;

    /// The length of an inline payload in bytes; 0 if the data is in buffers.
    ///
    /// # Safety
    /// `wr` is emitted.
    unsafe fn inline_bytes(_wr: *mut Self::Wr) -> u64 {
        0
    }

    /// The lengths in bytes of the messages of a list, at the indices `SENT` and `READ`. They are 0
    /// for receives, whose messages have not arrived yet.
    ///
    /// # Safety
    /// `first` is a list of emitted work requests.
    unsafe fn bytes(_first: *mut Self::Wr) -> [u64; 2] {
        [0; 2]
    }

    /// The meaning of an errno with which the device rejected a work request.
    ///
    /// # Safety
    /// The queue's object is alive, and `wr` is emitted.
    unsafe fn meaning(_: &Queue<Self>, _wr: *mut Self::Wr, errno: i32) -> PostErrorKind {
        PostErrorKind::Refused { errno }
    }
}

/// The send queue of a queue pair.
pub(crate) type SendQueue<P> = Queue<Sends<P>>;
/// The receive queue of a queue pair.
pub(crate) type RecvQueue<P> = Queue<Receives<P>>;
/// A shared receive queue with entries `E`, and at most `M` elements in a receive.
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
    const COUNTED: bool = P::COUNTED;

    #[inline(always)]
    fn ahs(queue: &SendQueue<P>) -> *const AhKeys {
        &raw const queue.own
    }

    #[cfg(feature = "tracing")]
    unsafe fn qp_num(object: *mut ibv_qp) -> Option<u32> {
        // SAFETY: the queue pair is alive, by the contract.
        Some(unsafe { (*object).qp_num })
    }

    unsafe fn measure(
        queue: &SendQueue<P>,
        wr: *mut ibv_send_wr,
        is_mismatch: bool,
    ) -> Option<PostErrorKind> {
        let (max, by_mtu) = queue.in_flight.state().counters.longest_message();
        // SAFETY: the work request is emitted, by the contract.
        let asked = unsafe { trim((*wr).sg_list, &mut (*wr).num_sge) };
        // SAFETY: the queue pair is alive, and the work request is emitted, by the contract.
        if is_mismatch && asked > max.into() && !unsafe { is_rdma_on_srd(queue.object, wr) } {
            return Some(match by_mtu {
                true => PostErrorKind::ExceedsMtu { asked, max },
                false => PostErrorKind::ExceedsMessage { asked, max },
            });
        }
        // SAFETY: it is emitted, and `asked` is the length of its list.
        unsafe { opcode::beyond(wr, asked) }
    }

    unsafe fn inline_bytes(wr: *mut ibv_send_wr) -> u64 {
        // SAFETY: the flags and the elements of an emitted work request are written.
        unsafe {
            match (*wr).send_flags & SendFlags::INLINE.bits() {
                0 => 0,
                _ => trim((*wr).sg_list, &mut (*wr).num_sge),
            }
        }
    }

    unsafe fn bytes(first: *mut ibv_send_wr) -> [u64; 2] {
        // SAFETY: the list is emitted, by the contract.
        unsafe { bytes_of(first) }
    }

    unsafe fn meaning(queue: &SendQueue<P>, wr: *mut ibv_send_wr, errno: i32) -> PostErrorKind {
        let is_siw = queue.in_flight.state().counters.is_siw();
        // SAFETY: the queue pair and its context are alive, and the work request is emitted, by the
        // contract.
        let why = unsafe {
            let may_say = errno == libc::EINVAL && is_iwarp((*queue.object).context);
            may_say.then(|| opcode::why_not_on_iwarp(wr, is_siw)).flatten()
        };
        why.unwrap_or(PostErrorKind::Refused { errno })
    }
}

/// Whether the port's longest message does not limit a work request: the device reports another
/// limit for RDMA on SRD.
///
/// # Safety
/// The queue pair is alive, and the work request is emitted.
#[cold]
unsafe fn is_rdma_on_srd(qp: *mut ibv_qp, wr: *mut ibv_send_wr) -> bool {
    // SAFETY: the queue pair is alive, and its type was written at creation. The work request is
    // emitted, so its opcode is written (the contract).
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
    const COUNTED: bool = P::COUNTED;

    unsafe fn measure(_: &Queue<Self>, wr: *mut ibv_recv_wr, _: bool) -> Option<PostErrorKind> {
        // SAFETY: the work request is emitted, by the contract.
        unsafe { trim((*wr).sg_list, &mut (*wr).num_sge) };
        None
    }

    #[cfg(feature = "tracing")]
    unsafe fn qp_num(object: *mut ibv_qp) -> Option<u32> {
        // SAFETY: the queue pair is alive, by the contract.
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

    unsafe fn measure(_: &Queue<Self>, wr: *mut ibv_recv_wr, _: bool) -> Option<PostErrorKind> {
        // SAFETY: the work request is emitted, by the contract.
        unsafe { trim((*wr).sg_list, &mut (*wr).num_sge) };
        None
    }

    fn slab(queue: &SharedQueue<E, M>) -> usize {
        queue.own.0
    }
}

/// The slab address of a shared receive queue's pool.
#[doc(hidden)]
#[derive(Default)]
pub struct SlabAddress(pub(crate) usize);

impl<P: Profile> SendQueue<P> {
    /// Called when the limit of messages becomes known or changes.
    pub(crate) fn look_anew(&mut self) {
        let state = self.in_flight.state_mut();
        state.mismatch = state.counters.mismatch(SEND);
    }

    /// Returns the entries that the in-flight table stores, when the queue is gone or reset.
    #[inline]
    pub(crate) fn release_all(&mut self) -> Vec<P::Entry> {
        self.in_flight.release(Until::End).map(Iterator::collect).unwrap_or_default()
    }

    /// The number of posted work requests whose entry is in the wr_id, so that the counters count
    /// their completions.
    pub(crate) fn posted_as_wr_ids(&self) -> u32 {
        if SendInFlight::<P>::MARKED { self.in_flight.posted() } else { 0 }
    }

    /// The numbers of outstanding work requests when a queue pair was destroyed or reset: in this
    /// queue, and in the queue pair's own receive queue (`receives`).
    pub(crate) fn at_end(&self, receives: u32) -> AtEnd {
        if !P::Entry::OWNED {
            return AtEnd::UNKNOWN;
        }
        let is_ring = !SendInFlight::<P>::MARKED && self.in_flight.posted() != 0;
        AtEnd { left: [self.in_flight.outstanding(), receives], may_be_stale: is_ring }
    }

    /// Like `at_end`, for a queue pair that is destroyed. Completions from before a reset may still
    /// occupy entries in a completion queue.
    pub(crate) fn at_last(&mut self, receives: u32) -> AtEnd {
        let mut at_end = self.at_end(receives);
        at_end.left[SEND] = at_end.left[SEND].saturating_add(self.in_flight.stale_credits());
        at_end
    }

    /// The flags for the last of `n` work requests: signaled if the queue would otherwise be full
    /// of unsignaled ones (R9.8).
    #[inline(always)]
    pub(crate) fn signal_if_full(&mut self, n: u32) -> u32 {
        let has_more = self.in_flight.has_room(n + 1);
        if has_more { 0 } else { ibv_send_flags::IBV_SEND_SIGNALED.0 }
    }
}
