//! What may be posted where, and every transition: all that is legal is accepted, all else refused.
//!
//! Made from rules/table.toml by `cargo xtask rules --write`: change it there.
//!
//! The compiler checks all of it. `Posts` has the bounds of `QueuePair::post_send`; that they are enough is
//! checked by `accepted`, and that the method has them all by the ui-tests and the mutants.

use std::marker::PhantomData;

use proverbs::diagnostics::*;
use proverbs::memory::*;
use proverbs::prelude::*;
use proverbs::qp::*;
use proverbs::rules::*;
use proverbs::state::*;
use proverbs::transport::*;
use proverbs::wr::*;
use static_assertions::{assert_impl_all, assert_not_impl_any, assert_type_eq_all, const_assert};

/// A row of a table: for which traits it holds, and for which it does not.
macro_rules! cells {
    ($row:ty: yes $($yes:path),*; no $($no:path),*) => {
        $(assert_impl_all!($row: $yes);)*
        $(assert_not_impl_any!($row: $no);)*
    };
}

/// An attribute struct leads from a state to another on a transport, and on some transports never.
macro_rules! leads {
    ($attr:ident: $($t:ident $from:ident => $to:ident),+; never $($n:ident),*) => {
        $(assert_type_eq_all!(<$attr as Transition<$t, $from, DefaultProfile>>::To, $to);)+
        $(leads_nowhere!($attr: $n Reset, $n Init, $n Rtr, $n Rts, $n Draining, $n Sqd, $n Sqe, $n Err);)*
    };
}

/// An attribute struct leads nowhere from any of these.
macro_rules! leads_nowhere {
    ($attr:ident: $($t:ident $from:ident),+) => {
        assert_not_impl_any!($attr: $(Transition<$t, $from, DefaultProfile>),+);
    };
}

/// LOCAL_WRITE, and nothing but it and the three remote rights.
const fn known_rights<A: Access>() -> bool {
    A::FLAGS & 1 == 1 && A::FLAGS & !0xf == 0
}

/// A work request without its data.
struct Wr<O, A, F, G>(PhantomData<(O, A, F, G)>);

/// `Wr` may be posted to a queue pair of this transport, state and profile.
trait Posts<T, S, P> {}

impl<O, A, F, G, T, S, P> Posts<T, S, P> for Wr<O, A, F, G>
where
    T: Transport,
    S: CanPostSend,
    P: Profile,
    O: PostOn<T> + IssuedBy<P::Initiator> + CreatedFor<P::Posting>,
    A: Addressed<T> + Address,
    F: FenceOn<T>,
    G: SignaledOn<P::Signaling>,
{
}

/// The bounds of `Posts` are enough for the method.
#[allow(dead_code)] // compiled, never called
fn accepted<O, A, F, G, T, S, P>(
    qp: &mut QueuePair<T, S, P>,
    wr: WorkRequest<O, Empty, A, F, G>,
) -> Result<(), PostError<Buf>>
where
    T: Transport,
    S: CanPostSend,
    P: Profile<Entry = Buf>,
    O: PostOn<T> + IssuedBy<P::Initiator> + CreatedFor<P::Posting>,
    A: Addressed<T> + Address,
    F: FenceOn<T>,
    G: SignaledOn<P::Signaling>,
{
    qp.post_send(wr)
}

/// Receives may be posted to a queue pair of this transport, state and profile.
trait Receives<T, S, P> {}

impl<T: Transport, S: CanPostRecv, P: Profile> Receives<T, S, P> for Recv<Empty> where
    P::Receive: HasRecvQueue
{
}

/// The bounds of `Receives` are enough for the method.
#[allow(dead_code)] // compiled, never called
fn received<T: Transport, S: CanPostRecv, P>(qp: &mut QueuePair<T, S, P>)
where
    P: Profile<Entry = Buf>,
    P::Receive: HasRecvQueue,
{
    qp.post_recv(Recv::empty()).unwrap();
}

profile! { OnSrq { receive: SharedRq } }
profile! { OnNone { receive: NoRq } }
// Created for every operation; the table of `CreatedFor` has the others.
type All = ExtendedPosting<(Flush, AtomicWrite)>;
profile! { AllReads { posting: All } }
profile! { AllNoReads { posting: All, initiator: NoReads } }
profile! { AskedReads { posting: All, signaling: Selective } }
profile! { AskedNoReads { posting: All, signaling: Selective, initiator: NoReads } }

/// Whether a type has a trait, as a constant.
macro_rules! has {
    ($t:ty: $bound:path) => {{
        #[allow(dead_code)] // one of the two is
        trait Not {
            const IS: bool = false;
        }
        impl<T> Not for T {}
        struct Is<T>(PhantomData<T>);
        #[allow(dead_code)] // one of the two is
        impl<T: $bound> Is<T> {
            const IS: bool = true;
        }
        <Is<$t>>::IS
    }};
}

/// One bit a state, from RESET to ERR.
macro_rules! states {
    ($wr:ty: $posts:ident, $t:ident, $p:ident) => {
        (has!($wr: $posts<$t, Reset, $p>) as u32) << 7
            | (has!($wr: $posts<$t, Init, $p>) as u32) << 6
            | (has!($wr: $posts<$t, Rtr, $p>) as u32) << 5
            | (has!($wr: $posts<$t, Rts, $p>) as u32) << 4
            | (has!($wr: $posts<$t, Draining, $p>) as u32) << 3
            | (has!($wr: $posts<$t, Sqd, $p>) as u32) << 2
            | (has!($wr: $posts<$t, Sqe, $p>) as u32) << 1
            | has!($wr: $posts<$t, Err, $p>) as u32
    };
}

/// Receives of a queue of its own, of a shared one, and of none.
macro_rules! receives {
    ($t:ident: $own:literal, $shared:literal, $none:literal) => {
const _: () = assert!(states!(Recv<Empty>: Receives, $t, AllReads) == $own);
const _: () = assert!(states!(Recv<Empty>: Receives, $t, OnSrq) == $shared);
const _: () = assert!(states!(Recv<Empty>: Receives, $t, OnNone) == $none);
    };
}

