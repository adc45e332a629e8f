//! Lists of the `unsafe` path with different opcodes, flags, or numbers of elements.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::ptr;

use crate::allows::{Allows, Same, Seal, call};
use crate::memory::entry::Raw;
use crate::post::chain::SendPost;
use crate::post::next_slot::next_slot;
use crate::post::queue::Sends;
use crate::post::unchecked::RawPostError;
use crate::profile::Profile;
use crate::rules::{AllowedInList, SendOn};
use crate::sys::data::Link;
use crate::sys::types::{ibv_send_wr, ibv_sge};
use crate::terms::post_error::WorkRequests;
use crate::terms::transport::Transport;
use crate::work::data::Fits;
use crate::work::limits::Max;
use crate::work::request::{SendSlot, WorkRequest};

/// A list of sends of the `unsafe` path. Push work requests one by one, and post them with one call
/// of `ibv_post_send`. Each work request has its own opcode, flags and data.
///
/// [`raw_send_list`](crate::QueuePair::raw_send_list) creates it. With selective signaling only
/// work requests that request it are signaled. Dropping a list posts nothing.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{memory::Raw, post::RawSendList};
/// profile! { Unchecked { entry: Raw, signaling: Selective } }
///
/// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
/// # let (gid, psn) = (context.roce_v2_gid(1)?, Psn::try_from(0)?);
/// let region = pd.register::<RemoteWrite>(4096)?;
/// let mut cq: CompletionQueue<Raw> = context.create_cq(32)?;
/// let qp = pd.create_qp::<Rc, Unchecked>(&cq, &cq, Depth { send: 8, recv: 8 })?;
/// # let myself = Qpn::try_from(qp.qp_num())?;
/// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// # let qp = qp.modify(RcRtr::new(AddressVector::roce_v2(gid, gid.gid())?, myself, psn))?;
/// let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?; // connected to itself
/// let (piece, to) = (wr::Piece::new(&region, 0..4)?, region.remote().slice(2048, 4)?);
/// let mut slots = SendSlots::<4>::new();
/// // SAFETY: the region outlives the queue pair, nothing else accesses it before the completions,
/// // and `cq` has room.
/// unsafe {
///     qp.post_recv_unchecked(wr::Recv::new(wr::Sge::new(9, [])))?;
///     let mut list: RawSendList<'_, Rc, Unchecked, 1> = qp.raw_send_list(&mut slots);
///     for i in 0..3 {
///         list.push(wr::RdmaWrite::new(wr::Sge::new(i, [piece]), to.write()))?;
///     }
///     list.push(wr::RdmaWriteWithImm::new(wr::Sge::new(3, [piece]), to.write(), 7).signaled())?;
///     assert_eq!(list.len(), 4);
///     list.post()?;
/// }
/// let mut done = Vec::new();
/// while done.len() < 2 {
///     cq.poll()?.for_each(|completion| done.push(completion.raw_wr_id()));
/// }
/// done.sort();
/// assert_eq!(done, [3, 9]); // the last WRITE, and the receive
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_post_send", "ibv_send_wr"))]
#[must_use = "a list does nothing until it is posted"]
pub struct RawSendList<'d, T: Transport, P: Profile<Entry = Raw>, const G: usize> {
    // Invariants:
    // - The `count` slots from `first` to `at` are emitted, and each is linked to the next. There
    //   are `most` slots.
    // - Everything that the work requests borrow outlives `'d`.
    post: SendPost<'d, T, P>,
    first: *mut SendSlot<[ibv_sge; G]>,
    at: *mut SendSlot<[ibv_sge; G]>,
    count: usize,
    most: usize,
    _borrows: PhantomData<fn(&'d ()) -> &'d ()>,
}

impl<'d, T: Transport, P: Profile<Entry = Raw>, const G: usize> RawSendList<'d, T, P, G> {
    #[inline(always)]
    pub(crate) fn new(
        post: SendPost<'d, T, P>,
        first: *mut SendSlot<[ibv_sge; G]>,
        most: usize,
    ) -> Self {
        RawSendList { post, first, at: first, count: 0, most, _borrows: PhantomData }
    }

    /// Adds a work request. Its borrows last until the list is posted.
    ///
    /// # Errors
    /// [`RawPostError`] with ENOMEM and the index if all slots are used. The list is unchanged.
    #[inline(always)]
    pub fn push<W>(&mut self, wr: W) -> Result<(), RawPostError>
    where
        W: SendOn<T, P> + 'd,
        Self: Allows<call::PushUnchecked<W>>,
    {
        if self.count == self.most {
            return Err(RawPostError::no_slot::<Sends<P>>(self.count));
        }
        // SAFETY: a slot is left, with enough room (`Fits`), and does not move: the list borrows
        // the array until it is posted. The bounds are the rules. The contract of `post` covers an
        // address handle of the work request, and nothing reads it before.
        unsafe {
            let (at, next) = next_slot(self.at);
            let _ = self.post.put(0, wr, at, ptr::null_mut());
            (*Link::head(at.cast::<ibv_send_wr>())).next = next.cast();
            self.at = next;
        }
        self.count += 1;
        Ok(())
    }

    /// The number of work requests in the list.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Posts the list without bookkeeping (`ibv_post_send`). An empty list returns `Ok` and posts
    /// nothing ([R9.5](crate::guide::rules#r9-5)).
    ///
    /// # Safety
    /// As for [`post_send_unchecked`](crate::QueuePair::post_send_unchecked), for each work
    /// request. If the device rejects a list, the work requests before `bad_wr` are posted.
    ///
    /// # Errors
    /// As for `post_send_unchecked`.
    #[inline(always)]
    pub unsafe fn post(self) -> Result<(), RawPostError> {
        if self.count == 0 {
            return Ok(());
        }
        // SAFETY: the slots are linked, in order, and `at` is one past the last (invariant). The
        // rest is the contract of this function.
        unsafe { self.post.post_raw([], self.first.cast(), self.at.sub(1).cast()) }
    }
}

impl_debug!([T: Transport, P: Profile<Entry = Raw>, const G: usize] RawSendList<'_, T, P, G>, |it|
    "RawSendList({})", WorkRequests(it.count as u32));

impl<'d, T, P, O, D, A, F, S, const G: usize, Object>
    Allows<call::PushUnchecked<WorkRequest<O, D, A, F, S>>> for Object
where
    T: Transport,
    P: Profile<Entry = Raw>,
    O: AllowedInList<T>,
    D: Fits<Max<G>, P::MaxInline>,
    Object: Same<This = RawSendList<'d, T, P, G>>,
{
    const SEAL: Seal = Seal;
}
