// R10.7, ibv_poll_cq(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn twice(cq: &mut CompletionQueue) {
    for completion in cq.poll().unwrap() {
        completion.into_entry();
    }
}
