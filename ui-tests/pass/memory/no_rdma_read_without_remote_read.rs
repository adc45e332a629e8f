// R6.7, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteRead>) {
    qp.post_send(wr::RdmaRead::new(buf, peer.read())).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteRead>) {
    post_send!(qp, [wr::RdmaRead::new(buf, peer.read())]).unwrap();
}
