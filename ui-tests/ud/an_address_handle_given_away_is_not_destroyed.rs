// Proves R5.3, ibv_post_send(3): an address handle lives as long as a send names it.
// Enforced by `add_address_handle`, which takes the handle.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Ud, Rts>, ah: AddressHandle) {
    let name = qp.add_address_handle(ah).unwrap();
    ah.destroy().unwrap();
    qp.remove_address_handle(name);
}

fn main() {}
