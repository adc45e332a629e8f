// R8.2, R8.3, ibv_modify_qp(3): the legal twin of ui-tests/state/attributes_are_those_of_the_transport.rs.
use proverbs::prelude::*;

fn to_rtr(qp: QueuePair<Rc, Init>, attr: RcRtr) {
    qp.modify(attr).unwrap();
}

fn to_init(qp: QueuePair<Rc, Reset>, attr: ConnectedInit) {
    qp.modify(attr).unwrap();
}
