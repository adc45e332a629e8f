// R12.2, ibv_destroy_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn once(qp: QueuePair<Rc, Rts>) {
    qp.destroy().unwrap();
}
