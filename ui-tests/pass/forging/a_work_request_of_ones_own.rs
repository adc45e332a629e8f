// R7.10, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

struct Mine(Buf);

fn post(qp: &mut QueuePair<Rc, Rts>, mine: Mine) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(mine.0))
}
