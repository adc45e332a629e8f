// Proves R9.9, R7.5: every receive of a shared receive queue has a buffer of its pool.
// Enforced by `SrqSink`.
use proverbs::prelude::*;

fn method(srq: &mut SharedReceiveQueue<Rc>) {
    srq.post_srq_recv(wr::Recv::empty()).unwrap();
}

fn in_a_list(srq: &mut SharedReceiveQueue<Rc>) {
    post_srq_recv!(srq, [wr::Recv::empty()]).unwrap();
}

fn of_no_buffers(srq: &mut SharedReceiveQueue<Rc, BufList>, none: [Buf; 0]) {
    srq.post_srq_recv(wr::Recv::new(none)).unwrap();
}

fn main() {}
