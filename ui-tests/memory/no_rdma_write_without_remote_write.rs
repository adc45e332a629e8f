// R6.7, ibv_reg_mr(3): no rdma write without remote write.
// Enforced by `GrantsWrite`.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteRead>) {
    qp.post_send(RdmaWrite::new(buf, peer.write())).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteRead>) {
    post_send!(qp, [RdmaWrite::new(buf, peer.write())]).unwrap();
}

fn main() {}
