//! Datagrams.

use super::*;

/// weight 3
fn create_ah(w: &World, context: &Context, pd: &Pd) -> Option<Ah> {
    w.vector(context).and_then(|to| pd.create_ah(to).ok())
}

/// weight 1
fn address_handle_destroy(w: &World, ah: Ah) -> Option<Ah> {
    ah.destroy().err().map(|refused| refused.into_object())
}

/// weight 10
fn add_address_handle(w: &World, qp: &mut Qp<Ud, S, P>, ah: Ah) -> Option<AhIndex> {
    qp.add_address_handle(ah).ok()
}

/// weight 10
fn destination(w: &World, qp: &Qp<Ud, S, P>, index: AhIndex) -> Option<Dest> {
    Some(wr::Destination { address_handle: index, qpn: qpn(qp.qp_num()), qkey: qkey() })
}

/// weight 3
fn remove_address_handle(w: &World, qp: &mut Qp<Ud, S, P>, index: AhIndex) {
    let _ = qp.remove_address_handle(index);
}

/// weight 3
fn reap_address_handles(w: &World, qp: &mut Qp<Ud, S, P>) {
    let _ = qp.reap_address_handles();
}

/// weight 20
fn to(w: &World, qp: &mut Qp<Ud, AnyPostsSends, AnyQuiet>, pool: &Pool, to: Dest) {
    let len = w.pick(0, [0, 3, 20]);
    let n = w.pick(0, [1, 2, 4, 9]);
    let tag = w.pick(0, [1, 77, 250]);
    for i in 0..n {
        if let Some(buf) = pool.take() {
            w.posted(qp.post_send(wr::Send::new(tagged(buf, i + len, tag)).to(to)));
        }
    }
}

/// weight 3
fn to_unsignaled(w: &World, qp: &mut Qp<Ud, AnyPostsSends, AnySelective>, buf: Buf, to: Dest) {
    w.lenient();
    w.posted(qp.post_send_unsignaled(wr::SendWithImm::new(buf, 4).to(to)));
}
