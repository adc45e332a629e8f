// Proves R8.1, ibv_modify_qp(3): queue pairs in different states are not exchanged.
// Enforced by the type: a reference to one state is not a reference to another.
use proverbs::prelude::*;

fn forge(reset: &mut QueuePair<Rc, Reset>, ready: &mut QueuePair<Rc, Rts>) {
    std::mem::swap(reset, ready);
}

fn main() {}
