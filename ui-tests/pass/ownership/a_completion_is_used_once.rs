// R10.7, ibv_poll_cq(3): the legal twin of ui-tests/ownership/a_completion_is_used_once.rs.
use proverbs::prelude::*;

fn twice(cq: &mut CompletionQueue) {
    for completion in cq.poll().unwrap() {
        completion.into_entry();
    }
}
