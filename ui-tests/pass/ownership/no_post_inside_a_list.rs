// R9.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn nested(qp: &mut QueuePair<Rc, Rts>, first: Buf, second: Buf) {
    qp.post_send(wr::Send::new(second)).unwrap();
    post_send!(qp, [wr::Send::new(first), { wr::Send::new(wr::Empty) },]).unwrap();
}
