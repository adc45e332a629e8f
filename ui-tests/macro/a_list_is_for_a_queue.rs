// Proves R7.1, R7.2, R8.19: each list to the queue that holds it.
// Enforced by `PostsSends`, `PostsReceives` and `PostsSharedReceives`.
use proverbs::prelude::*;

fn sends_to_a_completion_queue(cq: &mut CompletionQueue, buf: Buf) {
    post_send!(cq, [wr::Send::new(buf)]).unwrap();
}

fn receives_to_a_completion_queue(cq: &mut CompletionQueue, [a, b]: [Buf; 2]) {
    post_recv!(cq, [wr::Recv::new(a)]).unwrap();
    post_srq_recv!(cq, [wr::Recv::new(b)]).unwrap();
}

fn sends_to_a_shared_receive_queue(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) {
    post_send!(srq, [wr::Send::new(buf)]).unwrap();
}

fn shared_receives_to_a_queue_pair(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_srq_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn main() {}
