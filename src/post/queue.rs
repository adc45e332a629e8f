//! The three queues that work requests are posted to, and what a post needs to know of them.

#![allow(unsafe_code)] // calls the verbs

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;

use crate::completion::inbox::AtEnd;
use crate::device::ah_table::AhTable;
use crate::ledger::credits::Credits;
use crate::ledger::uncounted::Uncounted;
use crate::ledger::{Ledger, SendMode, Until};
use crate::memory::entry::Entry;
use crate::profile::Profile;
use crate::sys::data;
use crate::sys::types::{ibv_qp, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_srq};
use crate::work::chain::{Link, trim};
use crate::work::limits::Limit;
use crate::work::opcode;
use crate::work::refusal::PostErrorKind;

/// A queue: of sends, of receives, or a shared receive queue.
#[doc(hidden)]
pub trait Queue: Sized {
    type Entry: Entry;
    /// C's work request.
    type Wr: Link;
    type Ledger: Ledger<Self::Entry>;
    /// What C posts to.
    type Object;

    const VERB: &'static str;
    /// Most scatter/gather elements of a work request, and most inline bytes.
    const MAX_SGE: u32;
    const MAX_INLINE: u32;
    const RECEIVES: bool;
    /// Whether each work request must have a buffer.
    const NEEDS_BUFFERS: bool = false;

    fn object(&self) -> *mut Self::Object;

    fn ledger(&self) -> &Self::Ledger;

    fn ledger_mut(&mut self) -> &mut Self::Ledger;

    /// The verb.
    ///
    /// # Safety
    /// The object is alive, the list is one that it may have, and `bad` is writable.
    unsafe fn verb(
        object: *mut Self::Object,
        first: *mut Self::Wr,
        bad: *mut *mut Self::Wr,
    ) -> c_int;

    /// The address handles that work requests may name, if any.
    #[inline(always)]
    fn address_handles(&self) -> *const AhTable {
        ptr::null()
    }

    /// The only pool that buffers may come from; null if any may.
    fn home(&self) -> *const () {
        ptr::null()
    }

    /// Leaves out elements of no bytes, and says whether the message of a work request is too long:
    /// for the port, if its buffers are strange, or for what it goes to or comes from. Receives
    /// have no message yet.
    ///
    /// # Safety
    /// `wr` is emitted; the books of the queue are there.
    unsafe fn measure(&self, _wr: *mut Self::Wr, _is_strange: bool) -> Option<PostErrorKind> {
        None
    }
}

/// The ledger of a profile's sends.
pub(crate) type SendLedger<P> =
    <<P as Profile>::Signaling as SendMode>::Ledger<<P as Profile>::Entry>;

/// The send queue of a queue pair.
///
/// # Invariants
/// - `qp` is alive as long as something is posted, and `ah` has its address handles.
#[doc(hidden)]
pub struct SendQueue<P: Profile> {
    pub(crate) qp: *mut ibv_qp,
    pub(crate) ledger: SendLedger<P>,
    pub(crate) ah: AhTable,
}

impl<P: Profile> SendQueue<P> {
    /// The entries that the ledger keeps: the queue is gone, or reset.
    pub(crate) fn release_all(&mut self) -> Vec<P::Entry> {
        self.ledger.release(Until::End).map_or_else(Vec::new, Iterator::collect)
    }

    /// Work requests posted whose entry is in the wr_id, so that the books count their completions.
    pub(crate) fn posted_as_wr_ids(&self) -> u32 {
        if SendLedger::<P>::MARKED { self.ledger.posted() } else { 0 }
    }

    /// The outstanding work of a queue pair that was destroyed or reset: of this queue, and of
    /// `receives` on a receive queue of its own.
    pub(crate) fn at_end(&self, receives: u32) -> AtEnd {
        if !P::Entry::OWNED {
            return AtEnd::UNKNOWN;
        }
        let is_ring = !SendLedger::<P>::MARKED && self.ledger.posted() != 0;
        AtEnd { left: [self.ledger.outstanding(), receives], may_be_stale: is_ring }
    }

    /// What the last of `n` carries, where the queue would be full of unsignaled ones otherwise
    /// (R9.8).
    #[inline(always)]
    pub(crate) fn signal_if_full(&mut self, n: u32) -> u32 {
        let has_more = self.ledger.has_room(n + 1);
        if has_more { 0 } else { ibv_send_flags::IBV_SEND_SIGNALED.0 }
    }
}