/// One bit each: addresses, fences, signalings, marks.
macro_rules! sends {
    ($o:ident $a:ident on $t:ident: $reads:literal, $no_reads:literal, $states:literal) => {
        sends!($o $t AllReads AskedReads $reads);
        sends!($o $t AllNoReads AskedNoReads $no_reads);
        const _: () = assert!(states!(Wr<$o, $a, Unfenced, Plain>: Posts, $t, AllReads) == $states);
    };
    ($o:ident $t:ident $all:ident $asked:ident $legal:literal) => {
        const _: () = {
            let bits = [
                sends!($o $t $all $asked Connected Unfenced),
                sends!($o $t $all $asked Connected Fenced),
                sends!($o $t $all $asked Datagram Unfenced),
                sends!($o $t $all $asked Datagram Fenced),
                sends!($o $t $all $asked ToSrq Unfenced),
                sends!($o $t $all $asked ToSrq Fenced),
            ];
            let mut all = 0;
            let mut i = 0;
            while i < bits.len() {
                all = all << 4 | bits[i];
                i += 1;
            }
            assert!(all == $legal);
        };
    };
    ($o:ident $t:ident $all:ident $asked:ident $a:ident $f:ident) => {
        (has!(Wr<$o, $a, $f, Plain>: Posts<$t, Rts, $all>) as u32) << 3
            | (has!(Wr<$o, $a, $f, Signaled>: Posts<$t, Rts, $all>) as u32) << 2
            | (has!(Wr<$o, $a, $f, Plain>: Posts<$t, Rts, $asked>) as u32) << 1
            | has!(Wr<$o, $a, $f, Signaled>: Posts<$t, Rts, $asked>) as u32
    };
}

