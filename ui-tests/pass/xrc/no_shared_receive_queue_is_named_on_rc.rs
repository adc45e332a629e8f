// R26.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}
