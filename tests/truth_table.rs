//! Which operations, states, transports, data and rights can be combined: every cell of every
//! table, and every transition. The compiler checks all of it; there is nothing to run.
//!
//! In a cell, `y` means that the type of its row implements the trait of its column; `-` means that
//! it does not. `accepted` and `received` show that the traits of the tables are enough to post.
//! The ui-tests show that the methods require each of them.

use proverbs::diagnostics::*;
use proverbs::ext::extended_posting::*;
use proverbs::ext::on_demand::*;
use proverbs::ext::persistence::*;
use proverbs::ext::srd::*;
use proverbs::ext::tuning::*;
use proverbs::ext::windows::*;
use proverbs::ext::xrc::*;
use proverbs::memory::*;
use proverbs::prelude::*;
use proverbs::qp::*;
use proverbs::rules::*;
use proverbs::state::*;
use proverbs::transport::*;
use proverbs::wr::*;
use static_assertions::{assert_impl_all, assert_not_impl_any, assert_type_eq_all, const_assert};

macro_rules! table {
    ($columns:tt $($row:ty => $cells:tt)*) => { $(row!($row, $columns, $cells);)* };
}

macro_rules! row {
    ($row:ty, [$($bound:path),*], [$($cell:tt)*]) => { $(cell!($cell $row: $bound);)* };
}

macro_rules! cell {
    (y $row:ty: $bound:path) => {
        assert_impl_all!($row: $bound);
    };
    (- $row:ty: $bound:path) => {
        assert_not_impl_any!($row: $bound);
    };
}

/// The state to which an attribute struct leads, by transport and state; `-` where the transition
/// does not exist.
macro_rules! transitions {
    ($($attr:ident { $($transport:ident $cells:tt)* })*) => {
        $($(transitions_of!($attr $transport
            [Reset Init Rtr Rts Draining Sqd Sqe Err] $cells);)*)*
    };
}

macro_rules! transitions_of {
    ($attr:ident $transport:ident [$($from:ident)*] [$($to:tt)*]) => {
        $(transition!($attr: $transport $from $to);)*
    };
}

macro_rules! transition {
    ($attr:ident: $transport:ident $from:ident -) => {
        assert_not_impl_any!($attr: Transition<$transport, $from, DefaultProfile>);
    };
    ($attr:ident: $transport:ident $from:ident $to:ident) => {
        assert_type_eq_all!(
            <$attr as Transition<$transport, $from, DefaultProfile>>::To,
            $to
        );
    };
}

/// Every right includes LOCAL_WRITE, and no flag but it and the three remote rights.
const fn known_rights<A: Access>() -> bool {
    A::FLAGS & 1 == 1 && A::FLAGS & !0xf == 0
}

/// The traits of the tables below are enough to post a send.
macro_rules! accepted {
    ($($t:ident)*) => {$(
        const _: () = {
            #[allow(dead_code)] // compiled, never called
            fn accepted<O, A, F, G, S, P>(
                qp: &mut QueuePair<$t, S, P>,
                wr: WorkRequest<O, Empty, A, F, G>,
            ) -> Result<(), PostError<Buf>>
            where
                S: CanPostSend,
                P: Profile<Entry = Buf>,
                O: PostOn<$t> + IssuedBy<P::Initiator> + CreatedFor<P::Posting>,
                A: Addressed<$t> + Address,
                F: FenceOn<$t>,
                G: SignaledOn<P::Signaling>,
            {
                qp.post_send(wr)
            }
        };
    )*};
}

accepted! { Rc Uc Ud Xrc Srd }

/// The traits of the tables below are enough to post a receive.
#[allow(dead_code)] // compiled, never called
fn received<T: Transport, S: CanPostRecv, P>(qp: &mut QueuePair<T, S, P>)
where
    P: Profile<Entry = Buf>,
    P::Receive: HasRecvQueue,
{
    qp.post_recv(Recv::empty()).unwrap();
}

