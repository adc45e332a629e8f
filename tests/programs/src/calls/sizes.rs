//! Sizes that change, completion vectors, GIDs, and optional features.

use super::*;

/// weight 14
fn completion_queue_resize(w: &World, cq: &mut Cq<E>) {
    let n = w.pick(0, [1, 17, 40, 64, 100, 200, u32::MAX]);
    w.resized(cq, n);
}

/// weight 6
fn shared_receive_queue_resize(w: &World, srq: &mut Srq<T>) {
    let n = w.pick(0, [0, 1, 4, 12, 100, u32::MAX]);
    w.shrinks();
    let _ = srq.resize(n);
    if srq.recvs_outstanding() > BUFFERS {
        w.complain("more receives are outstanding than there are buffers")
    }
}

/// weight 3
fn comp_vectors(w: &World, context: &Context) -> Option<Vector> {
    let n = w.pick(0, [0, 0, 1]);
    context.comp_vectors().into_iter().nth(n).filter(|it| it.index() == n as u32)
}

/// weight 6; kin context channel vector
fn cq_on_vector(
    w: &World,
    context: &Context,
    channel: &Channel,
    vector: &Vector,
) -> Option<Cq<AnyEntry>> {
    w.made(context.cq(64).channel(channel).vector(vector).create::<AnyEntry>())
}

/// weight 3
fn roce_v2_gid(w: &World, context: &Context) -> Option<RoceV2Gid> {
    let index = w.pick(0, [0, 1, 255]);
    let port = w.pick(0, [1, 1, 1, 2]);
    let _ = (context.gid_table(1), context.query_gid_entry(1, index));
    context.roce_v2_gid(port).ok().filter(|it| it.port() == port && it.index() < 200)
}

/// weight 5
fn roce_v2(w: &World, pd: &Pd, source: RoceV2Gid) -> Option<Ah> {
    AddressVector::roce_v2(source, source.gid()).ok().and_then(|to| pd.create_ah(to).ok())
}

/// weight 5
fn modify_rtr_of_rc_from_a_gid(
    w: &World,
    qp: Qp<Rc, Init, P>,
    source: RoceV2Gid,
) -> Option<Qp<Rc, Rtr, P>> {
    AddressVector::roce_v2(source, source.gid()).ok().and_then(|to| {
        let peer = qp.qp_num();
        qp.modify(RcRtr::new(to, qpn(peer), psn())).ok()
    })
}

/// weight 2
fn abilities(w: &World, context: &Context) -> Option<Proof> {
    let _ = (context.query_device_ex(), context.transport_type());
    context.abilities().ok().and_then(|it| it.can::<ResizeSrq>())
}

/// weight 2
fn is_of(w: &World, proof: &Proof, context: &Context) -> Option<Proof> {
    let _ = proof.is_of(context);
    Some(proof.clone())
}

/// weight 1
fn as_raw(w: &World, context: &Context, pd: &Pd, cq: &Cq<E>, qp: &Qp<T, S, P>) {
    let _ = (context.as_raw(), pd.as_raw(), cq.as_raw(), qp.as_raw());
}
