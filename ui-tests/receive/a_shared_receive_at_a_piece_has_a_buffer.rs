// Proves R9.9, ibv_create_cq(3): a receive at a piece of a shared receive queue has a buffer too.
// Enforced by `SrqSink`.
use proverbs::memory::OpenBuf;
use proverbs::prelude::*;

fn method(srq: &mut SharedReceiveQueue<Rc, AnyBuf>, piece: OpenBuf) {
    srq.post_srq_recv(wr::Recv::at(piece).unwrap()).unwrap();
}

fn main() {}
