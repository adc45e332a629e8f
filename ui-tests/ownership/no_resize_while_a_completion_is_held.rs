// Proves R14.7, ibv_resize_cq(3): no resize while a completion is held.
// Enforced by `resize(&mut self)`.
use proverbs::prelude::*;

fn held(cq: &mut CompletionQueue) {
    let first = cq.poll_one().unwrap();
    cq.resize(64).unwrap();
    drop(first);
}

fn main() {}
