// R8.1, ibv_modify_qp(3): the legal twin of ui-tests/state/no_transition_skips_a_state.rs.
use proverbs::prelude::*;

fn reset(qp: QueuePair<Rc, Init>, attr: RcRtr) {
    qp.modify(attr).unwrap();
}

fn init(qp: QueuePair<Rc, Rtr>, attr: RcRts) {
    qp.modify(attr).unwrap();
}
