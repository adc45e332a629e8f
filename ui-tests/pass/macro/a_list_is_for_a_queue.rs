// R7.1, R7.2, R8.19, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn sends(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf)]).unwrap();
}

fn receives(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn shared_receives(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) {
    post_srq_recv!(srq, [wr::Recv::new(buf)]).unwrap();
}
