// Proves R17.1, ibv_poll_cq(3): a completion stays on its thread.
// Enforced by the absence of `Send`.
use proverbs::prelude::*;

fn another_thread<T: std::marker::Send>(_: T) {}

fn away(completion: Completion<'_, Buf>) {
    another_thread(completion);
}

fn main() {}
