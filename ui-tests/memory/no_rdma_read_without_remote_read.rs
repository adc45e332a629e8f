// Proves R6.7, ibv_reg_mr(3): no rdma read without remote read.
// Enforced by `GrantsRead`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteWrite>) {
    qp.post_send(wr::RdmaRead::new(buf, peer.read())).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteWrite>) {
    post_send!(qp, [wr::RdmaRead::new(buf, peer.read())]).unwrap();
}

fn main() {}
