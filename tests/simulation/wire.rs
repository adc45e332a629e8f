//! The parts that depend on types: queue pairs in any state, and how each configuration posts.

use proverbs::device::AhIndex;
use proverbs::memory::OpenBuf;
use proverbs::post::SendList;
use proverbs::prelude::*;
use proverbs::qp::Max;
use proverbs::rules::{CanPostSend, SharesReceives};
use proverbs::transport::Transport;

pub use crate::kinds::{Kind, Receive};
use crate::program::What;
use crate::support::{Bring, Device, Wish};
use crate::world::INLINE;

/// Every buffer has a number as its context.
pub type Held = AnyBuf<u32>;
pub type WithId = Buf<u32>;
pub type Cq = CompletionQueue<Held>;
pub type Posted = Result<(), PostError<Held>>;
pub type Created<T, P> = Result<QueuePair<T, Reset, P>, proverbs::Error>;

macro_rules! profiles {
    ($($name:ident $receive:ident $signaling:ident;)*) => {$(
        profile! { pub $name {
            receive: $receive, signaling: $signaling, max_send_sge: 2, max_recv_sge: 2,
            max_inline: 128, entry: AnyBuf<u32>
        } }
    )*};
}
profiles! {
    AllOwn OwnRq SignalAll;
    SelectiveOwn OwnRq Selective;
    AllShared SharedRq SignalAll;
    SelectiveShared SharedRq Selective;
}

/// A send with all its parameters.
pub struct Described {
    pub number: u64,
    pub what: What,
    pub data: Payload,
    pub imm: u32,
    pub remote: RemoteSlice<RemoteAll>,
    pub operands: (u64, u64),
    /// Fenced, signaled or solicited, if that has a meaning.
    pub flag: bool,
    pub to: Option<wr::Destination>,
}

pub enum Payload {
    Buf(WithId),
    Pair([WithId; 2]),
    Shared(SharedBuf),
    Open(OpenBuf),
    Inline,
    Empty,
}

/// A queue pair in the state that this program moved it to.
#[allow(clippy::large_enum_variant)]
pub enum Any<T: Transport, P: Profile> {
    Reset(QueuePair<T, Reset, P>),
    Init(QueuePair<T, Init, P>),
    Rtr(QueuePair<T, Rtr, P>),
    Rts(QueuePair<T, Rts, P>),
    Draining(QueuePair<T, Draining, P>),
    Sqd(QueuePair<T, Sqd, P>),
    Sqe(QueuePair<T, Sqe, P>),
    Error(QueuePair<T, state::Err, P>),
    Gone,
}

/// `$body` for the queue pair in any state; `$gone` if there is none.
macro_rules! each {
    ($any:expr, $qp:ident => $body:expr, $gone:expr) => {
        match $any {
            Any::Reset($qp) => $body,
            Any::Init($qp) => $body,
            Any::Rtr($qp) => $body,
            Any::Rts($qp) => $body,
            Any::Draining($qp) => $body,
            Any::Sqd($qp) => $body,
            Any::Sqe($qp) => $body,
            Any::Error($qp) => $body,
            Any::Gone => $gone,
        }
    };
}
pub(crate) use each;

impl<T: Transport, P: Profile> Any<T, P> {
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Any::Gone)
    }

    /// Destroys it; returns it if the device refused.
    pub fn destroy(self) -> Result<(), Self>
    where
        P: Kind,
    {
        macro_rules! each_state {
            ($($state:ident)*) => {
                match self {
                    $(Any::$state(qp) => qp.destroy().map_err(|refused| {
                        assert_eq!(refused.error.errno(), Some(libc::EBUSY));
                        Any::$state(refused.into_object())
                    }),)*
                    Any::Gone => Ok(()),
                }
            };
        }
        each_state!(Reset Init Rtr Rts Draining Sqd Sqe Error)
    }

    /// Moves it to RESET; returns it if receives might be lost.
    pub fn reset(self) -> Result<Self, Self> {
        macro_rules! each_state {
            ($($state:ident)*) => {
                match self {
                    $(Any::$state(qp) => qp.reset().map(Any::Reset).map_err(|refused| {
                        assert_eq!(refused.error.errno(), Some(libc::EBUSY), "{refused}");
                        Any::$state(refused.into_object())
                    }),)*
                    Any::Gone => Ok(Any::Gone),
                }
            };
        }
        each_state!(Reset Init Rtr Rts Draining Sqd Sqe Error)
    }

    pub fn sends_outstanding(&self) -> usize {
        each!(self, qp => qp.sends_outstanding(), 0)
    }

    pub fn recvs_outstanding(&self) -> usize {
        each!(self, qp => qp.recvs_outstanding(), 0)
    }

    pub fn rooms(&mut self) -> (usize, usize) {
        each!(self, qp => (qp.send_room(), qp.recv_room()), (0, 0))
    }
}