impl<P: Profile> Queue for SendQueue<P> {
    type Entry = P::Entry;
    type Wr = ibv_send_wr;
    type Ledger = SendLedger<P>;
    type Object = ibv_qp;
    const VERB: &'static str = "ibv_post_send";
    const MAX_SGE: u32 = P::MaxSendSge::VALUE;
    const MAX_INLINE: u32 = P::MaxInline::VALUE;
    const RECEIVES: bool = false;

    #[inline(always)]
    fn object(&self) -> *mut ibv_qp {
        self.qp
    }

    #[inline(always)]
    fn ledger(&self) -> &SendLedger<P> {
        &self.ledger
    }

    #[inline(always)]
    fn ledger_mut(&mut self) -> &mut SendLedger<P> {
        &mut self.ledger
    }

    #[inline(always)]
    unsafe fn verb(qp: *mut ibv_qp, first: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> c_int {
        // SAFETY: what the verb asks for is what the trait does.
        unsafe { data::post_send(qp, first, bad) }
    }

    #[inline(always)]
    fn address_handles(&self) -> *const AhTable {
        &raw const self.ah
    }

    unsafe fn measure(&self, wr: *mut ibv_send_wr, is_strange: bool) -> Option<PostErrorKind> {
        // SAFETY: the caller says that the work request is emitted, and the books are there.
        let (asked, (max, by_mtu)) =
            unsafe { (trim(wr), (*self.ledger.account().books).longest_message()) };
        if is_strange && asked > max.into() {
            return Some(match by_mtu {
                true => PostErrorKind::ExceedsMtu { asked, max },
                false => PostErrorKind::ExceedsMessage { asked, max },
            });
        }
        // SAFETY: it is emitted, and this is what is in its list.
        unsafe { opcode::beyond(wr, asked) }
    }
}

/// The receive queue of a queue pair.
///
/// # Invariants
/// - `qp` is alive as long as something is posted.
#[doc(hidden)]
pub struct RecvQueue<P: Profile> {
    pub(crate) qp: *mut ibv_qp,
    pub(crate) ledger: Credits<P::Entry>,
}

impl<P: Profile> Queue for RecvQueue<P> {
    type Entry = P::Entry;
    type Wr = ibv_recv_wr;
    type Ledger = Credits<P::Entry>;
    type Object = ibv_qp;
    const VERB: &'static str = "ibv_post_recv";
    const MAX_SGE: u32 = P::MaxRecvSge::VALUE;
    const MAX_INLINE: u32 = 0;
    const RECEIVES: bool = true;

    #[inline(always)]
    fn object(&self) -> *mut ibv_qp {
        self.qp
    }

    #[inline(always)]
    fn ledger(&self) -> &Credits<P::Entry> {
        &self.ledger
    }

    #[inline(always)]
    fn ledger_mut(&mut self) -> &mut Credits<P::Entry> {
        &mut self.ledger
    }

    #[inline(always)]
    unsafe fn verb(qp: *mut ibv_qp, first: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) -> c_int {
        // SAFETY: what the verb asks for is what the trait does.
        unsafe { data::post_recv(qp, first, bad) }
    }
}

/// A shared receive queue: of entries `E`, with at most `M` elements a receive.
///
/// # Invariants
/// - `srq` is alive as long as something is posted.
/// - `home` is the home of its pool's headers.
#[doc(hidden)]
pub struct SharedQueue<E: Entry, M: Limit> {
    pub(crate) srq: *mut ibv_srq,
    pub(crate) ledger: Uncounted<E>,
    pub(crate) home: *const (),
    pub(crate) most: PhantomData<M>,
}

impl<E: Entry, M: Limit> Queue for SharedQueue<E, M> {
    type Entry = E;
    type Wr = ibv_recv_wr;
    type Ledger = Uncounted<E>;
    type Object = ibv_srq;
    const VERB: &'static str = "ibv_post_srq_recv";
    const MAX_SGE: u32 = M::VALUE;
    const MAX_INLINE: u32 = 0;
    const RECEIVES: bool = true;
    const NEEDS_BUFFERS: bool = true;

    #[inline(always)]
    fn object(&self) -> *mut ibv_srq {
        self.srq
    }

    #[inline(always)]
    fn ledger(&self) -> &Uncounted<E> {
        &self.ledger
    }

    #[inline(always)]
    fn ledger_mut(&mut self) -> &mut Uncounted<E> {
        &mut self.ledger
    }

    #[inline(always)]
    unsafe fn verb(
        srq: *mut ibv_srq,
        first: *mut ibv_recv_wr,
        bad: *mut *mut ibv_recv_wr,
    ) -> c_int {
        // SAFETY: what the verb asks for is what the trait does.
        unsafe { data::post_srq_recv(srq, first, bad) }
    }

    fn home(&self) -> *const () {
        self.home
    }
}
