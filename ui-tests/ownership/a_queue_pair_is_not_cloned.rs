// Proves R8.15, R12.2, ibv_modify_qp(3): a queue pair is not cloned.
// Enforced by the absence of `Clone`.
use proverbs::prelude::*;

fn two(qp: QueuePair<Rc, Rts>) -> [QueuePair<Rc, Rts>; 2] {
    [qp.clone(), qp]
}

fn main() {}
