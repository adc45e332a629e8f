//! The state tables: every transition, and refusals that change nothing.

use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount, Timeout};
use proverbs::prelude::*;
use proverbs::qp::{
    ConnectedReinit, Drain, QpAttr, QpQkey, RcReturn, RcRtsOptional, RcSqd, RtrOptional, UcReturn,
    UcSqd, UdReinit, UdReturn, UdSqd,
};
use proverbs::state::{QpState, State};
use proverbs::transport::Transport;

use crate::support::*;

fn state<T: Transport, S: State, P: Profile>(qp: &QueuePair<T, S, P>) -> QpState {
    qp.query().unwrap().state.unwrap()
}

fn fresh<T: proverbs::rules::HasBothQueues>(
    dev: &Device,
) -> (QueuePair<T, Reset>, CompletionQueue) {
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq(20).unwrap();
    (pd.create_qp(&cq, &cq, Wish::new().depth).unwrap(), cq)
}

#[test]
fn rc_makes_every_transition() {
    fails_on!(Iwarp, "R24.5");
    let (dev, wish) = (Device::open(), Wish::new());
    let (qp, _cq) = fresh::<Rc>(&dev);
    let number = qp.qp_num();
    assert_eq!(state(&qp), QpState::Reset);
    let qp = Rc::init(qp, &wish);
    assert_eq!(state(&qp), QpState::Init);
    let access = QpAccess::REMOTE_READ;
    let qp = qp.modify(ConnectedReinit { access: Some(access), ..Default::default() }).unwrap();
    assert_eq!((state(&qp), qp.query().unwrap().access), (QpState::Init, access));
    let qp = Rc::rtr(qp, &dev, number, &wish);
    assert_eq!(state(&qp), QpState::Rtr);
    let qp = Rc::rts(qp, &wish);
    assert_eq!(state(&qp), QpState::Rts);
    let access = QpAccess::REMOTE_WRITE;
    let options = RcRtsOptional {
        access: Some(access),
        min_rnr_timer: MinRnrTimer::new(3),
        ..Default::default()
    };
    let qp = qp.modify(RcReturn(options)).unwrap();
    assert_eq!((state(&qp), qp.query().unwrap().access), (QpState::Rts, access));
    let qp = stop(&dev, qp);
    assert_eq!(state(&qp), QpState::Sqd);
    let changes = RcSqd {
        retry_cnt: RetryCount::new(1),
        timeout: Timeout::exponent(9),
        access: Some(QpAccess::all()),
        ..RcSqd::default()
    };
    let qp = drained(&dev, qp.modify(changes).unwrap());
    assert_eq!((state(&qp), qp.query().unwrap().access), (QpState::Sqd, QpAccess::all()));
    let qp = qp.modify(RcReturn::default()).unwrap();
    assert_eq!(state(&qp), QpState::Rts);
    let qp = qp.to_error().unwrap();
    assert_eq!(state(&qp), QpState::Err);
    let qp = qp.reset().unwrap();
    assert_eq!((state(&qp), qp.qp_num()), (QpState::Reset, number));
}

/// Proves R8.4.
#[test]
fn an_address_takes_its_port_from_the_queue_pair() {
    fails_on!(Iwarp, "R24.2");
    let (dev, wish) = (Device::open(), Wish::new());
    let (qp, _cq) = fresh::<Uc>(&dev);
    let number = Qpn::try_from(qp.qp_num()).unwrap();
    let address = AddressVector { port: 9, ..dev.vector() };
    let rtr = UcRtr::new(address, number, Psn::new(wish.psn).unwrap());
    let qp = Uc::init(qp, &wish).modify(rtr).unwrap();
    assert_eq!((state(&qp), qp.query().unwrap().port), (QpState::Rtr, 1));
}

#[test]
fn uc_makes_every_transition() {
    fails_on!(Iwarp, "R24.2");
    let (dev, wish) = (Device::open(), Wish::new());
    let (qp, _cq) = fresh::<Uc>(&dev);
    let number = qp.qp_num();
    let qp = Uc::init(qp, &wish).modify(ConnectedReinit::default()).unwrap();
    let qp = Uc::rtr(qp, &dev, number, &wish);
    assert_eq!(state(&qp), QpState::Rtr);
    let qp = Uc::rts(qp, &wish).modify(UcReturn::default()).unwrap();
    assert_eq!(state(&qp), QpState::Rts);
    let qp = stop(&dev, qp);
    let access = QpAccess::REMOTE_WRITE;
    let qp = qp.modify(UcSqd { access: Some(access), ..Default::default() }).unwrap();
    let qp = drained(&dev, qp);
    assert_eq!((state(&qp), qp.query().unwrap().access), (QpState::Sqd, access));
    let qp = qp.modify(UcReturn::default()).unwrap();
    let refused = qp.into_sqe().unwrap_err();
    let text = "ibv_query_qp: EINVAL: Invalid argument (the queue pair is in RTS)";
    assert_eq!(said(&refused), text);
    let qp = refused.into_object().reset().unwrap();
    assert_eq!(state(&qp), QpState::Reset);
}

