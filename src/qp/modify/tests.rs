//! The attributes that a transition passes to C, and their fields.

use super::{Attr, Mask, Transition};
use crate::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use crate::device::Gid;
use crate::prelude::*;
use crate::state::State;
use crate::transport::Transport;

fn filled<T: Transport, S: State, A: Transition<T, S, DefaultProfile>>(attr: A) -> Attr {
    let mut c = Attr::new(<A::To as State>::STATE);
    attr.fill(&mut c);
    c
}

fn mask(bits: &[Mask]) -> u32 {
    bits.iter().fold(Mask::IBV_QP_STATE.0, |all, bit| all | bit.0)
}

#[test]
fn what_a_connection_is_told_to_receive() {
    let address = AddressVector::roce(2, Gid([9; 16]), 3);
    let (qpn, psn) = (Qpn::try_from(0x1234).unwrap(), Psn::try_from(0x5678).unwrap());
    let rtr = RcRtr {
        path_mtu: Mtu::Bytes2048,
        max_dest_rd_atomic: ResponderDepth::new(7).unwrap(),
        min_rnr_timer: MinRnrTimer::new(12).unwrap(),
        ..RcRtr::new(address, qpn, psn)
    };
    let a = filled::<Rc, Init, _>(rtr);
    let own = [Mask::IBV_QP_MAX_DEST_RD_ATOMIC, Mask::IBV_QP_MIN_RNR_TIMER];
    let both = [Mask::IBV_QP_AV, Mask::IBV_QP_PATH_MTU, Mask::IBV_QP_DEST_QPN, Mask::IBV_QP_RQ_PSN];
    assert_eq!(a.mask, mask(&[&own[..], &both].concat()));
    assert_eq!((a.c.dest_qp_num, a.c.rq_psn, a.c.path_mtu), (0x1234, 0x5678, 4));
    assert_eq!((a.c.max_dest_rd_atomic, a.c.min_rnr_timer), (7, 12));
    assert_eq!(AddressVector::from_c(&a.c.ah_attr), address);
    let a = filled::<Uc, Init, _>(UcRtr::new(address, qpn, psn));
    assert_eq!((a.mask, a.c.dest_qp_num, a.c.rq_psn), (mask(&both), 0x1234, 0x5678));
}

#[test]
fn what_a_connection_is_told_to_send() {
    let psn = Psn::try_from(0x9abc).unwrap();
    for (timeout, c) in
        [(Timeout::Infinite, 0), (Timeout::MS_67, 14), (Timeout::exponent(31).unwrap(), 31)]
    {
        let rts: RcRts<DefaultProfile> = RcRts {
            timeout,
            retry_cnt: RetryCount::new(5).unwrap(),
            rnr_retry: RnrRetry::Infinite,
            ..RcRts::new(psn, ReadDepth::new(3).unwrap())
        };
        let a = filled::<Rc, Rtr, _>(rts);
        assert_eq!((a.c.timeout, a.c.retry_cnt, a.c.rnr_retry), (c, 5, 7));
        assert_eq!((a.c.sq_psn, a.c.max_rd_atomic), (0x9abc, 3));
        let told = [
            Mask::IBV_QP_TIMEOUT,
            Mask::IBV_QP_RETRY_CNT,
            Mask::IBV_QP_RNR_RETRY,
            Mask::IBV_QP_SQ_PSN,
            Mask::IBV_QP_MAX_QP_RD_ATOMIC,
        ];
        assert_eq!(a.mask, mask(&told));
    }
    let rts: RcRts<DefaultProfile> = RcRts::new(psn, ReadDepth::ONE);
    let a = filled::<Rc, Rtr, _>(rts);
    assert_eq!((a.c.timeout, a.c.retry_cnt, a.c.rnr_retry, a.c.max_rd_atomic), (14, 6, 6, 1));
}

#[test]
fn an_address_has_the_port_of_its_queue_pair() {
    let address = AddressVector::roce(2, Gid([9; 16]), 3);
    let (qpn, psn) = (Qpn::try_from(1).unwrap(), Psn::try_from(0).unwrap());
    let mut a = filled::<Rc, Init, _>(RcRtr::new(address, qpn, psn));
    assert_eq!((a.port_or(1), a.c.ah_attr.port_num), (1, 1));
    let mut a = filled::<Rc, Reset, _>(ConnectedInit {
        pkey_index: 4,
        port: 3,
        access: QpAccess::REMOTE_READ,
    });
    assert_eq!((a.port_or(1), a.c.ah_attr.port_num, a.c.pkey_index), (3, 3, 4));
    assert_eq!(a.c.qp_access_flags, QpAccess::REMOTE_READ.bits());
}

/// A queue pair that rdma_cm moved to RTS has the same message limit as any other. It is unchanged
/// if its port does not report one.
#[cfg(feature = "cm")]
#[test]
fn what_cm_moves_knows_its_longest_message() {
    let context = crate::loopback::Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let cq: CompletionQueue = context.create_cq(16).unwrap();
    let ready = || {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 1, recv: 1 }).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        let (qpn, psn) = (Qpn::try_from(qp.qp_num()).unwrap(), Psn::try_from(0).unwrap());
        let address = AddressVector::roce(1, context.query_gid(1, 1).unwrap(), 1);
        qp.modify(init).unwrap().modify(RcRtr::new(address, qpn, psn)).unwrap()
    };
    let (qp, usual) = (ready(), ready());
    let rts = RcRts::new(Psn::try_from(0).unwrap(), ReadDepth::ONE);
    let usual = usual.modify(rts).unwrap().core.counters.longest_message();
    assert_ne!(qp.core.counters.longest_message(), usual);
    assert_eq!(qp.moved_by_cm().unwrap().core.counters.longest_message(), usual);
    let mut elsewhere = ready();
    elsewhere.core.port = 9;
    let before = elsewhere.core.counters.longest_message();
    let (elsewhere, error) = elsewhere.moved_by_cm().unwrap_err().into_parts();
    assert_eq!(error.verb(), "ibv_query_port");
    assert_eq!(elsewhere.core.counters.longest_message(), before);
}
