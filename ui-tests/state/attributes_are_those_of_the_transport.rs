// Proves R8.2, R8.3, ibv_modify_qp(3): each transport has its own attributes.
// Enforced by `Transition`.
use proverbs::prelude::*;

fn to_rtr(qp: QueuePair<Uc, Init>, attr: RcRtr) {
    qp.modify(attr).unwrap();
}

fn to_init(qp: QueuePair<Ud, Reset>, attr: ConnectedInit) {
    qp.modify(attr).unwrap();
}

fn main() {}
