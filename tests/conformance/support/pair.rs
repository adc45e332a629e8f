//! Connected pairs of queue pairs, for each transport and profile.

use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use proverbs::prelude::*;
use proverbs::qp::{Initiator, NoDepth, RcRtsOptional, RtrOptional};
use proverbs::rules::HasBothQueues;
use proverbs::transport::Transport;

use super::device::Device;

/// The settings that a test may change.
#[derive(Clone, Copy)]
pub struct Wish {
    pub depth: Depth,
    pub cqe: u32,
    /// Whether the queue pairs of a completion queue share its entries.
    pub shares: bool,
    /// Whether the completion queues count for monitoring.
    pub counted: bool,
    pub buffers: usize,
    pub size: usize,
    pub access: QpAccess,
    pub rnr_retry: RnrRetry,
    pub timeout: Timeout,
    pub retry_cnt: u8,
    pub psn: u32,
    /// RC: the reads and atomics that each side serves at once.
    pub responder_depth: u8,
}

impl Wish {
    pub fn new() -> Wish {
        Wish {
            depth: Depth { send: 8, recv: 8 },
            cqe: 60,
            shares: false,
            counted: false,
            buffers: 40,
            size: 256,
            access: QpAccess::all(),
            rnr_retry: RnrRetry::Infinite,
            timeout: Timeout::Infinite,
            retry_cnt: 6,
            psn: 0xff_fffe,
            responder_depth: 4,
        }
    }
}

/// An initiator depth, if the profile has one.
pub trait AnyDepth: Initiator {
    fn depth() -> Self::Depth;
}

impl AnyDepth for Reads {
    fn depth() -> ReadDepth {
        ReadDepth::new(4).unwrap()
    }
}

impl AnyDepth for NoReads {
    fn depth() -> NoDepth {
        NoDepth
    }
}

/// A queue pair in RESET, and its protection domain.
pub type Fresh<'pd, T, P> =
    (QueuePair<T, Reset, P>, &'pd ProtectionDomain<<P as Profile>::Threads>);

/// The transitions of a transport from RESET to RTS.
pub trait Bring<P: Profile>: HasBothQueues + Sized {
    /// Connects two queue pairs of one device to each other.
    #[allow(clippy::type_complexity)]
    fn connect<Q: Profile>(
        (a, _): Fresh<'_, Self, P>,
        (b, _): Fresh<'_, Self, Q>,
        dev: &Device,
        wish: &Wish,
    ) -> (QueuePair<Self, Rts, P>, QueuePair<Self, Rts, Q>)
    where
        Self: Bring<Q>,
    {
        let (na, nb) = (a.qp_num(), b.qp_num());
        (<Self as Bring<P>>::up(a, dev, nb, wish), <Self as Bring<Q>>::up(b, dev, na, wish))
    }

    /// The initiator depth on RC.
    fn depth() -> <P::Initiator as Initiator>::Depth {
        unreachable!("only RC uses it")
    }

    fn init(qp: QueuePair<Self, Reset, P>, wish: &Wish) -> QueuePair<Self, Init, P>;
    fn rtr(
        qp: QueuePair<Self, Init, P>,
        dev: &Device,
        peer: u32,
        wish: &Wish,
    ) -> QueuePair<Self, Rtr, P>;
    fn rts(qp: QueuePair<Self, Rtr, P>, wish: &Wish) -> QueuePair<Self, Rts, P>;

    fn up(
        qp: QueuePair<Self, Reset, P>,
        dev: &Device,
        peer: u32,
        wish: &Wish,
    ) -> QueuePair<Self, Rts, P> {
        Self::rts(Self::rtr(Self::init(qp, wish), dev, peer, wish), wish)
    }
}

impl<P: Profile> Bring<P> for Rc
where
    P::Initiator: AnyDepth,
{
    #[cfg(feature = "cm")]
    fn connect<Q: Profile>(
        a: Fresh<'_, Self, P>,
        b: Fresh<'_, Self, Q>,
        dev: &Device,
        wish: &Wish,
    ) -> (QueuePair<Self, Rts, P>, QueuePair<Self, Rts, Q>)
    where
        Self: Bring<Q>,
    {
        if dev.is_iwarp() {
            return super::iwarp::connect::<P, Q>(dev, a, b, wish);
        }
        let (na, nb) = (a.0.qp_num(), b.0.qp_num());
        (<Rc as Bring<P>>::up(a.0, dev, nb, wish), <Rc as Bring<Q>>::up(b.0, dev, na, wish))
    }

    fn depth() -> <P::Initiator as Initiator>::Depth {
        <P::Initiator as AnyDepth>::depth()
    }

    fn init(qp: QueuePair<Self, Reset, P>, wish: &Wish) -> QueuePair<Self, Init, P> {
        qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: wish.access }).unwrap()
    }

    fn rtr(
        qp: QueuePair<Self, Init, P>,
        dev: &Device,
        peer: u32,
        wish: &Wish,
    ) -> QueuePair<Self, Rtr, P> {
        qp.modify(RcRtr {
            address: dev.vector(),
            path_mtu: Mtu::Bytes1024,
            dest_qpn: Qpn::new(peer).unwrap(),
            rq_psn: Psn::new(wish.psn).unwrap(),
            max_dest_rd_atomic: ResponderDepth::new(wish.responder_depth).unwrap(),
            min_rnr_timer: MinRnrTimer::new(1).unwrap(),
            optional: RtrOptional::default(),
        })
        .unwrap()
    }

    fn rts(qp: QueuePair<Self, Rtr, P>, wish: &Wish) -> QueuePair<Self, Rts, P> {
        qp.modify(RcRts {
            timeout: wish.timeout,
            retry_cnt: RetryCount::new(wish.retry_cnt).unwrap(),
            rnr_retry: wish.rnr_retry,
            sq_psn: Psn::new(wish.psn).unwrap(),
            max_rd_atomic: <P::Initiator as AnyDepth>::depth(),
            optional: RcRtsOptional::default(),
        })
        .unwrap()
    }
}

