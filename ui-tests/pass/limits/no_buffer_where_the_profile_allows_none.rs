// R3.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Bare { max_send_sge: 0 } }

fn method(qp: &mut QueuePair<Rc, Rts, Bare>, bytes: &[u8; 8]) {
    qp.post_send(wr::Send::inline(bytes)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Bare>, bytes: &[u8; 8]) {
    post_send!(qp, [wr::Send::inline(bytes)]).unwrap();
}

fn prepared(qp: &mut QueuePair<Rc, Rts, Bare>, bytes: &[u8; 8]) {
    qp.post_prepared_inline(&mut wr::Send::inline(bytes).prepare()).unwrap();
}
