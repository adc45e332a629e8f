// R7.10, ibv_post_recv(3): the legal twin of ui-tests/forging/data_of_ones_own.rs.
use proverbs::prelude::*;

struct Mine(Buf);

fn post(qp: &mut QueuePair<Rc, Rts>, mine: Mine) -> Result<(), PostError<Buf>> {
    qp.post_recv(wr::Recv::new(mine.0))
}
