//! The `unsafe` path: the caller chooses wr_ids and keeps the books.

#![allow(unsafe_code)] // that is what it is for

use std::fmt;
use std::ptr;

use super::QueuePair;
use super::bump::bump;
use super::list::SendSlots;
use super::recv::RecvPost;
use super::send::SendPost;
use crate::cold::out_of_line;
use crate::entry::Raw;
use crate::error::Errno;
use crate::limits::Max;
use crate::profile::Profile;
use crate::rules::{
    Addressed, CanPostRecv, CanPostSend, FenceOn, HasRecvQueue, IssuedBy, PostOn, SignaledOn,
};
use crate::state::State;
use crate::sys::data;
use crate::sys::types::{ibv_recv_wr, ibv_send_wr};
use crate::transport::Transport;
use crate::wr::chain::{Link, index_of};
use crate::wr::slot::{RecvSlot, SendSlot};
use crate::wr::{Address, Data, Fits, Recv, WorkRequest};

/// The device refused a post of the `unsafe` path (the return value and `bad_wr` of ibv_post_send(3)).
///
/// ```
/// # use proverbs::*;
/// let error = RawPostError { errno: 12, bad_wr: Some(2) };
/// assert!(error.to_string().starts_with("post: work request 2: ENOMEM"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPostError {
    /// The errno.
    pub errno: i32,
    /// The index of C's `bad_wr`: those before it were accepted. `None` if the device did not say; then
    /// all of them may have been (R8.20).
    pub bad_wr: Option<usize>,
}

impl fmt::Display for RawPostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bad_wr {
            Some(index) => write!(f, "post: work request {index}: {}", Errno(self.errno)),
            None => write!(f, "post: {} (no bad_wr)", Errno(self.errno)),
        }
    }
}

impl std::error::Error for RawPostError {}

