//! Diagnostics for methods that deliberately do not exist.
//!
//! Each is an uncallable method: it requires [`Allows`] by the rule of a trait that no type
//! implements, so rustc prints our message at the call instead of "no method found". The impl for
//! `Infallible` keeps rustc from treating the trait as empty.

use std::convert::Infallible;
use std::fmt;
use std::ops::{Index, IndexMut};

use crate::allows::call::Inline;
use crate::allows::{Allows, Seal, call};
use crate::completion::{Completion, CompletionQueue, Completions, Outcome};
use crate::memory::{
    Access, Buf, Entry, MemoryRegion, OnDemandRegion, OpenBuf, Owned, RemoteCell, RemoteSpan,
    ToRead,
};
use crate::post::chain::{Begun, RecvPost, SendPost, SrqPost};
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::rules::SharesReceives;
use crate::srq::SharedReceiveQueue;
use crate::terms::error::Error;
use crate::terms::state::{Rts, State};
use crate::terms::threads::Threads;
use crate::terms::transport::{Rc, Transport};
use crate::work::inline::Empty;
use crate::work::limits::{Limit, Max};
use crate::work::opcode::{CmpAndSwp, CompareSwap, FetchAndAdd, RdmaRead};
use crate::work::request::WorkRequest;

/// The bound of a piece of a region on demand: no type implements it
/// ([R20.2](crate::guide::rules#r20-2)).
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// # use proverbs::memory::OnDemandRegion;
/// fn post(region: &OnDemandRegion<RemoteRead>) {
///     let _ = region.piece(0, 64); // no piece of a region on demand can be posted
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "no piece of a region on demand can be posted",
    label = "whether a queue pair can use memory on demand depends on its transport and the opcode",
    note = "peers reach the region by `remote`, and `read_at` and `write_at` copy; what is posted here is in a pool or a `MemoryRegion`"
)]
pub trait PieceOnDemand<O> {}

#[diagnostic::do_not_recommend]
impl<O> PieceOnDemand<O> for Infallible {}

impl<O> Allows<call::PieceOnDemand> for O
where
    call::PieceOnDemand: PieceOnDemand<O>,
{
    const SEAL: Seal = Seal;
}

impl<A: Access, M> OnDemandRegion<A, M> {
    #[doc(hidden)]
    pub fn piece<O>(&self, _: O, _: usize) -> OpenBuf
    where
        O: Allows<call::PieceOnDemand>,
    {
        unreachable!()
    }
}

// Written out instead of made by a macro, because errors show the definition.
/// The result type of a method that cannot be called.
type Void<O> = WorkRequest<O, Empty>;

impl RdmaRead {
    #[doc(hidden)]
    pub fn inline(_: impl Allows<Inline<Self>>, _: RemoteSpan<ToRead>) -> Void<Self> {
        unreachable!()
    }

    #[doc(hidden)]
    pub fn inline_slice(_: impl Allows<Inline<Self>>, _: RemoteSpan<ToRead>) -> Void<Self> {
        unreachable!()
    }

    #[doc(hidden)]
    pub fn inline_list<const N: usize>(_: [&[u8]; N], _: RemoteSpan<ToRead>) -> Void<Self>
    where
        for<'a> [&'a [u8]; N]: Allows<Inline<Self>>,
    {
        unreachable!()
    }
}

impl CmpAndSwp {
    #[doc(hidden)]
    pub fn inline(_: impl Allows<Inline<Self>>, _: RemoteCell, _: CompareSwap) -> Void<Self> {
        unreachable!()
    }

    #[doc(hidden)]
    pub fn inline_slice(_: impl Allows<Inline<Self>>, _: RemoteCell, _: CompareSwap) -> Void<Self> {
        unreachable!()
    }

    #[doc(hidden)]
    pub fn inline_list<const N: usize>(_: [&[u8]; N], _: RemoteCell, _: CompareSwap) -> Void<Self>
    where
        for<'a> [&'a [u8]; N]: Allows<Inline<Self>>,
    {
        unreachable!()
    }
}

impl FetchAndAdd {
    #[doc(hidden)]
    pub fn inline(_: impl Allows<Inline<Self>>, _: RemoteCell, _: u64) -> Void<Self> {
        unreachable!()
    }

    #[doc(hidden)]
    pub fn inline_slice(_: impl Allows<Inline<Self>>, _: RemoteCell, _: u64) -> Void<Self> {
        unreachable!()
    }

    #[doc(hidden)]
    pub fn inline_list<const N: usize>(_: [&[u8]; N], _: RemoteCell, _: u64) -> Void<Self>
    where
        for<'a> [&'a [u8]; N]: Allows<Inline<Self>>,
    {
        unreachable!()
    }
}

