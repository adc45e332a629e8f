// R2.3, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSpan) {
    qp.post_send(wr::RdmaWriteWithImm::new(buf, at, 7).solicited()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSpan) {
    post_send!(qp, [wr::RdmaWriteWithImm::new(buf, at, 7).solicited()]).unwrap();
}
