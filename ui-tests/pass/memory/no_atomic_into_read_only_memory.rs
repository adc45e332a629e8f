// R4.5, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, cell: RemoteCell) {
    qp.post_send(wr::FetchAndAdd::new(buf, cell, 1)).unwrap();
}