/// The outcome of a selective completion: the released entries, or the completion itself.
pub type Settled<'cq> = Result<(Result<(), WcStatus>, Vec<Held>), Completion<'cq, Held>>;

pub type Srq<T> = SharedReceiveQueue<T, Held, Max<2>>;

/// A shared receive queue, if the configuration has one.
pub enum AnySrq {
    None,
    Rc(Srq<Rc>),
    Ud(Srq<Ud>),
}

fn post_srq<T: SharesReceives>(srq: &mut Srq<T>, receives: Vec<Receive>, chain: bool) -> Posted {
    if chain && receives.len() == 2 {
        let mut both = receives.into_iter();
        if let (Some(Receive::Buf(a)), Some(Receive::Buf(b))) = (both.next(), both.next()) {
            return post_srq_recv!(srq, [wr::Recv::new(a), wr::Recv::new(b)]);
        }
        return Ok(());
    }
    for receive in receives {
        match receive {
            Receive::Buf(buf) => srq.post_srq_recv(wr::Recv::new(buf))?,
            Receive::Pair(pair) => srq.post_srq_recv(wr::Recv::new(pair))?,
            Receive::Nothing => unreachable!("a shared queue's receives have a buffer"),
        }
    }
    Ok(())
}

impl AnySrq {
    /// One by one, or a chain of two buffers.
    pub fn post(&mut self, receives: Vec<Receive>, chain: bool) -> Posted {
        match self {
            AnySrq::None => Ok(()),
            AnySrq::Rc(srq) => post_srq(srq, receives, chain),
            AnySrq::Ud(srq) => post_srq(srq, receives, chain),
        }
    }
}

pub struct Parents<'a> {
    pub pd: &'a ProtectionDomain,
    pub send: &'a Cq,
    pub recv: &'a Cq,
    pub depth: Depth,
}

/// The parts that a transport and a profile decide together.
pub trait Wire<P: Kind>: Bring<P> {
    const RELIABLE: bool;

    fn create_srq(pd: &ProtectionDomain, pool: &Pool<u32>) -> AnySrq;
    fn create(parents: Parents<'_>, srq: &AnySrq) -> Created<Self, P>;
    fn push<'d>(
        list: &mut SendList<'d, Self, P, 2>,
        work: Described,
        inline: &'d [u8; INLINE],
    ) -> Posted;
    /// Posts a chain, if there is a macro for these; otherwise returns them.
    fn chain<S: CanPostSend>(
        qp: &mut QueuePair<Self, S, P>,
        work: Vec<Described>,
    ) -> Result<Posted, Vec<Described>>;
    /// Posts one, signaled unless it must not be and need not be.
    fn one<S: CanPostSend>(
        qp: &mut QueuePair<Self, S, P>,
        work: Described,
        unsignaled: bool,
    ) -> Result<Posted, Described>;
    fn resume(qp: Any<Self, P>) -> Any<Self, P>;
    fn stop(qp: QueuePair<Self, Rts, P>) -> Any<Self, P>;
    /// An address handle for the device itself.
    fn way_to(_: &mut Any<Self, P>, _: &Device, _: &ProtectionDomain) -> Option<AhIndex> {
        None
    }
    fn advance(qp: Any<Self, P>, dev: &Device, peer: u32, wish: &Wish) -> Any<Self, P> {
        match qp {
            Any::Reset(qp) => Any::Init(Self::init(qp, wish)),
            Any::Init(qp) => Any::Rtr(Self::rtr(qp, dev, peer, wish)),
            Any::Rtr(qp) => Any::Rts(Self::rts(qp, wish)),
            other => other,
        }
    }
}
