// R2.4, ibv_post_send(3): the legal twin of ui-tests/macro/nothing_but_unsignaled_follows_a_list.rs.
use proverbs::prelude::*;

profile! { Chosen { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Chosen>, buf: Buf) {
    let _ = post_send!(qp, [wr::Send::new(buf)], unsignaled);
}
