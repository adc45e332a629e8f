// R8.1, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn exchange(one: &mut QueuePair<Rc, Rts>, ready: &mut QueuePair<Rc, Rts>) {
    std::mem::swap(one, ready);
}