/// The bound of `post_send!` on other objects than queue pairs
/// ([R8.19](crate::guide::rules#r8-19)).
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut cq, .. } = proverbs::loopback::pair().unwrap();
/// post_send!(cq, [wr::Send::inline(b"hello")]); // a completion queue
/// ```
#[diagnostic::on_unimplemented(
    message = "`post_send!` posts to a queue pair, not to a `{Q}`",
    label = "not a queue pair",
    note = "name the queue pair first: `post_send!(qp, [first, second, ..])`"
)]
pub trait PostsSends<Q> {}

/// The bound of `post_recv!` on other objects than queue pairs ([R7.2](crate::guide::rules#r7-2),
/// [R7.1](crate::guide::rules#r7-1)).
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut cq, .. } = proverbs::loopback::pair().unwrap();
/// post_recv!(cq, [wr::Recv::empty()]); // a completion queue
/// ```
#[diagnostic::on_unimplemented(
    message = "`post_recv!` posts to a queue pair, not to a `{Q}`",
    label = "not a queue pair",
    note = "a shared receive queue takes its receives by `post_srq_recv!`, a queue pair by `post_recv!`"
)]
pub trait PostsReceives<Q> {}

/// The bound of `post_srq_recv!` on other objects than shared receive queues
/// ([R7.1](crate::guide::rules#r7-1), [R7.2](crate::guide::rules#r7-2)).
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut b, pool, .. } = proverbs::loopback::pair().unwrap();
/// // A queue pair, which has a receive queue of its own.
/// post_srq_recv!(b, [wr::Recv::new(pool.take().unwrap())]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`post_srq_recv!` posts to a shared receive queue, not to a `{Q}`",
    label = "not a shared receive queue",
    note = "a queue pair takes its receives by `post_recv!`, a shared receive queue by `post_srq_recv!`"
)]
pub trait PostsSharedReceives<Q> {}

#[diagnostic::do_not_recommend]
impl<Q> PostsSends<Q> for Infallible {}

impl<Q> Allows<call::PostSendMacro> for Q
where
    call::PostSendMacro: PostsSends<Q>,
{
    const SEAL: Seal = Seal;
}

#[diagnostic::do_not_recommend]
impl<Q> PostsReceives<Q> for Infallible {}

impl<Q> Allows<call::PostRecvMacro> for Q
where
    call::PostRecvMacro: PostsReceives<Q>,
{
    const SEAL: Seal = Seal;
}

#[diagnostic::do_not_recommend]
impl<Q> PostsSharedReceives<Q> for Infallible {}

impl<Q> Allows<call::PostSrqRecvMacro> for Q
where
    call::PostSrqRecvMacro: PostsSharedReceives<Q>,
{
    const SEAL: Seal = Seal;
}

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    #[doc(hidden)]
    pub fn begin_send(&mut self) -> Begun<SendPost<'_, Rc, DefaultProfile>>
    where
        Self: Allows<call::PostSendMacro>,
    {
        unreachable!()
    }

    #[doc(hidden)]
    pub fn begin_recv(&mut self) -> Begun<RecvPost<'_, Rc, DefaultProfile>>
    where
        Self: Allows<call::PostRecvMacro>,
    {
        unreachable!()
    }

    #[doc(hidden)]
    pub fn begin_srq(&mut self) -> Begun<SrqPost<'_, Rc, Buf, Max<1>>>
    where
        Self: Allows<call::PostSrqRecvMacro>,
    {
        unreachable!()
    }
}

impl<T: SharesReceives, E: Owned, M: Limit, L: Threads> SharedReceiveQueue<T, E, M, L> {
    #[doc(hidden)]
    pub fn begin_send(&mut self) -> Begun<SendPost<'_, Rc, DefaultProfile>>
    where
        Self: Allows<call::PostSendMacro>,
    {
        unreachable!()
    }

    #[doc(hidden)]
    pub fn begin_recv(&mut self) -> Begun<SrqPost<'_, T, E, M>>
    where
        Self: Allows<call::PostRecvMacro>,
    {
        unreachable!()
    }
}

impl<T: Transport, S: State, P: Profile<Entry: Owned>> QueuePair<T, S, P> {
    #[doc(hidden)]
    pub fn begin_srq(&mut self) -> Begun<SrqPost<'_, Rc, P::Entry, P::MaxRecvSge>>
    where
        Self: Allows<call::PostSrqRecvMacro>,
    {
        unreachable!()
    }
}

