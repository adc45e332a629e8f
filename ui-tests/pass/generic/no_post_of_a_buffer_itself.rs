// R7.10, ibv_post_send(3), ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn caller(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
    qp.post_recv(wr::Recv::empty()).unwrap();
}
