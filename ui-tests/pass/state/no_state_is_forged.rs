// R8.15, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn pretend(qp: QueuePair<Rc, Reset>) -> QueuePair<Rc, Reset> {
    qp
}