/// The bound of the outcome of a whole poll: no type implements it
/// ([R10.7](crate::guide::rules#r10-7)).
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut cq, .. } = proverbs::loopback::pair().unwrap();
/// for completion in cq.poll() {
///     completion.outcome(); // a `Result` has one item: all that was polled
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a poll returns several completions, and an outcome is that of one",
    label = "these are all completions of a poll",
    note = "handle the error of the poll first, and then each completion: `for completion in cq.poll()? {{ .. }}`"
)]
pub trait OutcomeOfOne<Q> {}

#[diagnostic::do_not_recommend]
impl<Q> OutcomeOfOne<Q> for Infallible {}

impl<Q> Allows<call::OutcomeOfPoll> for Q
where
    call::OutcomeOfPoll: OutcomeOfOne<Q>,
{
    const SEAL: Seal = Seal;
}

impl<'cq, E: Entry> Completions<'cq, E> {
    #[doc(hidden)]
    pub fn outcome(self) -> Outcome<'cq, E>
    where
        Self: Allows<call::OutcomeOfPoll>,
    {
        unreachable!()
    }
}

/// The bound of draining a queue pair in RTS ([R10.14](crate::guide::rules#r10-14)).
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, mut cq, .. } = proverbs::loopback::pair().unwrap();
/// a.drain(&mut cq, |_| ()).unwrap(); // what is posted goes on: there would be no end
/// ```
#[diagnostic::on_unimplemented(
    message = "a queue pair in RTS cannot be drained",
    label = "in RTS nothing flushes what is outstanding",
    note = "move it to the error state first: `let mut qp = qp.to_error()?; qp.drain(&mut cq, |_| ())?`"
)]
pub trait DrainsInRts<Q> {}

#[diagnostic::do_not_recommend]
impl<Q> DrainsInRts<Q> for Infallible {}

impl<Q> Allows<call::DrainInRts> for Q
where
    call::DrainInRts: DrainsInRts<Q>,
{
    const SEAL: Seal = Seal;
}

impl<T: Transport, P: Profile<Entry: Owned>> QueuePair<T, Rts, P> {
    #[doc(hidden)]
    pub fn drain<F>(&mut self, _: &mut CompletionQueue<P::Entry>, _: F) -> Result<(), Error>
    where
        Self: Allows<call::DrainInRts>,
    {
        unreachable!()
    }
}

/// The bound of a completion as an error: no type implements it. `complete` gives a completion of
/// another queue back as its `Err`, and `?` would lose it ([R10.7](crate::guide::rules#r10-7)).
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// profile! { Stream { signaling: Selective } }
///
/// fn poll(
///     qp: &mut QueuePair<Rc, Rts, Stream>,
///     completion: Completion<'_, Buf>,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     qp.complete(completion)?;
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a completion is no error, and `?` would lose it",
    label = "`complete` gives back what is not of this send queue: `match` on `Ok(done)` and `Err(other)`",
    note = "look at it: `match qp.complete(completion) {{ Ok(done) => done.status?, Err(other) => .. }}`, and match the `outcome()` of the other, or ask the next queue pair"
)]
pub trait CompletionAsError {}

#[diagnostic::do_not_recommend]
impl CompletionAsError for Infallible {}

#[doc(hidden)]
impl<E: Entry + CompletionAsError> std::error::Error for Completion<'_, E> {}

#[doc(hidden)]
impl<E: Entry + CompletionAsError> fmt::Display for Completion<'_, E> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        unreachable!()
    }
}

/// The bound of indexing a registered region, which hands out no slices
/// ([R6.12](crate::guide::rules#r6-12)).
///
/// ```compile_fail,E0277
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair().unwrap();
/// let region = pd.register::<RemoteRead>(8).unwrap();
/// let _ = &region[..4]; // peers may read it meanwhile
/// ```
#[diagnostic::on_unimplemented(
    message = "a registered region gives out no slice of its bytes",
    label = "device and peers may touch these bytes at any time",
    note = "copy with `read_at` and `write_at`, or reach 8 bytes as an atomic with `cell`; a `Buf` of a pool reads and writes like a slice"
)]
pub trait SliceOfRegion {}

#[diagnostic::do_not_recommend]
impl SliceOfRegion for Infallible {}

#[doc(hidden)]
impl<A: Access, M, I: SliceOfRegion> Index<I> for MemoryRegion<A, M> {
    type Output = [u8];

    fn index(&self, _: I) -> &[u8] {
        unreachable!()
    }
}

#[doc(hidden)]
impl<A: Access, M, I: SliceOfRegion> IndexMut<I> for MemoryRegion<A, M> {
    fn index_mut(&mut self, _: I) -> &mut [u8] {
        unreachable!()
    }
}
