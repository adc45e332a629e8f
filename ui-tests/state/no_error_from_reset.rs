// Proves R8.1, ibv_modify_qp(3): no error from reset.
// Enforced by `CanFail`.
use proverbs::prelude::*;

fn give_up(qp: QueuePair<Rc, Reset>) {
    qp.to_error().unwrap();
}

fn main() {}
