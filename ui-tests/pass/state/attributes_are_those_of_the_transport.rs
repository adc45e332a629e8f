// R8.2, R8.3, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn to_rtr(qp: QueuePair<Rc, Init>, attr: RcRtr) {
    qp.modify(attr).unwrap();
}

fn to_init(qp: QueuePair<Rc, Reset>, attr: ConnectedInit) {
    qp.modify(attr).unwrap();
}
