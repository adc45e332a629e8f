// R17.1, ibv_poll_cq(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn another_thread<T: std::marker::Send>(_: T) {}

fn shared(cq: &mut CompletionQueue) {
    another_thread(cq);
}
