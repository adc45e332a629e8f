// Proves R10.7, ibv_poll_cq(3): a completion is used once.
// Enforced by `into_entry(self)`.
use proverbs::prelude::*;

fn twice(cq: &mut CompletionQueue) {
    for completion in cq.poll().unwrap() {
        completion.into_entry();
        completion.into_entry();
    }
}

fn main() {}
