// R20.6, ibv_query_device_ex(3): the legal twin of the test of this name.
use proverbs::device::Can;
use proverbs::ext::on_demand::{Implicit, ImplicitBuf, ImplicitRegion};
use proverbs::prelude::*;

type Both = (wr::Send, wr::RdmaWrite);
profile! { Sender { entry: ImplicitBuf<Rc, wr::Send> } }

fn other_transport(qp: &mut QueuePair<Rc, Rts, Sender>, buf: ImplicitBuf<Rc, wr::Send>) {
    let _ = qp.post_send(wr::Send::paged(buf));
}

fn other_operation(buf: ImplicitBuf<Rc, Both>, at: RemoteSlice<RemoteWrite>) {
    let _ = wr::RdmaWrite::paged(buf, at.write());
}

fn without_proof(
    pd: &ProtectionDomain,
    can: &Can<Implicit<Rc, wr::Send>>,
) -> ImplicitRegion<Rc, wr::Send> {
    pd.register_implicit(can).unwrap()
}

fn as_other_memory(buf: ImplicitBuf<Rc, wr::Send>) {
    let _ = wr::Send::paged(buf);
}
