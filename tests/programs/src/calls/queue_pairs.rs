//! Queue pairs: creating and states.

use super::*;

/// weight 8; kin pd cq; on cq
fn create_qp(
    w: &World,
    pd: &Pd,
    cq: &Cq<EntryOf<AnyProfile>>,
) -> Option<Qp<AnyTransport, Reset, AnyProfile>> {
    w.made(pd.create_qp::<AnyTransport, AnyProfile>(cq, &cq.handle(), DEPTH))
}

/// weight 8
fn more_than_any_device_has(w: &World, context: &Context, pd: &Pd, cq: &Cq<BufList>) {
    let most = w.pick(0, [u32::MAX, 0x8000_0000, 0x7fff_ffff]);
    if pd.create_qp::<AnyTransport, Huge>(cq, cq, DEPTH).is_ok()
        || pd.create_qp::<AnyTransport, Lists>(cq, cq, Depth { send: most, recv: 8 }).is_ok()
        || context.create_cq::<Buf>(most).is_ok()
    {
        w.complain("a queue pair was made with more than any device has")
    }
}

/// weight 5; kin pd cq other; on cq other
fn create_qp_on_two(
    w: &World,
    pd: &Pd,
    cq: &Cq<EntryOf<AnyProfile>>,
    other: &Cq<EntryOf<AnyProfile>>,
) -> Option<Qp<AnyTransport, Reset, AnyProfile>> {
    w.made(pd.create_qp::<AnyTransport, AnyProfile>(cq, other, DEPTH))
}

/// weight 5; kin pd cq srq; on cq
fn create_qp_on_srq(
    w: &World,
    pd: &Pd,
    cq: &Cq<Buf>,
    srq: &Srq<T>,
) -> Option<Qp<T, Reset, AnyShared>> {
    w.brings(srq.id(), cq.id());
    w.made(pd.create_qp::<T, AnyShared>(cq, cq, Depth::on_srq(7, srq)))
}

/// weight 3; on cq other
fn pair(
    w: &World,
    context: &Context,
    pd: &Pd,
    cq: &Cq<EntryOf<AnyProfile>>,
    other: &Cq<EntryOf<AnyProfile>>,
) -> (Option<Qp<AnyTransport, Rts, AnyProfile>>, Option<Qp<AnyTransport, Rts, AnyProfile>>) {
    w.join(
        context,
        w.made(pd.create_qp::<AnyTransport, AnyProfile>(cq, cq, DEPTH)),
        w.made(pd.create_qp::<AnyTransport, AnyProfile>(other, other, DEPTH)),
        None,
        ALIKE,
    )
}

/// weight 6; on cq
fn pair_on_one(
    w: &World,
    context: &Context,
    pd: &Pd,
    cq: &Cq<EntryOf<AnyProfile>>,
) -> (Option<Qp<AnyTransport, Rts, AnyProfile>>, Option<Qp<AnyTransport, Rts, AnyProfile>>) {
    w.join(
        context,
        w.made(pd.create_qp::<AnyTransport, AnyProfile>(cq, cq, DEPTH)),
        w.made(pd.create_qp::<AnyTransport, AnyProfile>(cq, cq, DEPTH)),
        None,
        ALIKE,
    )
}

/// weight 3; on cq
fn pair_of_sessions(
    w: &World,
    context: &Context,
    pd: &Pd,
    cq: &Cq<Buf>,
) -> (Option<Qp<Rc, Rts, AnyDirect>>, Option<Qp<Rc, Rts, AnyDirect>>) {
    w.join(
        context,
        w.made(pd.create_qp::<Rc, AnyDirect>(cq, cq, DEPTH)),
        w.made(pd.create_qp::<Rc, AnyDirect>(cq, cq, DEPTH)),
        None,
        ALIKE,
    )
}

/// weight 6; on cq
fn pair_on_srq(
    w: &World,
    context: &Context,
    pd: &Pd,
    cq: &Cq<Buf>,
    srq: &Srq<T>,
) -> (Option<Qp<T, Rts, AnyShared>>, Option<Qp<T, Rts, AnyShared>>) {
    w.brings(srq.id(), cq.id());
    w.join(
        context,
        w.made(pd.create_qp::<T, AnyShared>(cq, cq, Depth::on_srq(7, srq))),
        w.made(pd.create_qp::<T, AnyShared>(cq, cq, Depth::on_srq(7, srq))),
        Some(srq.id()),
        ALIKE,
    )
}

