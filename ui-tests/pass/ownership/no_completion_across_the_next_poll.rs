// R10.7, ibv_poll_cq(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn held(cq: &mut CompletionQueue) {
    let first = cq.poll_one().unwrap();
    drop(first);
    let second = cq.poll_one().unwrap();
    drop(second);
}
