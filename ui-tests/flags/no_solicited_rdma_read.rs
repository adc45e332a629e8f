// Proves R2.3, ibv_post_send(3): no solicited rdma read.
// Enforced by `SolicitedOp`.
use proverbs::memory::ToRead;
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSpan<ToRead>) {
    qp.post_send(wr::RdmaRead::new(buf, at).solicited()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSpan<ToRead>) {
    post_send!(qp, [wr::RdmaRead::new(buf, at).solicited()]).unwrap();
}

fn main() {}
