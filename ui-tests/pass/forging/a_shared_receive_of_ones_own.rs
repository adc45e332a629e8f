// R3.1, ibv_post_srq_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::Max;

fn post(srq: &mut SharedReceiveQueue<Rc, BufList, Max<2>>, bufs: [Buf; 2]) {
    srq.post_srq_recv(wr::Recv::new(bufs)).unwrap();
}
