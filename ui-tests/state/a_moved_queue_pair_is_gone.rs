// Proves R8.1, ibv_modify_qp(3): a moved queue pair is gone.
// Enforced by `modify(self)`.
use proverbs::prelude::*;
use proverbs::qp::Drain;

fn twice(qp: QueuePair<Uc, Rts>) {
    let held = qp.modify(Drain { notify: false }).unwrap();
    println!("{} {}", held.qp_num(), qp.qp_num());
}

fn main() {}
