// R26.3, ibv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::bounded::SrqNum;
use proverbs::prelude::*;

profile! { Initiating { receive: NoRq } }

fn sent(initiator: &mut QueuePair<Xrc, Rts, Initiating>, to: SrqNum) {
    initiator.post_send(wr::Send::inline(b"hello").to_srq(to)).unwrap();
}

fn received(srq: &mut SharedReceiveQueue<Xrc>, buf: Buf) {
    srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
}
