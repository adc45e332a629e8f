// Proves R22.3, ibv_set_ece(3): options of a connection are set before RTR.
// Enforced by `TakesEce`.
use proverbs::prelude::*;
use proverbs::ext::tuning::Ece;

fn late(qp: &mut QueuePair<Rc, Rts>, ece: Ece) {
    let _ = qp.set_ece(ece);
}

fn main() {}
