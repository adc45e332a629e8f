// Proves R10.7, ibv_poll_cq(3): no completion is copied.
// Enforced by the absence of `Clone`.
use proverbs::prelude::*;

fn copy(completion: Completion<'_, Buf>) {
    completion.clone().into_entry();
    completion.into_entry();
}

fn main() {}
