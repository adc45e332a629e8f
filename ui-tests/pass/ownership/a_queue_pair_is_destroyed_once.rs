// R12.2, ibv_destroy_qp(3): the legal twin of ui-tests/ownership/a_queue_pair_is_destroyed_once.rs.
use proverbs::prelude::*;

fn once(qp: QueuePair<Rc, Rts>) {
    qp.destroy().unwrap();
}
