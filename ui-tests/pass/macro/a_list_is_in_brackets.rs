// R9.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_send!(qp, [wr::Send::new(buf)]);
}
