// R6.7, ibv_reg_mr(3): no rdma read without remote read.
// Enforced by `GrantsRead`.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteWrite>) {
    qp.post_send(RdmaRead::new(buf, peer.read())).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteWrite>) {
    post_send!(qp, [RdmaRead::new(buf, peer.read())]).unwrap();
}

fn main() {}
