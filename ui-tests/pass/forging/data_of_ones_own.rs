// R7.10, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

struct Mine(Buf);

fn post(qp: &mut QueuePair<Rc, Rts>, mine: Mine) -> Result<(), PostError<Buf>> {
    qp.post_recv(wr::Recv::new(mine.0))
}
