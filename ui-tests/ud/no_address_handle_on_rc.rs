// Proves R5.1, ibv_post_send(3): no address handle on rc.
// Enforced by `QueuePair<Ud, S, P>`.
use proverbs::prelude::*;

fn add(qp: &mut QueuePair<Rc, Rts>, ah: AddressHandle) {
    qp.add_address_handle(ah).unwrap();
}

fn main() {}
