// R1.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Uc, Rts>, [a, b, c]: [Buf; 3], at: RemoteSpan) {
    post_send!(qp, [wr::Send::new(a), wr::RdmaWrite::new(b, at), wr::RdmaWrite::new(c, at)])
        .unwrap();
}
