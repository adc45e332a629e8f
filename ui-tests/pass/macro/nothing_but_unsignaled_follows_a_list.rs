// R2.4, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Chosen { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Chosen>, buf: Buf) {
    let _ = post_send!(qp, [wr::Send::new(buf)], unsignaled);
}
