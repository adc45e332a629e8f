// R8.1, ibv_modify_qp(3): the legal twin of ui-tests/state/no_error_from_reset.rs.
use proverbs::prelude::*;

fn give_up(qp: QueuePair<Rc, Init>) {
    qp.to_error().unwrap();
}
