// R14.7, ibv_resize_cq(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn held(cq: &mut CompletionQueue) {
    let first = cq.poll_one().unwrap();
    drop(first);
    cq.resize(64).unwrap();
}
