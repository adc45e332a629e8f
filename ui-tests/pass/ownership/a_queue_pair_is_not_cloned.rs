// R8.15, ibv_modify_qp(3): the legal twin of ui-tests/ownership/a_queue_pair_is_not_cloned.rs.
use proverbs::prelude::*;

fn two(qp: QueuePair<Rc, Rts>) -> [QueuePair<Rc, Rts>; 1] {
    [qp]
}
