// R17.1, ibv_poll_cq(3): the legal twin of ui-tests/ownership/a_completion_queue_is_polled_by_one_thread.rs.
use proverbs::prelude::*;

fn another_thread<T: std::marker::Send>(_: T) {}

fn shared(cq: &mut CompletionQueue) {
    another_thread(cq);
}
