// Proves R2.3, ibv_post_send(3): no solicited rdma write.
// Enforced by `SolicitedOp`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSpan) {
    qp.post_send(wr::RdmaWrite::new(buf, at).solicited()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSpan) {
    post_send!(qp, [wr::RdmaWrite::new(buf, at).solicited()]).unwrap();
}

fn main() {}