/// weight 5
fn modify_init(w: &World, qp: Qp<AnyConnected, Reset, P>) -> Option<Qp<AnyConnected, Init, P>> {
    w.parts(qp.qp_num());
    qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() }).ok()
}

/// weight 2
fn modify_init_again(
    w: &World,
    qp: Qp<AnyConnected, Init, P>,
) -> Option<Qp<AnyConnected, Init, P>> {
    let pkey = w.pick(0, [Some(0), Some(9), None]);
    qp.modify(ConnectedReinit { pkey_index: pkey, ..Default::default() })
        .map_or_else(|refused| Some(refused.into_object()), Some)
}

/// weight 5
fn modify_rtr_of_rc(w: &World, context: &Context, qp: Qp<Rc, Init, P>) -> Option<Qp<Rc, Rtr, P>> {
    w.vector(context).and_then(|to| {
        let peer = qp.qp_num();
        qp.modify(RcRtr::new(to, qpn(peer), psn())).ok()
    })
}

/// weight 5
fn modify_rts_of_rc(w: &World, qp: Qp<Rc, Rtr, P>) -> Option<Qp<Rc, Rts, P>> {
    qp.modify(RcRts::new(psn(), ReadDepth::ONE)).ok()
}

/// weight 5
fn modify_init_to_rts_of_ud(w: &World, qp: Qp<Ud, Reset, P>) -> Option<Qp<Ud, Init, P>> {
    let port = w.pick(0, [1, 1, 1, 7]);
    qp.modify(UdInit { pkey_index: 0, port: port, qkey: qkey().into() }).ok()
}

/// weight 3
fn modify_sqd(w: &World, qp: Qp<T, Rts, P>) -> Option<Qp<T, Draining, P>> {
    let notify = w.pick(0, [true, false]);
    qp.modify(Drain { notify: notify }).ok()
}

/// weight 3
fn modify_back(w: &World, qp: Qp<Rc, Sqd, P>) -> Option<Qp<Rc, Rts, P>> {
    qp.modify(RcReturn::default()).ok()
}

/// weight 3
fn query_paths(w: &World, qp: Qp<Rc, Rts, P>, context: &Context) -> Option<Qp<Rc, Rts, P>> {
    let migration = w.pick(0, [None, Some(Migration::Rearm), Some(Migration::Migrate)]);
    let _ = qp.query_paths();
    let alternate = w.vector(context).map(AlternatePath::new);
    let migration = migration;
    Some(
        qp.modify(RcReturn(RcRtsOptional { alternate, migration, ..Default::default() }))
            .unwrap_or_else(|refused| refused.into_object()),
    )
}

/// weight 18
fn to_error(w: &World, qp: Qp<T, AnyFails, P>) -> Option<Qp<T, Err, P>> {
    qp.to_error().ok()
}

/// weight 3
fn reset(w: &World, qp: Qp<T, AnyState, P>) -> Option<Qp<T, Reset, P>> {
    qp.reset().ok()
}

/// weight 2
fn into_sqe(w: &World, qp: Qp<AnyStops, Rts, P>) -> Option<Qp<AnyStops, Sqe, P>> {
    qp.into_sqe().ok()
}

/// weight 3
fn into_sqd(w: &World, qp: Qp<T, Draining, P>) -> Option<Qp<T, Sqd, P>> {
    qp.into_sqd().ok()
}

/// weight 6
fn queue_pair_destroy(w: &World, qp: Qp<T, S, P>) {
    let _ = qp.destroy();
}

/// weight 10
fn drain(w: &World, qp: &mut Qp<T, Err, P>, cq: &mut Cq<EntryOf<P>>) -> Option<Vec<EntryOf<P>>> {
    let mut home = Vec::new();
    let _ = qp.drain_within(cq, w.patience(), |found| {
        if let Drained::Entry(entry) = found {
            home.push(entry)
        }
    });
    Some(home)
}