impl<T: Transport, S: State, P: Profile<Entry = Raw>> QueuePair<T, S, P> {
    /// Posts one send work request and keeps no books (`ibv_post_send`). On a queue pair with selective
    /// signaling it is signaled only if it says so.
    ///
    /// # Safety
    /// Until the completion of this work request (or of a later signaled one of this queue pair), or until
    /// the queue pair was destroyed or reset:
    /// - the regions that its data names stay registered (R6.10), and nobody writes to the bytes that a
    ///   SEND or WRITE sends, or touches those that a READ or atomic fills (R11.1, R11.2);
    /// - an address handle that it names is this queue pair's, and is not removed from it.
    ///
    /// Nothing compares lengths here: what becomes of a message longer than the port's `max_msg_sz`, or on UD
    /// than its active MTU, is the device's affair, from an error completion to silence (R3.5, R3.6).
    ///
    /// The pieces of an inline work request are together at most the inline capacity: some providers sum
    /// their lengths in 32 bits, and copy past their ring if the sum wraps (R2.8). Its bytes are free when
    /// this returns. If the error has no `bad_wr`, all this
    /// holds as if the post had succeeded. The caller sees to it that no completion queue overruns (R9.9).
    ///
    /// # Errors
    /// [`RawPostError`] with the device's errno: ENOMEM if the queue is full, which nothing here counts (R9.6).
    #[inline(always)]
    pub unsafe fn post_send_unchecked<O, D, A, F, G>(
        &mut self,
        wr: WorkRequest<O, D, A, F, G>,
    ) -> Result<(), RawPostError>
    where
        S: CanPostSend,
        O: PostOn<T> + IssuedBy<P::Initiator>,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        G: SignaledOn<P::Signaling>,
        D: Data<Raw> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        let mut post = SendPost::<T, P>::new(&mut self.core);
        let mut slot = SendSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        unsafe { post.put(0, wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot; the rest is the caller's contract.
        unsafe { post.post_raw([], at.cast(), at.cast()) }
    }

    /// Posts a list of `n` work requests, which `wr` gives by their place and `slots` have room for, and keeps no books
    /// (`ibv_post_send`). A list of none is Ok and posts nothing (R9.5).
    ///
    /// # Safety
    /// As for [`post_send_unchecked`](Self::post_send_unchecked), for each of them; of a list that the device refuses, those
    /// before `bad_wr` are posted.
    ///
    /// # Errors
    /// As for `post_send_unchecked`; ENOMEM and a `bad_wr` of 0 also if there are more than slots: none is posted then.
    ///
    /// ```
    /// # use proverbs::*;
    /// profile! { Unchecked { entry: Raw } }
    ///
    /// # let proverbs::guide::Ends { pd, context, .. } = proverbs::guide::ends()?;
    /// # let (gid, psn) = (context.query_gid(1, 1)?, Psn::try_from(0)?);
    /// let region = pd.register::<RemoteWrite>(4096)?;
    /// let mut cq: CompletionQueue<Raw> = context.create_cq(32)?;
    /// let qp = pd.create_qp::<Rc, Unchecked>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    /// # let myself = Qpn::try_from(qp.qp_num())?;
    /// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    /// # let qp = qp.modify(RcRtr::new(AddressVector::roce(1, gid, 1), myself, psn))?;
    /// let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?; // connected to itself
    /// region.write_at(0, b"abcd")?;
    /// let pieces = [Piece::new(&region, 0..1)?, Piece::new(&region, 1..3)?, Piece::new(&region, 3..4)?];
    /// let to = region.remote().slice(2048, 4)?;
    /// let mut slots = SendSlots::<8>::new();
    /// // SAFETY: the region outlives the queue pair, nobody else touches it before they completed, and `cq` has room.
    /// unsafe {
    ///     qp.post_send_list_unchecked(&mut slots, 3, |i| {
    ///         RdmaWrite::new(Sge::new(i as u64, [pieces[i]]), to.write())
    ///     })?;
    /// }
    /// let mut done = Vec::new();
    /// while done.len() < 3 {
    ///     cq.poll()?.for_each(|completion| done.push(completion.raw_wr_id()));
    /// }
    /// assert_eq!(done, [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub unsafe fn post_send_list_unchecked<O, D, A, F, G, const N: usize, const SGES: usize>(
        &mut self,
        slots: &mut SendSlots<N, SGES>,
        n: usize,
        mut wr: impl FnMut(usize) -> WorkRequest<O, D, A, F, G>,
    ) -> Result<(), RawPostError>
    where
        S: CanPostSend,
        O: PostOn<T> + IssuedBy<P::Initiator>,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        G: SignaledOn<P::Signaling>,
        D: Data<Raw> + Fits<P::MaxSendSge, P::MaxInline> + Fits<Max<SGES>, P::MaxInline>,
    {
        if n > N {
            return Err(RawPostError { errno: libc::ENOMEM, bad_wr: Some(0) });
        }
        if n == 0 {
            return Ok(());
        }
        let first = slots.first();
        let mut end = first;
        let mut post = SendPost::<T, P>::new(&mut self.core);
        for i in 0..n {
            let wr = wr(i);
            // SAFETY: a slot is left.
            let (at, next) = unsafe { bump(end) };
            // SAFETY: it is the caller's until the post, and has room for the elements of `D` (`Fits`).
            unsafe { post.put(0, wr, at.cast(), ptr::null_mut()) };
            // SAFETY: as above.
            unsafe { (*at.cast::<ibv_send_wr>()).next = next.cast() };
            end = next;
        }
        // SAFETY: one past a slot that was emitted.
        let last = unsafe { end.sub(1) };
        // SAFETY: the slots before were emitted and linked; the rest is the caller's contract.
        unsafe { post.post_raw([], first.cast(), last.cast()) }
    }

