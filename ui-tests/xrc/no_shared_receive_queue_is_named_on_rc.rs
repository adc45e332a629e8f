// Proves R26.1, ibv_post_send(3): no shared receive queue is named on rc.
// Enforced by `Addressed<T>`.
use proverbs::bounded::SrqNum;
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, to: SrqNum) {
    qp.post_send(wr::Send::new(buf).to_srq(to)).unwrap();
}

fn main() {}
