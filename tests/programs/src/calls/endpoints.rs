//! Endpoints.

use super::*;

/// weight 8
fn rc_connector_new(w: &World, qp: Qp<Rc, Init, P>) -> Option<Connector<P>> {
    endpoint::RcConnector::new(qp, Some(1)).ok()
}

/// weight 8
fn its_endpoint(w: &World, connector: &Connector<P>) -> Option<Endpoint> {
    Some(connector.endpoint().clone())
}

/// weight 8
fn connect_to(w: &World, connector: Connector<P>, peer: &Endpoint) -> Option<Qp<Rc, Rts, P>> {
    connector.connect_to(peer).ok()
}

/// weight 3
fn into_qp(w: &World, connector: Connector<P>) -> Option<Qp<Rc, Init, P>> {
    Some(connector.into_qp())
}

/// weight 4
fn receives_posted_within_its_connector(
    w: &World,
    connector: &mut Connector<AnyProfile>,
    buf: Buf,
) {
    let mut qp = connector.qp();
    if qp.recv_room() != 0 {
        w.posted(qp.post_recv(wr::Recv::new(buf)));
    }
}

/// weight 4
fn set_mtu(w: &World, connector: &mut Connector<P>, remote: Slice<A>) {
    connector.set_mtu(Mtu::Bytes4096);
    connector.set_psn(psn());
    connector.set_initiator_depth(ReadDepth::ONE);
    connector.set_responder_depth(ResponderDepth::ONE);
    let _ = connector.export(remote);
}

/// weight 5
fn of_rc(w: &World, context: &Context, qp: &Qp<Rc, Init, P>) -> Option<Endpoint> {
    endpoint::Endpoint::of_rc(qp, Some(1)).ok().and_then(|it| {
        let _ = it.address(context, 1, Some(1));
        endpoint::Endpoint::from_bytes(&it.to_bytes()).ok()
    })
}

/// weight 2
fn exchange(w: &World) {
    let millis = w.pick(0, [1, 3, 10]);
    let speaks = w.pick(0, [true, true, false]);
    let most = std::time::Duration::from_millis(millis);
    if let Some(mine) = w.endpoint() {
        let _ = w.within(most, || endpoint::exchange(&mut w.peer(speaks), &mine, most));
    }
}

/// weight 1
fn attach_mcast(w: &World, context: &Context, qp: &mut Qp<Ud, S, P>) {
    let index = w.pick(0, [1, 2]);
    if let Ok(gid) = context.query_gid(1, index) {
        let _ = (qp.attach_mcast(gid, 0), qp.detach_mcast(gid, 0));
    }
}

/// weight 6
fn export(w: &World, region: &Region<RemoteAll, M>) -> Option<Slice<AnyOpen>> {
    Some(region.export::<AnyOpen>())
}

/// weight 6
fn connect(
    w: &World,
    connector: Connector<P>,
    peer: &Endpoint,
) -> (Option<Qp<Rc, Rts, P>>, Option<Qp<Rc, Init, P>>) {
    let last = w.pick(0, [&b"pvok"[..], b"pvok", b"pvno", b"what", b"pv", b""]);
    let millis = w.pick(0, [3, 10, 10]);
    let slow = w.pick(0, [false, false, true]);
    let most = std::time::Duration::from_millis(millis);
    match w
        .within(most, || connector.connect(&mut w.told(peer, last, slow), most))
        .map_err(|refused| refused.into_object())
    {
        Ok((qp, _)) | Err(endpoint::Stage::Rts(qp)) => (Some(qp), None),
        Err(endpoint::Stage::Init(qp)) => (None, Some(qp)),
        Err(_) => (None, None),
    }
}
