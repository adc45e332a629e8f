// Proves R12.2, ibv_destroy_qp(3): each object is destroyed once (`destroy` takes it).
// Enforced by `destroy`, which takes the queue pair.
use proverbs::prelude::*;

fn twice(qp: QueuePair<Rc, Rts>) {
    qp.destroy().unwrap();
    qp.destroy().unwrap();
}

fn main() {}