impl<P: Profile> Bring<P> for Uc {
    fn init(qp: QueuePair<Self, Reset, P>, wish: &Wish) -> QueuePair<Self, Init, P> {
        qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: wish.access }).unwrap()
    }

    fn rtr(
        qp: QueuePair<Self, Init, P>,
        dev: &Device,
        peer: u32,
        wish: &Wish,
    ) -> QueuePair<Self, Rtr, P> {
        qp.modify(UcRtr {
            address: dev.vector(),
            path_mtu: Mtu::Bytes1024,
            dest_qpn: Qpn::new(peer).unwrap(),
            rq_psn: Psn::new(wish.psn).unwrap(),
            optional: RtrOptional::default(),
        })
        .unwrap()
    }

    fn rts(qp: QueuePair<Self, Rtr, P>, wish: &Wish) -> QueuePair<Self, Rts, P> {
        let sq_psn = Psn::new(wish.psn).unwrap();
        qp.modify(UcRts::new(sq_psn)).unwrap()
    }
}

/// Two connected queue pairs of one device, and their objects.
pub struct Pair<T: Transport, P: Profile = DefaultProfile> {
    pub a: QueuePair<T, Rts, P>,
    pub b: QueuePair<T, Rts, P>,
    pub ca: CompletionQueue<P::Entry>,
    pub cb: CompletionQueue<P::Entry>,
    pub pool: Pool,
    pub pd: ProtectionDomain,
    pub dev: Device,
}

impl<T: Bring<P>, P: Profile<Receive = OwnRq, Threads = AnyThread>> Pair<T, P> {
    pub fn new() -> Self {
        Self::with(&Wish::new())
    }

    pub fn with(wish: &Wish) -> Self {
        Self::on(Device::open(), wish)
    }

    pub fn on(dev: Device, wish: &Wish) -> Self {
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(wish.buffers, wish.size).unwrap();
        let [ca, cb] = [(); 2].map(|()| {
            let builder = dev.ctx.cq(wish.cqe);
            let builder = if wish.shares { builder.shared_budget() } else { builder };
            if wish.counted { builder.counted() } else { builder }.create().unwrap()
        });
        let a = pd.create_qp::<T, P>(&ca, &ca, wish.depth).unwrap();
        let b = pd.create_qp::<T, P>(&cb, &cb, wish.depth).unwrap();
        let (a, b) = T::connect((a, &pd), (b, &pd), &dev, wish);
        Pair { a, b, ca, cb, pool, pd, dev }
    }
}
