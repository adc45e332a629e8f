// Proves R17.8, ibv_alloc_td(3): the members of a lane stay on the thread that made them.
// Enforced by the absence of `Send`: the provider has no locks there.
use proverbs::prelude::*;

profile! { Fast { threads: InLane } }

fn another_thread<T: std::marker::Send>(_: T) {}

fn away(qp: QueuePair<Rc, Rts, Fast>) {
    another_thread(qp);
}

fn main() {}
