// R10.7, ibv_poll_cq(3): the legal twin of ui-tests/ownership/no_completion_across_the_next_poll.rs.
use proverbs::prelude::*;

fn held(cq: &mut CompletionQueue) {
    let first = cq.poll_one().unwrap();
    drop(first);
    let second = cq.poll_one().unwrap();
    drop(second);
}
