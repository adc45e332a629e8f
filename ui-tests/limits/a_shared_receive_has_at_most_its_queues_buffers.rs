// Proves R3.1, ibv_post_srq_recv(3): a shared receive has at most its queues buffers.
// Enforced by `Sges<N>`.
use proverbs::prelude::*;
use proverbs::qp::Max;

fn method(srq: &mut SharedReceiveQueue<Rc, BufList, Max<2>>, bufs: [Buf; 3]) {
    srq.post_srq_recv(wr::Recv::new(bufs)).unwrap();
}

fn in_a_list(srq: &mut SharedReceiveQueue<Rc, BufList, Max<2>>, bufs: [Buf; 3]) {
    post_srq_recv!(srq, [wr::Recv::new(bufs)]).unwrap();
}

fn main() {}
