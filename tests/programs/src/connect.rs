//! Queue pairs that know each other.

use proverbs::*;

const QKEY: u32 = 0x1111_2222;

pub fn psn() -> Psn {
    Psn::new(0xff_fffe).unwrap_or(Psn::MAX)
}

pub fn qpn(number: u32) -> Qpn {
    Qpn::new(number).unwrap_or(Qpn::MAX)
}

pub fn qkey() -> Qkey {
    Qkey::new(QKEY).unwrap_or(Qkey::MAX)
}

/// How a transport gets from RESET to RTS; a UD queue pair hears from everybody.
pub trait Connects: Transport + Sized {
    fn connect<P: Profile>(
        qp: QueuePair<Self, Reset, P>,
        to: AddressVector,
        peer: u32,
    ) -> Option<QueuePair<Self, Rts, P>>;
}

const INIT: ConnectedInit = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };

impl Connects for Rc {
    fn connect<P: Profile>(
        qp: QueuePair<Self, Reset, P>,
        to: AddressVector,
        peer: u32,
    ) -> Option<QueuePair<Self, Rts, P>> {
        let qp = qp.modify(INIT).ok()?.modify(RcRtr::new(to, qpn(peer), psn())).ok()?;
        let depth = <<P::Initiator as Initiator>::Depth as InitiatorDepth>::LEAST;
        qp.modify(RcRts::new(psn(), depth)).ok()
    }
}

impl Connects for Uc {
    fn connect<P: Profile>(
        qp: QueuePair<Self, Reset, P>,
        to: AddressVector,
        peer: u32,
    ) -> Option<QueuePair<Self, Rts, P>> {
        let qp = qp.modify(INIT).ok()?.modify(UcRtr::new(to, qpn(peer), psn())).ok()?;
        qp.modify(UcRts { sq_psn: psn(), optional: UcRtsOptional::default() }).ok()
    }
}

impl Connects for Ud {
    fn connect<P: Profile>(
        qp: QueuePair<Self, Reset, P>,
        _: AddressVector,
        _: u32,
    ) -> Option<QueuePair<Self, Rts, P>> {
        let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey().into() }).ok()?;
        qp.modify(UdRtr::default()).ok()?.modify(UdRts { sq_psn: psn(), qkey: None }).ok()
    }
}

type Both<T, P> = (Option<QueuePair<T, Rts, P>>, Option<QueuePair<T, Rts, P>>);

/// Connects two queue pairs.
pub fn join<T: Connects, P: Profile>(
    context: &Context,
    one: Option<QueuePair<T, Reset, P>>,
    two: Option<QueuePair<T, Reset, P>>,
) -> Both<T, P> {
    let (Some(one), Some(two), Ok(gid)) = (one, two, context.query_gid(1, 1)) else {
        return (None, None);
    };
    let to = AddressVector::roce(1, gid, 1);
    let (one_num, two_num) = (one.qp_num(), two.qp_num());
    (T::connect(one, to, two_num), T::connect(two, to, one_num))
}
