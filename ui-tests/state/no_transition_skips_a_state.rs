// Proves R8.1, ibv_modify_qp(3): no transition skips a state.
// Enforced by `Transition`.
use proverbs::prelude::*;

fn reset(qp: QueuePair<Rc, Reset>, attr: RcRtr) {
    qp.modify(attr).unwrap();
}

fn init(qp: QueuePair<Rc, Init>, attr: RcRts) {
    qp.modify(attr).unwrap();
}

fn main() {}
