// R8.16, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn stopped(qp: QueuePair<Ud, Rts>) {
    qp.into_sqe().unwrap();
}
