// R11.1, R11.2, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn write_after_post(qp: &mut QueuePair<Rc, Rts>, mut buf: Buf) {
    buf[0] = 1;
    qp.post_send(wr::Send::new(buf)).unwrap();
}
