// Proves R10.7, ibv_poll_cq(3): no completion across the next poll.
// Enforced by `poll(&mut self)`.
use proverbs::prelude::*;

fn held(cq: &mut CompletionQueue) {
    let first = cq.poll_one().unwrap();
    let second = cq.poll_one().unwrap();
    drop((first, second));
}

fn main() {}
