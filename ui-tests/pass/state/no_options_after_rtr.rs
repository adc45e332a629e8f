// R22.3, ibv_set_ece(3): the legal twin of the test of this name.
use proverbs::ext::tuning::Ece;
use proverbs::prelude::*;

fn late(qp: &mut QueuePair<Rc, state::Init>, ece: Ece) {
    let _ = qp.set_ece(ece);
}
