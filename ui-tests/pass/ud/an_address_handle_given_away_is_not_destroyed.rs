// R5.3, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Ud, Rts>, ah: AddressHandle) {
    let name = qp.add_address_handle(ah).unwrap();
    qp.remove_address_handle(name);
}
