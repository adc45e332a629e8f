// Proves R8.15, ibv_modify_qp(3): no state is forged.
// Enforced by the privacy of `QueuePair`.
use proverbs::prelude::*;

fn pretend(qp: QueuePair<Rc, Reset>) -> QueuePair<Rc, Rts> {
    QueuePair::from_core(qp.core)
}

fn main() {}
