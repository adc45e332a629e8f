//! Queue pairs that are connected to each other.

use proverbs::bounded::{RetryCount, RnrRetries, RnrRetry, Timeout};
use proverbs::prelude::*;
use proverbs::qp::{Initiator, InitiatorDepth};
use proverbs::transport::Transport;

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

/// The transitions of a transport from RESET to RTS; a UD queue pair receives from all.
pub trait Connects: Transport + Sized {
    fn init<P: Profile>(qp: QueuePair<Self, Reset, P>) -> Option<QueuePair<Self, Init, P>>;

    fn connect<P: Profile>(
        qp: QueuePair<Self, Reset, P>,
        to: AddressVector,
        peer: u32,
    ) -> Option<QueuePair<Self, Rts, P>>;
}

const INIT: ConnectedInit = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };

impl Connects for Rc {
    fn init<P: Profile>(qp: QueuePair<Self, Reset, P>) -> Option<QueuePair<Self, Init, P>> {
        qp.modify(INIT).ok()
    }

    fn connect<P: Profile>(
        qp: QueuePair<Self, Reset, P>,
        to: AddressVector,
        peer: u32,
    ) -> Option<QueuePair<Self, Rts, P>> {
        let qp = Self::init(qp)?.modify(RcRtr::new(to, qpn(peer), psn())).ok()?;
        let depth = <<P::Initiator as Initiator>::Depth as InitiatorDepth>::LEAST;
        // A peer that is gone is not waited for forever.
        let (timeout, retry_cnt) = (Timeout::exponent(10)?, RetryCount::new(0)?);
        let rnr_retry = RnrRetry::Times(RnrRetries::new(1)?);
        qp.modify(RcRts { timeout, retry_cnt, rnr_retry, ..RcRts::new(psn(), depth) }).ok()
    }
}

impl Connects for Uc {
    fn init<P: Profile>(qp: QueuePair<Self, Reset, P>) -> Option<QueuePair<Self, Init, P>> {
        qp.modify(INIT).ok()
    }

    fn connect<P: Profile>(
        qp: QueuePair<Self, Reset, P>,
        to: AddressVector,
        peer: u32,
    ) -> Option<QueuePair<Self, Rts, P>> {
        let qp = Self::init(qp)?.modify(UcRtr::new(to, qpn(peer), psn())).ok()?;
        qp.modify(UcRts::new(psn())).ok()
    }
}

impl Connects for Ud {
    fn init<P: Profile>(qp: QueuePair<Self, Reset, P>) -> Option<QueuePair<Self, Init, P>> {
        qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey().into() }).ok()
    }

    fn connect<P: Profile>(
        qp: QueuePair<Self, Reset, P>,
        _: AddressVector,
        _: u32,
    ) -> Option<QueuePair<Self, Rts, P>> {
        let qp = Self::init(qp)?;
        qp.modify(UdRtr::default()).ok()?.modify(UdRts::new(psn())).ok()
    }
}

/// From RESET to RTS.
pub fn connect<T: Connects, P: Profile>(
    qp: QueuePair<T, Reset, P>,
    to: AddressVector,
    peer: u32,
) -> Option<QueuePair<T, Rts, P>> {
    T::connect(qp, to, peer)
}
