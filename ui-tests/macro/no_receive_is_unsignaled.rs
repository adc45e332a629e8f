// Proves R9.9, ibv_post_recv(3), ibv_post_srq_recv(3): no receive is unsignaled.
// Enforced by `post_recv!` and `post_srq_recv!`.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_recv!(qp, [wr::Recv::new(buf)], unsignaled);
}

fn shared(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) {
    let _ = post_srq_recv!(srq, [wr::Recv::new(buf)], unsignaled);
}

fn main() {}
