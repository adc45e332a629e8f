// Proves R11.8, ibv_poll_cq(3): no completion beyond its queue.
// Enforced by the lifetime of `Completion`.
use proverbs::prelude::*;

fn kept(mut cq: CompletionQueue) {
    let completion = cq.poll_one().unwrap();
    cq.destroy().unwrap();
    drop(completion);
}

fn main() {}
