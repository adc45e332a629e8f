// R8.1, ibv_modify_qp(3): the legal twin of ui-tests/forging/no_state_by_exchange.rs.
use proverbs::prelude::*;

fn exchange(one: &mut QueuePair<Rc, Rts>, ready: &mut QueuePair<Rc, Rts>) {
    std::mem::swap(one, ready);
}
