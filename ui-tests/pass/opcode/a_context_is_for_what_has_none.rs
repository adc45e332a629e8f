// R17.7, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, task: Buf) {
    qp.post_send(wr::Send::inline(b"bytes").with_context(task)).unwrap();
}
