// R4.3, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteAtomic>) {
    qp.post_send(wr::FetchAndAdd::new(buf, peer.atomic(0).unwrap(), 1)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteAtomic>) {
    post_send!(qp, [wr::FetchAndAdd::new(buf, peer.atomic(0).unwrap(), 1)]).unwrap();
}
