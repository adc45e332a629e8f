// R9.9, ibv_post_srq_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(srq: &mut SharedReceiveQueue<Rc>, pool: &Pool) {
    srq.post_srq_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    let _ = pool;
}

fn in_a_list(srq: &mut SharedReceiveQueue<Rc>, pool: &Pool) {
    post_srq_recv!(srq, [wr::Recv::new(pool.take().unwrap())]).unwrap();
    let _ = pool;
}
