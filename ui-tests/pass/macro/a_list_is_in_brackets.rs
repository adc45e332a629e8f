// R9.1, ibv_post_send(3): the legal twin of ui-tests/macro/a_list_is_in_brackets.rs.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_send!(qp, [wr::Send::new(buf)]);
}
