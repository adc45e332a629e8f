// R17.8, ibv_alloc_td(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn another_thread<T: std::marker::Send>(_: T) {}

fn away(qp: QueuePair<Rc, Rts>) {
    another_thread(qp);
}
