// R8.16, ibv_modify_qp(3): the legal twin of ui-tests/state/no_sqe_on_rc.rs.
use proverbs::prelude::*;

fn stopped(qp: QueuePair<Ud, Rts>) {
    qp.into_sqe().unwrap();
}
