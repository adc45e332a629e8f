// R11.8, ibv_poll_cq(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn kept(mut cq: CompletionQueue) {
    let completion = cq.poll_one().unwrap();
    drop(completion);
    cq.destroy().unwrap();
}
