// R4.2, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteAll>) {
    qp.post_send(wr::FetchAndAdd::new(buf, peer.atomic(8).unwrap(), 1)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteAll>) {
    post_send!(qp, [wr::FetchAndAdd::new(buf, peer.atomic(8).unwrap(), 1)]).unwrap();
}
