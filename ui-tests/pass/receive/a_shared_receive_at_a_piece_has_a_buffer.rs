// R9.9, ibv_create_cq(3): the legal twin of the test of this name.
use proverbs::memory::OpenBuf;
use proverbs::prelude::*;

fn method(srq: &mut SharedReceiveQueue<Rc, AnyBuf>, piece: OpenBuf, buf: Buf) {
    srq.post_srq_recv(wr::Recv::at(piece).unwrap().with_context(buf)).unwrap();
}
