// R11.1, ibv_post_send(3): the legal twin of ui-tests/macro/no_list_is_begun_by_another.rs.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    post_send!(qp, [wr::Send::new(buf)])
}
