// R8.15, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn two(qp: QueuePair<Rc, Rts>) -> [QueuePair<Rc, Rts>; 1] {
    [qp]
}
