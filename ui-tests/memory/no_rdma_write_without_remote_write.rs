// Proves R6.7, ibv_reg_mr(3): no rdma write without remote write.
// Enforced by `GrantsWrite`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteRead>) {
    qp.post_send(wr::RdmaWrite::new(buf, peer.write())).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteRead>) {
    post_send!(qp, [wr::RdmaWrite::new(buf, peer.write())]).unwrap();
}

fn main() {}
