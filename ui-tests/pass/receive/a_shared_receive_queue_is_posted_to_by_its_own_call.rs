// R7.1, R7.2, ibv_post_srq_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) {
    srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) {
    post_srq_recv!(srq, [wr::Recv::new(buf)]).unwrap();
}
