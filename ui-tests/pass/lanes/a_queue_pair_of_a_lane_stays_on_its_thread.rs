// R17.8, ibv_alloc_td(3): the legal twin of ui-tests/lanes/a_queue_pair_of_a_lane_stays_on_its_thread.rs.
use proverbs::prelude::*;

fn another_thread<T: std::marker::Send>(_: T) {}

fn away(qp: QueuePair<Rc, Rts>) {
    another_thread(qp);
}
