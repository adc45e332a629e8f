// R1.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Uc, Rts>, buf: Buf, at: RemoteSpan) {
    qp.post_send(wr::RdmaWrite::new(buf, at)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Uc, Rts>, buf: Buf, at: RemoteSpan) {
    post_send!(qp, [wr::RdmaWrite::new(buf, at)]).unwrap();
}
