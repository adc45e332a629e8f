// R2.7, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 64]) {
    qp.post_send(wr::Send::inline(bytes)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 64]) {
    post_send!(qp, [wr::Send::inline(bytes)]).unwrap();
}