// Opcodes by transport (R1.1, R1.3, R27.2).
cells!(Send: yes PostOn<Rc>, PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>; no);
cells!(SendWithImm: yes PostOn<Rc>, PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>; no);
cells!(SendWithInv: yes PostOn<Rc>, PostOn<Xrc>; no PostOn<Uc>, PostOn<Ud>, PostOn<Srd>);
cells!(LocalInv: yes PostOn<Rc>; no PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>);
cells!(BindMw: yes PostOn<Rc>; no PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>);
cells!(RdmaWrite: yes PostOn<Rc>, PostOn<Uc>, PostOn<Srd>, PostOn<Xrc>; no PostOn<Ud>);
cells!(RdmaWriteWithImm: yes PostOn<Rc>, PostOn<Uc>, PostOn<Srd>, PostOn<Xrc>; no PostOn<Ud>);
cells!(RdmaRead: yes PostOn<Rc>, PostOn<Srd>, PostOn<Xrc>; no PostOn<Uc>, PostOn<Ud>);
cells!(CmpAndSwp: yes PostOn<Rc>, PostOn<Xrc>; no PostOn<Uc>, PostOn<Ud>, PostOn<Srd>);
cells!(FetchAndAdd: yes PostOn<Rc>, PostOn<Xrc>; no PostOn<Uc>, PostOn<Ud>, PostOn<Srd>);
cells!(Flush: yes PostOn<Rc>; no PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>);
cells!(AtomicWrite: yes PostOn<Rc>; no PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>);
// Opcodes by initiator depth (R4.6).
cells!(Send: yes IssuedBy<Reads>, IssuedBy<NoReads>; no);
cells!(SendWithImm: yes IssuedBy<Reads>, IssuedBy<NoReads>; no);
cells!(SendWithInv: yes IssuedBy<Reads>, IssuedBy<NoReads>; no);
cells!(LocalInv: yes IssuedBy<Reads>, IssuedBy<NoReads>; no);
cells!(BindMw: yes IssuedBy<Reads>, IssuedBy<NoReads>; no);
cells!(RdmaWrite: yes IssuedBy<Reads>, IssuedBy<NoReads>; no);
cells!(RdmaWriteWithImm: yes IssuedBy<Reads>, IssuedBy<NoReads>; no);
cells!(RdmaRead: yes IssuedBy<Reads>; no IssuedBy<NoReads>);
cells!(CmpAndSwp: yes IssuedBy<Reads>; no IssuedBy<NoReads>);
cells!(FetchAndAdd: yes IssuedBy<Reads>; no IssuedBy<NoReads>);
cells!(Flush: yes IssuedBy<Reads>; no IssuedBy<NoReads>);
cells!(AtomicWrite: yes IssuedBy<Reads>; no IssuedBy<NoReads>);
// Opcodes by what a queue pair is created for (R25.2, R27.7).
cells!(Send: yes CreatedFor<OrdinaryPosting>, CreatedFor<ExtendedPosting>, CreatedFor<ExtendedPosting<Flush>>, CreatedFor<ExtendedPosting<AtomicWrite>>, CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>>, CreatedFor<ExtendedPosting<Srd>>, CreatedFor<ExtendedPosting<(Srd, RdmaWrite)>>; no);
cells!(RdmaRead: yes CreatedFor<OrdinaryPosting>, CreatedFor<ExtendedPosting>, CreatedFor<ExtendedPosting<Flush>>, CreatedFor<ExtendedPosting<AtomicWrite>>, CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>>, CreatedFor<ExtendedPosting<Srd>>, CreatedFor<ExtendedPosting<(Srd, RdmaWrite)>>; no);
cells!(BindMw: yes CreatedFor<OrdinaryPosting>, CreatedFor<ExtendedPosting>, CreatedFor<ExtendedPosting<Flush>>, CreatedFor<ExtendedPosting<AtomicWrite>>, CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>>, CreatedFor<ExtendedPosting<Srd>>, CreatedFor<ExtendedPosting<(Srd, RdmaWrite)>>; no);
cells!(RdmaWrite: yes CreatedFor<OrdinaryPosting>, CreatedFor<ExtendedPosting>, CreatedFor<ExtendedPosting<Flush>>, CreatedFor<ExtendedPosting<AtomicWrite>>, CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>>, CreatedFor<ExtendedPosting<(Srd, RdmaWrite)>>; no);
cells!(RdmaWrite: yes; no CreatedFor<ExtendedPosting<Srd>>);
cells!(RdmaWriteWithImm: yes CreatedFor<OrdinaryPosting>, CreatedFor<ExtendedPosting>, CreatedFor<ExtendedPosting<Flush>>, CreatedFor<ExtendedPosting<AtomicWrite>>, CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>>, CreatedFor<ExtendedPosting<(Srd, RdmaWrite)>>; no);
cells!(RdmaWriteWithImm: yes; no CreatedFor<ExtendedPosting<Srd>>);
cells!(Flush: yes CreatedFor<ExtendedPosting<Flush>>, CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>>; no);
cells!(Flush: yes; no CreatedFor<OrdinaryPosting>, CreatedFor<ExtendedPosting>, CreatedFor<ExtendedPosting<AtomicWrite>>, CreatedFor<ExtendedPosting<Srd>>, CreatedFor<ExtendedPosting<(Srd, RdmaWrite)>>);
cells!(AtomicWrite: yes CreatedFor<ExtendedPosting<AtomicWrite>>, CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>>; no);
cells!(AtomicWrite: yes; no CreatedFor<OrdinaryPosting>, CreatedFor<ExtendedPosting>, CreatedFor<ExtendedPosting<Flush>>, CreatedFor<ExtendedPosting<Srd>>, CreatedFor<ExtendedPosting<(Srd, RdmaWrite)>>);
// Opcodes that may be solicited (R2.3).
cells!(Send: yes SolicitedOp; no);
cells!(SendWithImm: yes SolicitedOp; no);
cells!(SendWithInv: yes SolicitedOp; no);
cells!(LocalInv: yes; no SolicitedOp);
cells!(BindMw: yes; no SolicitedOp);
cells!(RdmaWrite: yes; no SolicitedOp);
cells!(RdmaWriteWithImm: yes SolicitedOp; no);
cells!(RdmaRead: yes; no SolicitedOp);
cells!(CmpAndSwp: yes; no SolicitedOp);
cells!(FetchAndAdd: yes; no SolicitedOp);
// Opcodes that may be inline (R2.6).
cells!(Send: yes InlineOp; no);
cells!(SendWithImm: yes InlineOp; no);
cells!(SendWithInv: yes InlineOp; no);
cells!(LocalInv: yes; no InlineOp);
cells!(BindMw: yes; no InlineOp);
cells!(RdmaWrite: yes InlineOp; no);
cells!(RdmaWriteWithImm: yes InlineOp; no);
cells!(RdmaRead: yes; no InlineOp);
cells!(CmpAndSwp: yes; no InlineOp);
cells!(FetchAndAdd: yes; no InlineOp);
// Bytes that a READ or an atomic could be inline with (R2.6).
cells!(&'static [u8; 8]: yes; no InlineSink<RdmaRead>, InlineSink<CmpAndSwp>, InlineSink<FetchAndAdd>);
cells!(&'static [u8]: yes; no InlineSink<RdmaRead>, InlineSink<CmpAndSwp>, InlineSink<FetchAndAdd>);
cells!(&'static mut [u8; 8]: yes; no InlineSink<RdmaRead>, InlineSink<CmpAndSwp>, InlineSink<FetchAndAdd>);
cells!([&'static [u8]; 2]: yes; no InlineSink<RdmaRead>, InlineSink<CmpAndSwp>, InlineSink<FetchAndAdd>);
cells!(Buf: yes; no InlineSink<RdmaRead>, InlineSink<CmpAndSwp>, InlineSink<FetchAndAdd>);
// Where a piece of a region on demand may begin (R20.2).
cells!(usize: yes; no PieceOnDemand);
cells!(u32: yes; no PieceOnDemand);
cells!(i32: yes; no PieceOnDemand);
// Opcodes with memory of an implicit region, by transport (R20.6).
cells!(Paged<Send, Rc>: yes PostOn<Rc>; no PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>);
cells!(Paged<SendWithImm, Ud>: yes PostOn<Ud>; no PostOn<Rc>, PostOn<Uc>, PostOn<Srd>, PostOn<Xrc>);
cells!(Paged<RdmaWrite, Uc>: yes PostOn<Uc>; no PostOn<Rc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>);
cells!(Paged<RdmaWrite, Ud>: yes; no PostOn<Rc>, PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>);
cells!(Paged<RdmaWriteWithImm, Rc>: yes PostOn<Rc>; no);
cells!(Paged<RdmaWriteWithImm, Rc>: yes; no PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>);
// Operations by what an implicit region was made for (R20.6).
cells!(Send: yes PostsPaged<Send>; no PostsPaged<RdmaWrite>, PostsPaged<RdmaRead>);
cells!(RdmaWrite: yes PostsPaged<RdmaWrite>; no PostsPaged<Send>, PostsPaged<RdmaRead>);
cells!((Send, RdmaWrite): yes PostsPaged<Send>, PostsPaged<RdmaWrite>; no PostsPaged<RdmaRead>);
cells!(RdmaRead: yes; no PostsPaged<Send>, PostsPaged<RdmaWrite>, PostsPaged<RdmaRead>);
// Destinations by transport (R1.2, R5.1, R26.1).
cells!(Connected: yes Addressed<Rc>, Addressed<Uc>; no);
cells!(Connected: yes; no Addressed<Ud>, Addressed<Srd>, Addressed<Xrc>);
cells!(Datagram: yes Addressed<Ud>, Addressed<Srd>; no);
cells!(Datagram: yes; no Addressed<Rc>, Addressed<Uc>, Addressed<Xrc>);
cells!(ToSrq: yes Addressed<Xrc>; no Addressed<Rc>, Addressed<Uc>, Addressed<Ud>, Addressed<Srd>);
// FENCE by transport (R2.1, R27.5).
cells!(Unfenced: yes FenceOn<Rc>, FenceOn<Uc>, FenceOn<Ud>, FenceOn<Srd>, FenceOn<Xrc>; no);
cells!(Fenced: yes FenceOn<Rc>, FenceOn<Xrc>; no FenceOn<Uc>, FenceOn<Ud>, FenceOn<Srd>);
// SIGNALED by signaling of the queue pair (R2.4).
cells!(Plain: yes SignaledOn<SignalAll>, SignaledOn<Selective>; no);
cells!(Signaled: yes SignaledOn<Selective>; no SignaledOn<SignalAll>);
// Lists whose last work request is not signaled, and work requests that need a completion of their own (R2.4, R19.2).
cells!(SignalAll: yes CompletesEach; no LeavesUnsignaled);
cells!(Selective: yes LeavesUnsignaled; no CompletesEach);
// Posting by state (R7.14, R7.15, R8.19, R8.20).
cells!(Reset: yes; no CanPostSend, CanPostRecv);
cells!(Init: yes CanPostRecv; no CanPostSend);
cells!(Rtr: yes CanPostRecv; no CanPostSend);
cells!(Rts: yes CanPostSend, CanPostRecv; no);
cells!(Draining: yes CanPostSend, CanPostRecv; no);
cells!(Sqd: yes CanPostSend, CanPostRecv; no);
cells!(Sqe: yes CanPostRecv; no CanPostSend);
cells!(Err: yes CanPostSend; no CanPostRecv);
// The way to the error state (R8.1).
cells!(Reset: yes; no CanFail);
cells!(Init: yes CanFail; no);
cells!(Rtr: yes CanFail; no);
cells!(Rts: yes CanFail; no);
cells!(Draining: yes CanFail; no);
cells!(Sqd: yes CanFail; no);
cells!(Sqe: yes CanFail; no);
cells!(Err: yes CanFail; no);
// States in which options of a connection are set (R22.3).
cells!(Reset: yes TakesEce; no);
cells!(Init: yes TakesEce; no);
cells!(Rtr: yes; no TakesEce);
cells!(Rts: yes; no TakesEce);
cells!(Draining: yes; no TakesEce);
cells!(Sqd: yes; no TakesEce);
cells!(Sqe: yes; no TakesEce);
cells!(Err: yes; no TakesEce);
// States in which a queue pair has a rate (R22.2).
cells!(Reset: yes; no HasRate);
cells!(Init: yes; no HasRate);
cells!(Rtr: yes; no HasRate);
cells!(Rts: yes HasRate; no);
cells!(Draining: yes; no HasRate);
cells!(Sqd: yes; no HasRate);
cells!(Sqe: yes; no HasRate);
cells!(Err: yes; no HasRate);
// Transports whose send queue can stop in SQE (R8.16).
cells!(Rc: yes; no StopsSending);
cells!(Uc: yes StopsSending; no);
cells!(Ud: yes StopsSending; no);
cells!(Srd: yes; no StopsSending);
// Receive queues by receive source (R7.1, R26.2).
cells!(OwnRq: yes HasRecvQueue, UsesOwnQueue; no UsesSharedQueue, UsesNoQueue);
cells!(SharedRq: yes UsesSharedQueue; no HasRecvQueue, UsesOwnQueue, UsesNoQueue);
cells!(NoRq: yes UsesNoQueue; no HasRecvQueue, UsesOwnQueue, UsesSharedQueue);
// Queue pairs that were created elsewhere, by how they post (R15.2).
cells!(OrdinaryPosting: yes UsesPostSend; no);
cells!(ExtendedPosting: yes; no UsesPostSend);
// What a posting macro posts to besides the queue that it is for (R7.2, R8.19).
cells!(CompletionQueue: yes; no PostsSends, PostsReceives, PostsSharedReceives);
cells!(SharedReceiveQueue<Rc>: yes; no PostsSends, PostsReceives, PostsSharedReceives);
cells!(SharedReceiveQueue<Ud, BufList, Max<4>>: yes; no PostsSends, PostsReceives, PostsSharedReceives);
cells!(QueuePair<Rc, Rts>: yes; no PostsSends, PostsReceives, PostsSharedReceives);
// Slices that a registered region gives out (R6.12).
cells!(usize: yes; no SliceOfRegion);
cells!(std::ops::Range<usize>: yes; no SliceOfRegion);
cells!(std::ops::RangeFull: yes; no SliceOfRegion);
// Transports (R7.3, R5.1, R26.1, R26.2, R27.2).
cells!(Rc: yes SharesReceives, NamesPeer, HasBothQueues, KeepsOrder; no);
cells!(Rc: yes; no TakesDestinations, NamesSrqs);
cells!(Uc: yes NamesPeer, HasBothQueues, KeepsOrder; no);
cells!(Uc: yes; no SharesReceives, TakesDestinations, NamesSrqs);
cells!(Ud: yes SharesReceives, TakesDestinations, HasBothQueues, KeepsOrder; no);
cells!(Ud: yes; no NamesPeer, NamesSrqs);
cells!(Srd: yes TakesDestinations; no);
cells!(Srd: yes; no SharesReceives, NamesPeer, NamesSrqs, HasBothQueues, KeepsOrder);
cells!(Xrc: yes SharesReceives, NamesSrqs, KeepsOrder; no);
cells!(Xrc: yes; no NamesPeer, TakesDestinations, HasBothQueues);
// What data may be used for (R2.10, R4.1, R4.5, R6.7, R7.10, R9.9, R11.2).
cells!(Buf: yes Source, Sink, RecvSink, SrqSink, AtomicSink; no);
cells!([Buf; 2]: yes Source, Sink, RecvSink, SrqSink; no AtomicSink);
cells!([Buf; 0]: yes Source, Sink, RecvSink; no SrqSink, AtomicSink);
cells!(BufList: yes Source, Sink, RecvSink, SrqSink; no AtomicSink);
cells!(SharedBuf: yes Source; no Sink, RecvSink, SrqSink, AtomicSink);
cells!(OpenBuf: yes Source, Sink; no RecvSink, SrqSink, AtomicSink);
cells!(Empty: yes Source, Sink, RecvSink; no SrqSink, AtomicSink);
cells!(Inline<'static, 8>: yes; no Source, Sink, RecvSink, SrqSink, AtomicSink);
cells!(InlineSlice<'static>: yes; no Source, Sink, RecvSink, SrqSink, AtomicSink);
cells!(InlineList<'static, 2>: yes; no Source, Sink, RecvSink, SrqSink, AtomicSink);
cells!(&'static [u8]: yes; no Source, Sink, RecvSink, SrqSink, AtomicSink);
cells!(&'static mut [u8]: yes; no Source, Sink, RecvSink, SrqSink, AtomicSink);
cells!(Vec<u8>: yes; no Source, Sink, RecvSink, SrqSink, AtomicSink);
cells!(Sge<'static, 1>: yes Source, Sink, RecvSink, AtomicSink; no SrqSink);
cells!(Sge<'static, 2>: yes Source, Sink, RecvSink; no SrqSink, AtomicSink);
// Data by what the queue gives back (R11.1).
cells!(Buf: yes Data<Buf>, Data<BufList>, Data<AnyBuf>; no);
cells!(Buf: yes; no Data<SharedBuf>, Data<OpenBuf>, Data<Raw>);
cells!([Buf; 2]: yes Data<BufList>, Data<AnyBuf>; no);
cells!([Buf; 2]: yes; no Data<Buf>, Data<SharedBuf>, Data<OpenBuf>, Data<Raw>);
cells!(BufList: yes Data<BufList>, Data<AnyBuf>; no);
cells!(BufList: yes; no Data<Buf>, Data<SharedBuf>, Data<OpenBuf>, Data<Raw>);
cells!(SharedBuf: yes Data<SharedBuf>, Data<AnyBuf>; no);
cells!(SharedBuf: yes; no Data<Buf>, Data<BufList>, Data<OpenBuf>, Data<Raw>);
cells!(OpenBuf: yes Data<OpenBuf>, Data<AnyBuf>; no);
cells!(OpenBuf: yes; no Data<Buf>, Data<BufList>, Data<SharedBuf>, Data<Raw>);
cells!(Empty: yes Data<Buf>, Data<BufList>, Data<SharedBuf>, Data<OpenBuf>, Data<AnyBuf>; no);
cells!(Empty: yes; no Data<Raw>);
cells!(Inline<'static, 8>: yes Data<Buf>, Data<BufList>, Data<SharedBuf>, Data<OpenBuf>, Data<AnyBuf>; no);
cells!(Inline<'static, 8>: yes; no Data<Raw>);
cells!(InlineSlice<'static>: yes Data<Buf>, Data<BufList>, Data<SharedBuf>, Data<OpenBuf>, Data<AnyBuf>; no);
cells!(InlineSlice<'static>: yes; no Data<Raw>);
cells!(InlineList<'static, 2>: yes Data<Buf>, Data<BufList>, Data<SharedBuf>, Data<OpenBuf>, Data<AnyBuf>; no);
cells!(InlineList<'static, 2>: yes; no Data<Raw>);
cells!(Sge<'static, 1>: yes Data<Raw>; no);
cells!(Sge<'static, 1>: yes; no Data<Buf>, Data<BufList>, Data<SharedBuf>, Data<OpenBuf>, Data<AnyBuf>);
// Data by most scatter/gather elements (R3.1, R3.2).
cells!(Empty: yes Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!(Buf: yes Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!(Buf: yes; no Fits<Max<0>, Max<0>>);
cells!(SharedBuf: yes Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!(SharedBuf: yes; no Fits<Max<0>, Max<0>>);
cells!(OpenBuf: yes Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!(OpenBuf: yes; no Fits<Max<0>, Max<0>>);
cells!([Buf; 1]: yes Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!([Buf; 1]: yes; no Fits<Max<0>, Max<0>>);
cells!([Buf; 2]: yes Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!([Buf; 2]: yes; no Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>);
cells!([Buf; 3]: yes Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!([Buf; 3]: yes; no Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>);
cells!([Buf; 33]: yes; no Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>);
cells!(Sge<'static, 2>: yes Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!(Sge<'static, 2>: yes; no Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>);
cells!(InlineList<'static, 0>: yes Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!(InlineList<'static, 1>: yes Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!(InlineList<'static, 1>: yes; no Fits<Max<0>, Max<0>>);
cells!(InlineList<'static, 2>: yes Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!(InlineList<'static, 2>: yes; no Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>);
cells!(InlineList<'static, 3>: yes Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
cells!(InlineList<'static, 3>: yes; no Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>);
cells!(InlineList<'static, 33>: yes; no Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>);
cells!(BufList: yes Fits<Max<0>, Max<0>>, Fits<Max<1>, Max<0>>, Fits<Max<2>, Max<0>>, Fits<Max<3>, Max<0>>, Fits<Max<32>, Max<0>>; no);
// Inline data by inline capacity (R2.7, R2.8).
cells!(Inline<'static, 0>: yes Fits<Max<0>, Max<0>>, Fits<Max<0>, Max<8>>, Fits<Max<0>, Max<64>>, Fits<Max<0>, Max<256>>; no);
cells!(Inline<'static, 1>: yes Fits<Max<0>, Max<8>>, Fits<Max<0>, Max<64>>, Fits<Max<0>, Max<256>>; no);
cells!(Inline<'static, 1>: yes; no Fits<Max<0>, Max<0>>);
cells!(Inline<'static, 8>: yes Fits<Max<0>, Max<8>>, Fits<Max<0>, Max<64>>, Fits<Max<0>, Max<256>>; no);
cells!(Inline<'static, 8>: yes; no Fits<Max<0>, Max<0>>);
cells!(Inline<'static, 9>: yes Fits<Max<0>, Max<64>>, Fits<Max<0>, Max<256>>; no);
cells!(Inline<'static, 9>: yes; no Fits<Max<0>, Max<0>>, Fits<Max<0>, Max<8>>);
cells!(Inline<'static, 64>: yes Fits<Max<0>, Max<64>>, Fits<Max<0>, Max<256>>; no);
cells!(Inline<'static, 64>: yes; no Fits<Max<0>, Max<0>>, Fits<Max<0>, Max<8>>);
cells!(Inline<'static, 65>: yes Fits<Max<0>, Max<256>>; no);
cells!(Inline<'static, 65>: yes; no Fits<Max<0>, Max<0>>, Fits<Max<0>, Max<8>>, Fits<Max<0>, Max<64>>);
cells!(Inline<'static, 257>: yes; no Fits<Max<0>, Max<0>>, Fits<Max<0>, Max<8>>, Fits<Max<0>, Max<64>>, Fits<Max<0>, Max<256>>);
cells!(InlineSlice<'static>: yes Fits<Max<0>, Max<0>>, Fits<Max<0>, Max<8>>, Fits<Max<0>, Max<64>>, Fits<Max<0>, Max<256>>; no);
cells!(InlineList<'static, 0>: yes Fits<Max<0>, Max<0>>, Fits<Max<0>, Max<8>>, Fits<Max<0>, Max<64>>, Fits<Max<0>, Max<256>>; no);
// Rights of regions (R4.3, R6.1, R6.5, R6.6, R6.7).
cells!(LocalWrite: yes; no Remote, GrantsRead, GrantsWrite, GrantsAtomic);
cells!(RemoteRead: yes Remote, GrantsRead; no GrantsWrite, GrantsAtomic);
cells!(RemoteWrite: yes Remote, GrantsWrite; no GrantsRead, GrantsAtomic);
cells!(RemoteReadWrite: yes Remote, GrantsRead, GrantsWrite; no GrantsAtomic);
cells!(RemoteAtomic: yes Remote, GrantsAtomic; no GrantsRead, GrantsWrite);
cells!(RemoteAll: yes Remote, GrantsRead, GrantsWrite, GrantsAtomic; no);
const_assert!(known_rights::<LocalWrite>());
const_assert!(known_rights::<RemoteRead>());
const_assert!(known_rights::<RemoteWrite>());
const_assert!(known_rights::<RemoteReadWrite>());
const_assert!(known_rights::<RemoteAtomic>());
const_assert!(known_rights::<RemoteAll>());
// Keys by the region's rights (R6.7).
cells!(LocalWrite: yes; no Includes<LocalWrite>, Includes<RemoteRead>, Includes<RemoteWrite>, Includes<RemoteReadWrite>, Includes<RemoteAtomic>, Includes<RemoteAll>);
cells!(RemoteRead: yes Includes<RemoteRead>; no);
cells!(RemoteRead: yes; no Includes<LocalWrite>, Includes<RemoteWrite>, Includes<RemoteReadWrite>, Includes<RemoteAtomic>, Includes<RemoteAll>);
cells!(RemoteWrite: yes Includes<RemoteWrite>; no);
cells!(RemoteWrite: yes; no Includes<LocalWrite>, Includes<RemoteRead>, Includes<RemoteReadWrite>, Includes<RemoteAtomic>, Includes<RemoteAll>);
cells!(RemoteReadWrite: yes Includes<RemoteRead>, Includes<RemoteWrite>, Includes<RemoteReadWrite>; no);
cells!(RemoteReadWrite: yes; no Includes<LocalWrite>, Includes<RemoteAtomic>, Includes<RemoteAll>);
cells!(RemoteAtomic: yes Includes<RemoteAtomic>; no);
cells!(RemoteAtomic: yes; no Includes<LocalWrite>, Includes<RemoteRead>, Includes<RemoteWrite>, Includes<RemoteReadWrite>, Includes<RemoteAll>);
cells!(RemoteAll: yes Includes<RemoteRead>, Includes<RemoteWrite>, Includes<RemoteReadWrite>, Includes<RemoteAtomic>, Includes<RemoteAll>; no);
cells!(RemoteAll: yes; no Includes<LocalWrite>);
// Every attribute struct, transport and state (R8.1, R8.2, R8.3, R8.17, R8.21).
leads!(ConnectedInit: Rc Reset => Init, Uc Reset => Init, Xrc Reset => Init; never Ud, Srd);
leads_nowhere!(ConnectedInit: Rc Init, Rc Rtr, Rc Rts, Rc Draining, Rc Sqd, Rc Sqe, Rc Err);
leads_nowhere!(ConnectedInit: Uc Init, Uc Rtr, Uc Rts, Uc Draining, Uc Sqd, Uc Sqe, Uc Err);
leads_nowhere!(ConnectedInit: Xrc Init, Xrc Rtr, Xrc Rts, Xrc Draining, Xrc Sqd, Xrc Sqe, Xrc Err);
leads!(ConnectedReinit: Rc Init => Init, Uc Init => Init, Xrc Init => Init; never Ud, Srd);
leads_nowhere!(ConnectedReinit: Rc Reset, Rc Rtr, Rc Rts, Rc Draining, Rc Sqd, Rc Sqe, Rc Err);
leads_nowhere!(ConnectedReinit: Uc Reset, Uc Rtr, Uc Rts, Uc Draining, Uc Sqd, Uc Sqe, Uc Err);
leads_nowhere!(ConnectedReinit: Xrc Reset, Xrc Rtr, Xrc Rts, Xrc Draining, Xrc Sqd, Xrc Sqe, Xrc Err);
leads!(RcRtr: Rc Init => Rtr; never Uc, Ud, Srd, Xrc);
leads_nowhere!(RcRtr: Rc Reset, Rc Rtr, Rc Rts, Rc Draining, Rc Sqd, Rc Sqe, Rc Err);
leads!(UcRtr: Uc Init => Rtr; never Rc, Ud, Srd, Xrc);
leads_nowhere!(UcRtr: Uc Reset, Uc Rtr, Uc Rts, Uc Draining, Uc Sqd, Uc Sqe, Uc Err);
leads!(RcRts: Rc Rtr => Rts; never Uc, Ud, Srd, Xrc);
leads_nowhere!(RcRts: Rc Reset, Rc Init, Rc Rts, Rc Draining, Rc Sqd, Rc Sqe, Rc Err);
leads!(UcRts: Uc Rtr => Rts; never Rc, Ud, Srd, Xrc);
leads_nowhere!(UcRts: Uc Reset, Uc Init, Uc Rts, Uc Draining, Uc Sqd, Uc Sqe, Uc Err);
leads!(UdInit: Ud Reset => Init, Srd Reset => Init; never Rc, Uc, Xrc);
leads_nowhere!(UdInit: Ud Init, Ud Rtr, Ud Rts, Ud Draining, Ud Sqd, Ud Sqe, Ud Err);
leads_nowhere!(UdInit: Srd Init, Srd Rtr, Srd Rts, Srd Draining, Srd Sqd, Srd Sqe, Srd Err);
leads!(UdReinit: Ud Init => Init, Srd Init => Init; never Rc, Uc, Xrc);
leads_nowhere!(UdReinit: Ud Reset, Ud Rtr, Ud Rts, Ud Draining, Ud Sqd, Ud Sqe, Ud Err);
leads_nowhere!(UdReinit: Srd Reset, Srd Rtr, Srd Rts, Srd Draining, Srd Sqd, Srd Sqe, Srd Err);
leads!(UdRtr: Ud Init => Rtr, Srd Init => Rtr; never Rc, Uc, Xrc);
leads_nowhere!(UdRtr: Ud Reset, Ud Rtr, Ud Rts, Ud Draining, Ud Sqd, Ud Sqe, Ud Err);
leads_nowhere!(UdRtr: Srd Reset, Srd Rtr, Srd Rts, Srd Draining, Srd Sqd, Srd Sqe, Srd Err);
leads!(UdRts: Ud Rtr => Rts; never Rc, Uc, Srd, Xrc);
leads_nowhere!(UdRts: Ud Reset, Ud Init, Ud Rts, Ud Draining, Ud Sqd, Ud Sqe, Ud Err);
leads!(SrdRts: Srd Rtr => Rts; never Rc, Uc, Ud, Xrc);
leads_nowhere!(SrdRts: Srd Reset, Srd Init, Srd Rts, Srd Draining, Srd Sqd, Srd Sqe, Srd Err);
leads!(RcReturn: Rc Rts => Rts, Rc Sqd => Rts; never Uc, Ud, Srd, Xrc);
leads_nowhere!(RcReturn: Rc Reset, Rc Init, Rc Rtr, Rc Draining, Rc Sqe, Rc Err);
leads!(UcReturn: Uc Rts => Rts, Uc Sqd => Rts; never Rc, Ud, Srd, Xrc);
leads_nowhere!(UcReturn: Uc Reset, Uc Init, Uc Rtr, Uc Draining, Uc Sqe, Uc Err);
leads!(UcResume: Uc Sqe => Rts; never Rc, Ud, Srd, Xrc);
leads_nowhere!(UcResume: Uc Reset, Uc Init, Uc Rtr, Uc Rts, Uc Draining, Uc Sqd, Uc Err);
leads!(UdReturn: Ud Rts => Rts, Ud Sqd => Rts, Ud Sqe => Rts, Srd Rts => Rts; never Rc, Uc, Xrc);
leads_nowhere!(UdReturn: Ud Reset, Ud Init, Ud Rtr, Ud Draining, Ud Err, Srd Reset, Srd Init);
leads_nowhere!(UdReturn: Srd Rtr, Srd Draining, Srd Sqd, Srd Sqe, Srd Err);
leads!(Drain: Rc Rts => Draining, Uc Rts => Draining, Ud Rts => Draining, Xrc Rts => Draining; never Srd);
leads_nowhere!(Drain: Rc Reset, Rc Init, Rc Rtr, Rc Draining, Rc Sqd, Rc Sqe, Rc Err);
leads_nowhere!(Drain: Uc Reset, Uc Init, Uc Rtr, Uc Draining, Uc Sqd, Uc Sqe, Uc Err);
leads_nowhere!(Drain: Ud Reset, Ud Init, Ud Rtr, Ud Draining, Ud Sqd, Ud Sqe, Ud Err);
leads_nowhere!(Drain: Xrc Reset, Xrc Init, Xrc Rtr, Xrc Draining, Xrc Sqd, Xrc Sqe, Xrc Err);
leads!(RcSqd: Rc Sqd => Draining; never Uc, Ud, Srd, Xrc);
leads_nowhere!(RcSqd: Rc Reset, Rc Init, Rc Rtr, Rc Rts, Rc Draining, Rc Sqe, Rc Err);
leads!(UcSqd: Uc Sqd => Draining; never Rc, Ud, Srd, Xrc);
leads_nowhere!(UcSqd: Uc Reset, Uc Init, Uc Rtr, Uc Rts, Uc Draining, Uc Sqe, Uc Err);
leads!(UdSqd: Ud Sqd => Draining; never Rc, Uc, Srd, Xrc);
leads_nowhere!(UdSqd: Ud Reset, Ud Init, Ud Rtr, Ud Rts, Ud Draining, Ud Sqe, Ud Err);
leads!(XrcRtr: Xrc Init => Rtr; never Rc, Uc, Ud, Srd);
leads_nowhere!(XrcRtr: Xrc Reset, Xrc Rtr, Xrc Rts, Xrc Draining, Xrc Sqd, Xrc Sqe, Xrc Err);
leads!(XrcRts: Xrc Rtr => Rts; never Rc, Uc, Ud, Srd);
leads_nowhere!(XrcRts: Xrc Reset, Xrc Init, Xrc Rts, Xrc Draining, Xrc Sqd, Xrc Sqe, Xrc Err);
leads!(XrcReturn: Xrc Rts => Rts, Xrc Sqd => Rts; never Rc, Uc, Ud, Srd);
leads_nowhere!(XrcReturn: Xrc Reset, Xrc Init, Xrc Rtr, Xrc Draining, Xrc Sqe, Xrc Err);
leads!(XrcSqd: Xrc Sqd => Draining; never Rc, Uc, Ud, Srd);
leads_nowhere!(XrcSqd: Xrc Reset, Xrc Init, Xrc Rtr, Xrc Rts, Xrc Draining, Xrc Sqe, Xrc Err);
// What `post_send` takes. First in RTS, with `Reads` and with `NoReads`, in groups of four bits: connected,
// connected fenced, datagram, datagram fenced, to a shared receive queue, the same fenced. In each group: plain and signaled under `SignalAll`, then under
// `Selective`. Then by state, from RESET to ERR, to the right destination.
sends!(Send Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b1011_1011_0000_0000_0000_0000, 0b00011101);
sends!(Send Connected on Uc: 0b1011_0000_0000_0000_0000_0000, 0b1011_0000_0000_0000_0000_0000, 0b00011101);
sends!(Send Datagram on Ud: 0b0000_0000_1011_0000_0000_0000, 0b0000_0000_1011_0000_0000_0000, 0b00011101);
sends!(Send Datagram on Srd: 0b0000_0000_1011_0000_0000_0000, 0b0000_0000_1011_0000_0000_0000, 0b00011101);
sends!(Send ToSrq on Xrc: 0b0000_0000_0000_0000_1011_1011, 0b0000_0000_0000_0000_1011_1011, 0b00011101);
sends!(SendWithImm Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b1011_1011_0000_0000_0000_0000, 0b00011101);
sends!(SendWithImm Connected on Uc: 0b1011_0000_0000_0000_0000_0000, 0b1011_0000_0000_0000_0000_0000, 0b00011101);
sends!(SendWithImm Datagram on Ud: 0b0000_0000_1011_0000_0000_0000, 0b0000_0000_1011_0000_0000_0000, 0b00011101);
sends!(SendWithImm Datagram on Srd: 0b0000_0000_1011_0000_0000_0000, 0b0000_0000_1011_0000_0000_0000, 0b00011101);
sends!(SendWithImm ToSrq on Xrc: 0b0000_0000_0000_0000_1011_1011, 0b0000_0000_0000_0000_1011_1011, 0b00011101);
sends!(SendWithInv Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b1011_1011_0000_0000_0000_0000, 0b00011101);
sends!(SendWithInv Connected on Uc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(SendWithInv Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(SendWithInv Datagram on Srd: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(SendWithInv ToSrq on Xrc: 0b0000_0000_0000_0000_1011_1011, 0b0000_0000_0000_0000_1011_1011, 0b00011101);
sends!(LocalInv Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b1011_1011_0000_0000_0000_0000, 0b00011101);
sends!(LocalInv Connected on Uc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(LocalInv Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(LocalInv Datagram on Srd: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(LocalInv ToSrq on Xrc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(BindMw Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b1011_1011_0000_0000_0000_0000, 0b00011101);
sends!(BindMw Connected on Uc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(BindMw Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(BindMw Datagram on Srd: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(BindMw ToSrq on Xrc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(RdmaWrite Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b1011_1011_0000_0000_0000_0000, 0b00011101);
sends!(RdmaWrite Connected on Uc: 0b1011_0000_0000_0000_0000_0000, 0b1011_0000_0000_0000_0000_0000, 0b00011101);
sends!(RdmaWrite Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(RdmaWrite Datagram on Srd: 0b0000_0000_1011_0000_0000_0000, 0b0000_0000_1011_0000_0000_0000, 0b00011101);
sends!(RdmaWrite ToSrq on Xrc: 0b0000_0000_0000_0000_1011_1011, 0b0000_0000_0000_0000_1011_1011, 0b00011101);
sends!(RdmaWriteWithImm Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b1011_1011_0000_0000_0000_0000, 0b00011101);
sends!(RdmaWriteWithImm Connected on Uc: 0b1011_0000_0000_0000_0000_0000, 0b1011_0000_0000_0000_0000_0000, 0b00011101);
sends!(RdmaWriteWithImm Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(RdmaWriteWithImm Datagram on Srd: 0b0000_0000_1011_0000_0000_0000, 0b0000_0000_1011_0000_0000_0000, 0b00011101);
sends!(RdmaWriteWithImm ToSrq on Xrc: 0b0000_0000_0000_0000_1011_1011, 0b0000_0000_0000_0000_1011_1011, 0b00011101);
sends!(RdmaRead Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00011101);
sends!(RdmaRead Connected on Uc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(RdmaRead Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(RdmaRead Datagram on Srd: 0b0000_0000_1011_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00011101);
sends!(RdmaRead ToSrq on Xrc: 0b0000_0000_0000_0000_1011_1011, 0b0000_0000_0000_0000_0000_0000, 0b00011101);
sends!(CmpAndSwp Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00011101);
sends!(CmpAndSwp Connected on Uc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(CmpAndSwp Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(CmpAndSwp Datagram on Srd: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(CmpAndSwp ToSrq on Xrc: 0b0000_0000_0000_0000_1011_1011, 0b0000_0000_0000_0000_0000_0000, 0b00011101);
sends!(FetchAndAdd Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00011101);
sends!(FetchAndAdd Connected on Uc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(FetchAndAdd Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(FetchAndAdd Datagram on Srd: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(FetchAndAdd ToSrq on Xrc: 0b0000_0000_0000_0000_1011_1011, 0b0000_0000_0000_0000_0000_0000, 0b00011101);
sends!(Flush Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00011101);
sends!(Flush Connected on Uc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(Flush Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(Flush Datagram on Srd: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(Flush ToSrq on Xrc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(AtomicWrite Connected on Rc: 0b1011_1011_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00011101);
sends!(AtomicWrite Connected on Uc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(AtomicWrite Datagram on Ud: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(AtomicWrite Datagram on Srd: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
sends!(AtomicWrite ToSrq on Xrc: 0b0000_0000_0000_0000_0000_0000, 0b0000_0000_0000_0000_0000_0000, 0b00000000);
// What `post_recv` takes, by state: from a queue of its own, from a shared one, and from none.
receives!(Rc: 0b01111110, 0b00000000, 0b00000000);
receives!(Uc: 0b01111110, 0b00000000, 0b00000000);
receives!(Ud: 0b01111110, 0b00000000, 0b00000000);
receives!(Srd: 0b01111110, 0b00000000, 0b00000000);
receives!(Xrc: 0b01111110, 0b00000000, 0b00000000);