// Opcodes by transport. Proves R1.1, R1.3, R27.2.
table! {
    [PostOn<Rc>, PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>]
    Send             => [y y y y y]
    SendWithImm      => [y y y y y]
    SendWithInv      => [y - - - y]
    LocalInv         => [y - - - -]
    BindMw           => [y - - - -]
    RdmaWrite        => [y y - y y]
    RdmaWriteWithImm => [y y - y y]
    RdmaRead         => [y - - y y]
    CmpAndSwp        => [y - - - y]
    FetchAndAdd      => [y - - - y]
    Flush            => [y - - - -]
    AtomicWrite      => [y - - - -]
}

// Opcodes by initiator depth. Proves R4.6.
table! {
    [IssuedBy<Reads>, IssuedBy<NoReads>]
    Send             => [y y]
    SendWithImm      => [y y]
    SendWithInv      => [y y]
    LocalInv         => [y y]
    BindMw           => [y y]
    RdmaWrite        => [y y]
    RdmaWriteWithImm => [y y]
    RdmaRead         => [y -]
    CmpAndSwp        => [y -]
    FetchAndAdd      => [y -]
    Flush            => [y -]
    AtomicWrite      => [y -]
}

// Opcodes by what a queue pair is created for. Proves R25.2, R27.7.
table! {
    [
        CreatedFor<OrdinaryPosting>,
        CreatedFor<ExtendedPosting>,
        CreatedFor<ExtendedPosting<Flush>>,
        CreatedFor<ExtendedPosting<AtomicWrite>>,
        CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>>,
        CreatedFor<ExtendedPosting<Srd>>,
        CreatedFor<ExtendedPosting<(Srd, RdmaWrite)>>
    ]
    Send             => [y y y y y y y]
    RdmaRead         => [y y y y y y y]
    BindMw           => [y y y y y y y]
    RdmaWrite        => [y y y y y - y]
    RdmaWriteWithImm => [y y y y y - y]
    Flush            => [- - y - y - -]
    AtomicWrite      => [- - - y y - -]
}

// Opcodes that may be solicited. Proves R2.3.
table! {
    [SolicitedOp]
    Send             => [y]
    SendWithImm      => [y]
    SendWithInv      => [y]
    LocalInv         => [-]
    BindMw           => [-]
    RdmaWrite        => [-]
    RdmaWriteWithImm => [y]
    RdmaRead         => [-]
    CmpAndSwp        => [-]
    FetchAndAdd      => [-]
}

// Opcodes that may be inline. Proves R2.6.
table! {
    [InlineOp]
    Send             => [y]
    SendWithImm      => [y]
    SendWithInv      => [y]
    LocalInv         => [-]
    BindMw           => [-]
    RdmaWrite        => [y]
    RdmaWriteWithImm => [y]
    RdmaRead         => [-]
    CmpAndSwp        => [-]
    FetchAndAdd      => [-]
}