/// weight 10
fn drain_within(
    w: &World,
    qp: &mut Qp<T, Err, P>,
    cq: &mut Cq<EntryOf<P>>,
) -> Option<Vec<EntryOf<P>>> {
    let micros = w.pick(0, [0, 0, 10, 2000]);
    let mut home = Vec::new();
    let most = std::time::Duration::from_micros(micros);
    let _ = w.within(most, || {
        qp.drain_within(cq, most, |found| {
            if let Drained::Entry(entry) = found {
                home.push(entry)
            }
        })
    });
    Some(home)
}

/// weight 8; panics
fn drain_with_a_panic(w: &World, qp: &mut Qp<T, Err, P>, cq: &mut Cq<EntryOf<P>>) {
    let n = w.pick(0, [1, 2, 3]);
    let mut most = n;
    let _ = qp.drain_within(cq, w.patience(), |_| {
        most -= 1;
        if most == 0 {
            planned()
        }
    });
}

/// weight 18; at qp cq
fn drain_and_destroy(
    w: &World,
    qp: Qp<T, Err, P>,
    cq: &mut Cq<EntryOf<P>>,
) -> Option<Vec<EntryOf<P>>> {
    Some(w.ended(qp, cq))
}

/// weight 10; at qp cq
fn flushed(w: &World, qp: &mut Qp<T, Err, P>, cq: &mut Cq<EntryOf<P>>) {
    w.flushed(qp, cq);
}

/// weight 3
fn queue_pair_query(w: &World, qp: &mut Qp<T, S, P>) {
    let _ = (
        qp.qp_num(),
        qp.depth(),
        qp.granted_depth(),
        qp.max_inline(),
        qp.send_room(),
        qp.recv_room(),
        qp.query(),
        qp.data_in_order::<wr::Send>(),
    );
}

/// weight 4
fn a_queue_pair_in_a_field_is_reset(
    w: &World,
    qp: Qp<T, AnyState, AnyQuiet>,
) -> Option<Qp<T, Reset, AnyQuiet>> {
    let n = w.pick(0, [0, 1, 2]);
    let mut any = AnyQueuePair::from(qp);
    for _ in 0..n {
        let _ = any.to_error();
    }
    if any.reset().is_ok() != (any.state() == state::QpState::Reset) {
        w.complain("a field does not know its state")
    }
    any.into_state::<state::Reset>().ok()
}

/// weight 20
fn a_queue_pair_in_a_field_is_reset_and_with_its_receives_goes_a_pool(
    w: &World,
    qp: Qp<T, AnyPostsRecvs, AnyNoisy>,
    cq: Cq<EntryOf<AnyNoisy>>,
    loud: LoudPool,
) -> Option<Qp<T, Reset, AnyNoisy>> {
    let mut any = AnyQueuePair::from(qp);
    if let (Some(qp), Some(buf)) = (any.as_state::<AnyPostsRecvs>(), loud.take()) {
        w.posted(qp.post_recv(wr::Recv::new(buf)));
    }
    w.catch(|| drop(loud));
    w.catch(|| drop(cq));
    w.catch(|| drop(any.reset()));
    w.catch(|| drop(any.reset()));
    if any.sends_outstanding() + any.recvs_outstanding() != 0 {
        w.complain(&format!("{:#x} is in RESET, and work is outstanding", any.qp_num()))
    }
    any.into_state::<state::Reset>().ok()
}

/// weight 2
fn a_queue_pair_in_a_field_drains_and_is_destroyed(w: &World, qp: Qp<T, Draining, AnyQuiet>) {
    let mut any = AnyQueuePair::from(qp);
    let _ = (any.query(), any.to_sqd(), any.destroy());
}

/// weight 2
fn a_queue_pair_in_a_field_is_told_what_only_another_state_allows(
    w: &World,
    qp: Qp<Uc, Err, AnyQuiet>,
) -> Option<Qp<Uc, Err, AnyQuiet>> {
    let mut any = AnyQueuePair::from(qp);
    let went = any.to_sqe().is_ok()
        || any
            .modify::<state::Reset, _>(ConnectedInit {
                pkey_index: 0,
                port: 1,
                access: QpAccess::all(),
            })
            .is_ok();
    if went {
        w.complain("a field changed from a state that it is not in")
    }
    any.into_state::<state::Err>().ok()
}
