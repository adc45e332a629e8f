// R1.2, R5.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Uc, Rts>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Uc, Rts>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf)]).unwrap();
}