    /// Posts one receive work request and keeps no books (`ibv_post_recv`).
    ///
    /// # Safety
    /// Until the completion of this work request, or until the queue pair was destroyed or reset, the regions
    /// that its data names stay registered, and nobody touches the bytes (R11.2). If the error has no
    /// `bad_wr`, this holds as if the post had succeeded. The caller sees to it that no completion queue
    /// overruns (R9.9).
    ///
    /// # Errors
    /// [`RawPostError`] with the device's errno: ENOMEM if the queue is full, which nothing here counts (R9.6).
    ///
    /// ```
    /// # use proverbs::*;
    /// profile! { Unchecked { entry: Raw } }
    ///
    /// # let proverbs::guide::Ends { pd, context, .. } = proverbs::guide::ends()?;
    /// # let (gid, psn) = (context.query_gid(1, 1)?, Psn::try_from(0)?);
    /// let region = pd.register::<LocalWrite>(4096)?;
    /// let mut cq: CompletionQueue<Raw> = context.create_cq(32)?;
    /// let qp = pd.create_qp::<Rc, Unchecked>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    /// # let myself = Qpn::try_from(qp.qp_num())?;
    /// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    /// # let qp = qp.modify(RcRtr::new(AddressVector::roce(1, gid, 1), myself, psn))?;
    /// let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?; // connected to itself
    /// region.write_at(0, b"hello")?;
    /// let (from, into) = (Piece::new(&region, 0..5)?, Piece::new(&region, 2048..4096)?);
    /// // SAFETY: the region outlives the queue pair, nobody else touches the two pieces of it before they completed,
    /// // and `cq` has room for both.
    /// unsafe {
    ///     qp.post_recv_unchecked(Recv::new(Sge::new(1, [into])))?;
    ///     qp.post_send_unchecked(Send::new(Sge::new(2, [from])))?;
    /// }
    /// let mut done = Vec::new();
    /// while done.len() < 2 {
    ///     for completion in cq.poll()? {
    ///         completion.status()?;
    ///         done.push((completion.raw_wr_id(), completion.byte_len()));
    ///     }
    /// }
    /// assert!(done.contains(&(1, Some(5))));
    /// let mut arrived = [0; 5];
    /// region.read_at(2048, &mut arrived)?;
    /// assert_eq!(&arrived, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub unsafe fn post_recv_unchecked<D>(&mut self, wr: Recv<D>) -> Result<(), RawPostError>
    where
        S: CanPostRecv,
        P::Receive: HasRecvQueue,
        D: Data<Raw> + Fits<P::MaxRecvSge, P::MaxInline>,
    {
        let mut post = RecvPost::<T, P>::new(&mut self.core);
        let mut slot = RecvSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        unsafe { post.put(wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot; the rest is the caller's contract.
        unsafe { post.post_raw([], at.cast(), at.cast()) }
    }
}

impl<T: Transport, P: Profile<Entry = Raw>> SendPost<'_, T, P> {
    /// Posts the list `first..=last`.
    ///
    /// # Safety
    /// The list was emitted by `emit`, in order; the rest as for `post_send_unchecked`.
    ///
    /// # Errors
    /// As for `post_send_unchecked`.
    #[inline(always)]
    pub unsafe fn post_raw<const N: usize>(
        self,
        _: [Option<Raw>; N],
        first: *mut ibv_send_wr,
        last: *mut ibv_send_wr,
    ) -> Result<(), RawPostError> {
        // SAFETY: `last` was emitted.
        unsafe { (*last).next = ptr::null_mut() };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive and the list valid; the buffers are the caller's contract.
        match unsafe { data::post_send(self.core.qp, first, &mut bad) } {
            0 => Ok(()),
            // SAFETY: a valid list.
            errno => Err(out_of_line(|out| unsafe { raw_error(first, bad, errno, out) })),
        }
    }
}

impl<T: Transport, P: Profile<Entry = Raw>> RecvPost<'_, T, P> {
    /// Posts the list `first..=last`.
    ///
    /// # Safety
    /// The list was emitted by `emit`, in order; the rest as for `post_recv_unchecked`.
    ///
    /// # Errors
    /// As for `post_recv_unchecked`.
    #[inline(always)]
    pub unsafe fn post_raw<const N: usize>(
        self,
        _: [Option<Raw>; N],
        first: *mut ibv_recv_wr,
        last: *mut ibv_recv_wr,
    ) -> Result<(), RawPostError> {
        // SAFETY: `last` was emitted.
        unsafe { (*last).next = ptr::null_mut() };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive and the list valid; the buffers are the caller's contract.
        match unsafe { data::post_recv(self.core.qp, first, &mut bad) } {
            0 => Ok(()),
            // SAFETY: a valid list.
            errno => Err(out_of_line(|out| unsafe { raw_error(first, bad, errno, out) })),
        }
    }
}

/// # Safety
/// `first` is a valid list, `out` writable.
#[cold]
#[inline(never)]
unsafe extern "C" fn raw_error<W: Link>(
    first: *mut W,
    bad: *mut W,
    errno: i32,
    out: *mut RawPostError,
) {
    // SAFETY: the caller's contract.
    let bad_wr = unsafe { index_of(first, bad) }.map(|index| index as usize);
    // SAFETY: as above.
    unsafe { out.write(RawPostError { errno, bad_wr }) };
}
