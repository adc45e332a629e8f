// R8.1, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn give_up(qp: QueuePair<Rc, Init>) {
    qp.to_error().unwrap();
}
