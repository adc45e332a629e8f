// R8.1, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn reset(qp: QueuePair<Rc, Init>, attr: RcRtr) {
    qp.modify(attr).unwrap();
}

fn init(qp: QueuePair<Rc, Rtr>, attr: RcRts) {
    qp.modify(attr).unwrap();
}
