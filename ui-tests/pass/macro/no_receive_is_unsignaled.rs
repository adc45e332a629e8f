// R9.9, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_recv!(qp, [wr::Recv::new(buf)]);
}

fn shared(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) {
    let _ = post_srq_recv!(srq, [wr::Recv::new(buf)]);
}
