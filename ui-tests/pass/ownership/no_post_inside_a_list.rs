// R9.1, ibv_post_send(3): the legal twin of ui-tests/ownership/no_post_inside_a_list.rs.
use proverbs::prelude::*;

fn nested(qp: &mut QueuePair<Rc, Rts>, first: Buf, second: Buf) {
    qp.post_send(wr::Send::new(second)).unwrap();
    post_send!(qp, [wr::Send::new(first), { wr::Send::new(wr::Empty) },]).unwrap();
}
