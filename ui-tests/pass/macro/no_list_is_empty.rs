// R9.5, ibv_post_send(3): the legal twin of ui-tests/macro/no_list_is_empty.rs.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_send!(qp, [wr::Send::new(buf)]);
}
