// R8.15, ibv_modify_qp(3): the legal twin of ui-tests/state/no_state_is_forged.rs.
use proverbs::prelude::*;

fn pretend(qp: QueuePair<Rc, Reset>) -> QueuePair<Rc, Reset> {
    qp
}
