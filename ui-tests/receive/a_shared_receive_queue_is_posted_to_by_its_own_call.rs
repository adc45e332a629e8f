// Proves R7.1, R7.2, ibv_post_srq_recv(3): a shared receive queue is posted to by its own call.
// Enforced by `post_srq_recv`.
use proverbs::prelude::*;

fn method(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) {
    srq.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) {
    post_recv!(srq, [wr::Recv::new(buf)]).unwrap();
}

fn main() {}
