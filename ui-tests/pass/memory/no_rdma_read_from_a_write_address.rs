// R6.7, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSlice<RemoteAll>) {
    qp.post_send(wr::RdmaRead::new(buf, at.read())).unwrap();
}
