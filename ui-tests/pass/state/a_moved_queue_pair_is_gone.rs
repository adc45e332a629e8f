// R8.1, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::Drain;

fn twice(qp: QueuePair<Uc, Rts>) {
    let held = qp.modify(Drain { notify: false }).unwrap();
    println!("{} {}", held.qp_num(), held.qp_num());
}