// Bytes that a READ or an atomic could be inline with. Proves R2.6.
table! {
    [Allows<call::Inline<RdmaRead>>, Allows<call::Inline<CmpAndSwp>>, Allows<call::Inline<FetchAndAdd>>]
    &'static [u8; 8]     => [- - -]
    &'static [u8]        => [- - -]
    &'static mut [u8; 8] => [- - -]
    [&'static [u8]; 2]   => [- - -]
    Buf                  => [- - -]
}

// Regions on demand by the place where a piece may begin. Proves R20.2.
table! {
    [Allows<call::PieceOnDemand>]
    usize => [-]
    u32   => [-]
    i32   => [-]
}

// Opcodes with memory of an implicit region, by transport. Proves R20.6.
table! {
    [PostOn<Rc>, PostOn<Uc>, PostOn<Ud>, PostOn<Srd>, PostOn<Xrc>]
    Paged<Send, Rc>             => [y - - - -]
    Paged<SendWithImm, Ud>      => [- - y - -]
    Paged<RdmaWrite, Uc>        => [- y - - -]
    Paged<RdmaWrite, Ud>        => [- - - - -]
    Paged<RdmaWriteWithImm, Rc> => [y - - - -]
}

// Operations by what an implicit region was made for. Proves R20.6.
table! {
    [Allows<call::PostPaged<Send>>, Allows<call::PostPaged<RdmaWrite>>, Allows<call::PostPaged<RdmaRead>>]
    Send              => [y - -]
    RdmaWrite         => [- y -]
    (Send, RdmaWrite) => [y y -]
    RdmaRead          => [- - -]
}

// Destinations by transport. Proves R1.2, R5.1, R26.1.
table! {
    [Addressed<Rc>, Addressed<Uc>, Addressed<Ud>, Addressed<Srd>, Addressed<Xrc>]
    Connected => [y y - - -]
    Datagram  => [- - y y -]
    ToSrq     => [- - - - y]
}

// FENCE by transport. Proves R2.1, R27.5.
table! {
    [FenceOn<Rc>, FenceOn<Uc>, FenceOn<Ud>, FenceOn<Srd>, FenceOn<Xrc>]
    Unfenced => [y y y y y]
    Fenced   => [y - - - y]
}

// SIGNALED by signaling of the queue pair. Proves R2.4.
table! {
    [SignaledOn<SignalAll>, SignaledOn<Selective>]
    Plain    => [y y]
    Signaled => [- y]
}

// Lists that end unsignaled, and work requests that need their own completion.
// Proves R2.4, R19.2.
table! {
    [LeavesUnsignaled, CompletesEach]
    SignalAll => [- y]
    Selective => [y -]
}

// Posting by state. Proves R7.14, R7.15, R8.19, R8.20.
table! {
    [CanPostSend, CanPostRecv]
    Reset    => [- -]
    Init     => [- y]
    Rtr      => [- y]
    Rts      => [y y]
    Draining => [y y]
    Sqd      => [y y]
    Sqe      => [- y]
    Err      => [y -]
}

// Transitions to the error state. Proves R8.1.
table! {
    [CanFail]
    Reset    => [-]
    Init     => [y]
    Rtr      => [y]
    Rts      => [y]
    Draining => [y]
    Sqd      => [y]
    Sqe      => [y]
    Err      => [y]
}

// States in which options of a connection are set. Proves R22.3.
table! {
    [TakesEce]
    Reset    => [y]
    Init     => [y]
    Rtr      => [-]
    Rts      => [-]
    Draining => [-]
    Sqd      => [-]
    Sqe      => [-]
    Err      => [-]
}

// States in which a queue pair has a rate. Proves R22.2.
table! {
    [HasRate]
    Reset    => [-]
    Init     => [-]
    Rtr      => [-]
    Rts      => [y]
    Draining => [-]
    Sqd      => [-]
    Sqe      => [-]
    Err      => [-]
}

// Transports whose send queue can stop in SQE. Proves R8.16.
table! {
    [StopsSending]
    Rc  => [-]
    Uc  => [y]
    Ud  => [y]
    Srd => [-]
}

// Receive queues by receive source. Proves R7.1, R26.2.
table! {
    [HasRecvQueue, UsesOwnQueue, UsesSharedQueue, UsesNoQueue]
    OwnRq    => [y y - -]
    SharedRq => [- - y -]
    NoRq     => [- - - y]
}

// Queue pairs that were created elsewhere, by how they post. Proves R15.2.
table! {
    [UsesPostSend]
    OrdinaryPosting => [y]
    ExtendedPosting => [-]
}

// Extra arguments of a posting macro. Proves R7.2, R8.19.
table! {
    [Allows<call::PostSendMacro>, Allows<call::PostRecvMacro>, Allows<call::PostSrqRecvMacro>]
    CompletionQueue                         => [- - -]
    SharedReceiveQueue<Rc>                  => [- - -]
    SharedReceiveQueue<Ud, BufList, Max<4>> => [- - -]
    QueuePair<Rc, Rts>                      => [- - -]
}

// Slices that a registered region gives out. Proves R6.12.
table! {
    [SliceOfRegion]
    usize                  => [-]
    std::ops::Range<usize> => [-]
    std::ops::RangeFull    => [-]
}

// Transports. Proves R7.3, R5.1, R26.1, R26.2, R27.2.
table! {
    [SharesReceives, NamesPeer, TakesDestinations, NamesSrqs, HasBothQueues, KeepsOrder]
    Rc  => [y y - - y y]
    Uc  => [- y - - y y]
    Ud  => [y - y - y y]
    Srd => [- - y - - -]
    Xrc => [y - - y - y]
}

// Uses of data. Proves R2.10, R4.1, R4.5, R6.7, R7.10, R9.9, R11.2.
table! {
    [Source, Sink, RecvSink, SrqSink, AtomicSink]
    Buf                    => [y y y y y]
    [Buf; 2]               => [y y y y -]
    [Buf; 0]               => [y y y - -]
    BufList                => [y y y y -]
    SharedBuf              => [y - - - -]
    OpenBuf                => [y y - - -]
    Empty                  => [y y y - -]
    Inline<'static, 8>     => [- - - - -]
    InlineSlice<'static>   => [- - - - -]
    InlineList<'static, 2> => [- - - - -]
    &'static [u8]          => [- - - - -]
    &'static mut [u8]      => [- - - - -]
    Vec<u8>                => [- - - - -]
    Sge<'static, 1>        => [y y y y y]
    Sge<'static, 2>        => [y y y y -]
    SgeList<'static>       => [y y y y -]
}

// Data by what the queue gives back. Proves R11.1.
table! {
    [Data<Buf>, Data<BufList>, Data<SharedBuf>, Data<OpenBuf>, Data<AnyBuf>, Data<Raw>]
    Buf                    => [y y - - y -]
    [Buf; 2]               => [- y - - y -]
    BufList                => [- y - - y -]
    SharedBuf              => [- - y - y -]
    OpenBuf                => [- - - y y -]
    Empty                  => [y y y y y -]
    Inline<'static, 8>     => [y y y y y -]
    InlineSlice<'static>   => [y y y y y -]
    InlineList<'static, 2> => [y y y y y -]
    Sge<'static, 1>        => [- - - - - y]
}

// Data by most scatter/gather elements. Proves R3.1, R3.2.
// A `BufList` is counted when it is posted.
table! {
    [
        Fits<Max<0>, Max<0>>,
        Fits<Max<1>, Max<0>>,
        Fits<Max<2>, Max<0>>,
        Fits<Max<3>, Max<0>>,
        Fits<Max<32>, Max<0>>
    ]
    Empty                   => [y y y y y]
    Buf                     => [- y y y y]
    SharedBuf               => [- y y y y]
    OpenBuf                 => [- y y y y]
    [Buf; 1]                => [- y y y y]
    [Buf; 2]                => [- - y y y]
    [Buf; 3]                => [- - - y y]
    [Buf; 33]               => [- - - - -]
    Sge<'static, 2>         => [- - y y y]
    InlineList<'static, 0>  => [y y y y y]
    InlineList<'static, 1>  => [- y y y y]
    InlineList<'static, 2>  => [- - y y y]
    InlineList<'static, 3>  => [- - - y y]
    InlineList<'static, 33> => [- - - - -]
    BufList                 => [y y y y y]
}

// Inline data by inline capacity. Proves R2.7, R2.8.
// An `InlineSlice` or `InlineList` is measured when it is posted.
table! {
    [Fits<Max<0>, Max<0>>, Fits<Max<0>, Max<8>>, Fits<Max<0>, Max<64>>, Fits<Max<0>, Max<256>>]
    Inline<'static, 0>     => [y y y y]
    Inline<'static, 1>     => [- y y y]
    Inline<'static, 8>     => [- y y y]
    Inline<'static, 9>     => [- - y y]
    Inline<'static, 64>    => [- - y y]
    Inline<'static, 65>    => [- - - y]
    Inline<'static, 257>   => [- - - -]
    InlineSlice<'static>   => [y y y y]
    InlineList<'static, 0> => [y y y y]
}

// Rights of regions. Proves R4.3, R6.1, R6.5, R6.6, R6.7.
// Each of them has LOCAL_WRITE, and no flag but the four of this table.
table! {
    [Remote, GrantsRead, GrantsWrite, GrantsAtomic]
    LocalWrite      => [- - - -]
    RemoteRead      => [y y - -]
    RemoteWrite     => [y - y -]
    RemoteReadWrite => [y y y -]
    RemoteAtomic    => [y - - y]
    RemoteAll       => [y y y y]
}
const_assert!(known_rights::<LocalWrite>());
const_assert!(known_rights::<RemoteRead>());
const_assert!(known_rights::<RemoteWrite>());
const_assert!(known_rights::<RemoteReadWrite>());
const_assert!(known_rights::<RemoteAtomic>());
const_assert!(known_rights::<RemoteAll>());

// Keys by the region's rights. Proves R6.7.
table! {
    [
        Includes<LocalWrite>,
        Includes<RemoteRead>,
        Includes<RemoteWrite>,
        Includes<RemoteReadWrite>,
        Includes<RemoteAtomic>,
        Includes<RemoteAll>
    ]
    LocalWrite      => [- - - - - -]
    RemoteRead      => [- y - - - -]
    RemoteWrite     => [- - y - - -]
    RemoteReadWrite => [- y y y - -]
    RemoteAtomic    => [- - - - y -]
    RemoteAll       => [- y y y y y]
}

// Every attribute struct, transport and state. Proves R8.1, R8.2, R8.3, R8.17, R8.21.
transitions! {
    ConnectedInit {
        Rc  [Init -    -    -    -    -    -    -]
        Uc  [Init -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [Init -    -    -    -    -    -    -]
    }
    ConnectedReinit {
        Rc  [-    Init -    -    -    -    -    -]
        Uc  [-    Init -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    Init -    -    -    -    -    -]
    }
    RcRtr {
        Rc  [-    Rtr  -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UcRtr {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    Rtr  -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    RcRts {
        Rc  [-    -    Rts  -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UcRts {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    Rts  -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UdInit {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [Init -    -    -    -    -    -    -]
        Srd [Init -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UdReinit {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    Init -    -    -    -    -    -]
        Srd [-    Init -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UdRtr {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    Rtr  -    -    -    -    -    -]
        Srd [-    Rtr  -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UdRts {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    Rts  -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    SrdRts {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    Rts  -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    RcReturn {
        Rc  [-    -    -    Rts  -    Rts  -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UcReturn {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    Rts  -    Rts  -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UcResume {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    Rts  -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UdReturn {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    Rts  -    Rts  Rts  -]
        Srd [-    -    -    Rts  -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    Drain {
        Rc  [-    -    -    Draining -    -    -    -]
        Uc  [-    -    -    Draining -    -    -    -]
        Ud  [-    -    -    Draining -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    Draining -    -    -    -]
    }
    RcSqd {
        Rc  [-    -    -    -    -    Draining -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UcSqd {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    Draining -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    UdSqd {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    Draining -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    -    -    -]
    }
    XrcRtr {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    Rtr  -    -    -    -    -    -]
    }
    XrcRts {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    Rts  -    -    -    -    -]
    }
    XrcReturn {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    Rts  -    Rts  -    -]
    }
    XrcSqd {
        Rc  [-    -    -    -    -    -    -    -]
        Uc  [-    -    -    -    -    -    -    -]
        Ud  [-    -    -    -    -    -    -    -]
        Srd [-    -    -    -    -    -    -    -]
        Xrc [-    -    -    -    -    Draining -    -]
    }
}
