// R22.3, ibv_set_ece(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::Ece;

fn late(qp: &mut QueuePair<Rc, state::Init>, ece: Ece) {
    let _ = qp.set_ece(ece);
}
