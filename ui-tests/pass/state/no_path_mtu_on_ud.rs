// R8.3, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn to_rtr(qp: QueuePair<Ud, Init>) {
    qp.modify(UdRtr { ..Default::default() }).unwrap();
}
