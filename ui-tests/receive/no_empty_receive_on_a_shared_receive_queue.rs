// R9.9, ibv_post_srq_recv(3): no empty receive on a shared receive queue.
// Enforced by `SrqSink`.
use proverbs::*;

fn method(srq: &mut SharedReceiveQueue<Rc>, pool: &Pool) {
    srq.post_srq_recv(Recv::empty()).unwrap();
    let _ = pool;
}

fn in_a_list(srq: &mut SharedReceiveQueue<Rc>, pool: &Pool) {
    post_srq_recv!(srq, [Recv::empty()]).unwrap();
    let _ = pool;
}

fn main() {}