#[test]
fn ud_makes_every_transition() {
    fails_on!(Iwarp, "R24.2");
    let (dev, wish) = (Device::open(), Wish::new());
    let (qp, _cq) = fresh::<Ud>(&dev);
    let key = |key| Some(QpQkey::Ordinary(Qkey::new(key).unwrap()));
    let qkey = |qp: QpAttr| (qp.state.unwrap(), qp.qkey);
    let qp = Ud::init(qp, &wish);
    assert_eq!(qkey(qp.query().unwrap()), (QpState::Init, QKEY));
    let qp = qp.modify(UdReinit { qkey: key(1), ..Default::default() }).unwrap();
    assert_eq!(qkey(qp.query().unwrap()), (QpState::Init, 1));
    let qp = qp.modify(UdRtr { qkey: key(2), ..Default::default() }).unwrap();
    assert_eq!(qkey(qp.query().unwrap()), (QpState::Rtr, 2));
    let qp = qp.modify(UdRts { sq_psn: Psn::new(5).unwrap(), qkey: key(3) }).unwrap();
    assert_eq!(qkey(qp.query().unwrap()), (QpState::Rts, 3));
    let qp = stop(&dev, qp);
    let qp = drained(&dev, qp.modify(UdSqd { qkey: key(4), ..Default::default() }).unwrap());
    assert_eq!(qkey(qp.query().unwrap()), (QpState::Sqd, 4));
    let qp = qp.modify(UdReturn { qkey: key(5) }).unwrap();
    assert_eq!(qkey(qp.query().unwrap()), (QpState::Rts, 5));
    let qp = qp.to_error().unwrap();
    assert_eq!(state(&qp.reset().unwrap()), QpState::Reset);
}

/// Proves R8.17.
#[test]
fn every_state_but_reset_leads_to_error_and_every_state_to_reset() {
    fails_on!(Iwarp, "R24.6");
    let (dev, wish) = (Device::open(), Wish::new());
    let (qp, _cq) = fresh::<Rc>(&dev);
    let number = qp.qp_num();
    let again = |qp: QueuePair<Rc, state::Err>| {
        assert_eq!(state(&qp), QpState::Err);
        qp.reset().unwrap()
    };
    let qp = again(Rc::init(qp.reset().unwrap(), &wish).to_error().unwrap());
    let qp = again(Rc::rtr(Rc::init(qp, &wish), &dev, number, &wish).to_error().unwrap());
    let qp = again(Rc::up(qp, &dev, number, &wish).to_error().unwrap());
    let sqd = stop(&dev, Rc::up(qp, &dev, number, &wish));
    let qp = again(sqd.to_error().unwrap());
    let qp = Rc::init(qp, &wish).reset().unwrap();
    let qp = Rc::rtr(Rc::init(qp, &wish), &dev, number, &wish).reset().unwrap();
    let sqd = stop(&dev, Rc::up(qp, &dev, number, &wish));
    assert_eq!(state(&sqd.reset().unwrap()), QpState::Reset);
}

/// Proves R8.1, R8.5.
#[test]
fn a_refused_transition_returns_the_queue_pair_unchanged() {
    fails_on!(Iwarp, "R24.5");
    let (dev, wish) = (Device::open(), Wish::new());
    let (qp, _cq) = fresh::<Rc>(&dev);
    let number = qp.qp_num();
    let all = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let refused = qp.modify(ConnectedInit { port: 9, ..all }).unwrap_err();
    let text = "ibv_modify_qp: EINVAL: Invalid argument (RESET -> INIT; port 9 does not exist: this \
                device has 1 port)";
    assert_eq!(said(&refused), text);
    let qp = refused.into_object();
    assert_eq!(state(&qp), QpState::Reset);
    let qp = qp.modify(all).unwrap();
    let refused = qp.modify(ConnectedReinit { port: Some(9), ..Default::default() }).unwrap_err();
    let qp = refused.into_object();
    assert_eq!(state(&qp), QpState::Init);
    let rtr = RcRtr {
        address: dev.vector(),
        path_mtu: Mtu::Bytes1024,
        dest_qpn: Qpn::new(number).unwrap(),
        rq_psn: Psn::new(1).unwrap(),
        max_dest_rd_atomic: ResponderDepth::new(1).unwrap(),
        min_rnr_timer: MinRnrTimer::new(1).unwrap(),
        optional: RtrOptional::default(),
    };
    // On RoCE an address needs more than a LID (R8.5).
    let address = AddressVector::infiniband(1, 3);
    let refused = qp.modify(RcRtr { address, ..rtr }).unwrap_err();
    let text = "ibv_modify_qp: EINVAL: Invalid argument (INIT -> RTR by port 1, dlid 3; RoCE needs \
                a GID in the address: use `AddressVector::roce`)";
    assert_eq!(said(&refused), text);
    // It can still be used.
    let mut qp = refused.into_object();
    assert_eq!(state(&qp), QpState::Init);
    qp.post_recv(wr::Recv::empty()).unwrap();
    let mut qp = Rc::rts(qp.modify(rtr).unwrap(), &wish);
    qp.post_recv(wr::Recv::empty()).unwrap();
    let qp = stop(&dev, qp);
    let refused = qp.modify(RcSqd { port: Some(9), ..RcSqd::default() }).unwrap_err();
    let qp = refused.into_object();
    assert_eq!(state(&qp), QpState::Sqd);
    let qp = qp.modify(RcReturn::default()).unwrap();
    assert_eq!((state(&qp), qp.recvs_outstanding()), (QpState::Rts, 2));
}

