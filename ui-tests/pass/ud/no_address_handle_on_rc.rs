// R5.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn add(qp: &mut QueuePair<Ud, Rts>, ah: AddressHandle) {
    qp.add_address_handle(ah).unwrap();
}
