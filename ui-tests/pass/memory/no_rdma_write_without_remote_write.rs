// R6.7, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteWrite>) {
    qp.post_send(wr::RdmaWrite::new(buf, peer.write())).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteWrite>) {
    post_send!(qp, [wr::RdmaWrite::new(buf, peer.write())]).unwrap();
}