/// Proves R8.12.
#[test]
fn a_pkey_index_beyond_the_table() {
    fails_on!(Iwarp, "R24.2");
    let dev = Device::open();
    let (qp, _cq) = fresh::<Ud>(&dev);
    let qkey = Qkey::new(QKEY).unwrap().into();
    let result = qp.modify(UdInit { pkey_index: 5, port: 1, qkey });
    by_rule!(dev, "R8.12",
        loopback: assert_eq!(state(&result.unwrap_err().into_object()), QpState::Reset),
        rxe: assert_eq!(state(&result.unwrap()), QpState::Init));
}

/// Proves R8.21.
#[test]
fn a_draining_send_queue_is_not_in_sqd() {
    fails_on!(IwarpOtherwise, "R24.12");
    let mut p = Pair::<Rc>::new();
    // The peer has no receive, so it is retried.
    p.a.post_send(wr::Send::inline(b"begun")).unwrap();
    assert!(p.ca.poll().unwrap().is_empty());
    let draining = p.a.modify(Drain { notify: false }).unwrap();
    let draining = match draining.into_sqd() {
        Err(refused) => {
            let text = "ibv_query_qp: EAGAIN: Resource temporarily unavailable (its send queue is draining)";
            assert_eq!(said(&refused.error), text);
            refused.into_object()
        }
        // Soft-RoCE may not have begun it, and then holds it.
        Ok(_) => return assert_eq!(p.dev.kind, Kind::Rxe),
    };
    assert_eq!(state(&draining), QpState::Sqd);
    if p.dev.kind == Kind::Rxe {
        return; // It holds the send that it must retry until it is back in RTS.
    }
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    drop(poll(&p.dev, &mut p.ca, 1).remove(0).sent());
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"begun");
    let a = drained(&p.dev, draining).modify(RcReturn::default()).unwrap();
    assert_eq!(state(&a), QpState::Rts);

    let refused = a.modify(Drain { notify: false }).unwrap().to_error().map(|dead| state(&dead));
    assert_eq!(refused.unwrap(), QpState::Err);
}

/// Proves R8.19.
#[test]
fn sends_are_held_while_the_send_queue_is_stopped() {
    fails_on!(Iwarp, "R24.5");
    let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc>::new();
    for _ in 0..4 {
        b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    }
    a.post_send(wr::Send::new(filled(&pool, b"0"))).unwrap();
    poll(&dev, &mut ca, 1);
    let mut a = stop(&dev, a);
    post_send!(a, [wr::Send::new(filled(&pool, b"1")), wr::Send::new(filled(&pool, b"2"))])
        .unwrap();
    // Receiving continues, and the message shows that `b` works.
    a.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    b.post_send(wr::Send::inline(b"back")).unwrap();
    assert_eq!(poll(&dev, &mut ca, 1).remove(0).received().data(), b"back");
    assert_eq!(a.sends_outstanding(), 2);
    let mut a = a.modify(RcReturn::default()).unwrap();
    // Soft-RoCE starts held sends only with the next post (rules, 8.2).
    a.post_send(wr::Send::new(filled(&pool, b"3"))).unwrap();
    poll(&dev, &mut ca, 3).into_iter().for_each(|done| drop(done.sent()));
    let mut got = Vec::new();
    for done in poll(&dev, &mut cb, 5) {
        if let Done::Received(received) = done {
            got.extend_from_slice(received.data());
        }
    }
    assert_eq!(got, b"0123");
}

/// Proves R7.12, R7.14.
#[test]
fn receives_may_be_posted_from_init_on() {
    fails_on!(Iwarp, "R24.5");
    let (dev, wish) = (Device::open(), Wish::new());
    let (qp, mut cq) = fresh::<Rc>(&dev);
    let number = qp.qp_num();
    let mut qp = Rc::init(qp, &wish);
    qp.post_recv(wr::Recv::empty()).unwrap();
    let mut qp = Rc::rtr(qp, &dev, number, &wish);
    qp.post_recv(wr::Recv::empty()).unwrap();
    let mut qp = Rc::rts(qp, &wish);
    qp.post_recv(wr::Recv::empty()).unwrap();
    // It is its own peer.
    for _ in 0..3 {
        qp.post_send(wr::Send::new(wr::Empty)).unwrap();
    }
    let done = poll(&dev, &mut cq, 6).into_iter();
    let receives = done.filter(|done| matches!(done, Done::Received(_)));
    assert_eq!(receives.count(), 3);
}
