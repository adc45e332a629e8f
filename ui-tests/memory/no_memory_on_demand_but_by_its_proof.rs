// Proves R20.6, ibv_query_device_ex(3): the device said that it sends memory on demand like this.
// Enforced by `PostOn` of `Paged`, and by `PagedIn`.
use proverbs::ext::on_demand::{ImplicitBuf, ImplicitRegion};
use proverbs::prelude::*;

profile! { Sender { entry: ImplicitBuf<Rc, wr::Send> } }

fn other_transport(qp: &mut QueuePair<Uc, Rts, Sender>, buf: ImplicitBuf<Rc, wr::Send>) {
    let _ = qp.post_send(wr::Send::paged(buf));
}

fn other_operation(buf: ImplicitBuf<Rc, wr::Send>, at: RemoteSlice<RemoteWrite>) {
    let _ = wr::RdmaWrite::paged(buf, at.write());
}

fn without_proof(pd: &ProtectionDomain) -> ImplicitRegion<Rc, wr::Send> {
    pd.register_implicit(&()).unwrap()
}

fn as_other_memory(buf: ImplicitBuf<Rc, wr::Send>) {
    let _ = wr::Send::new(buf);
}

fn main() {}
