// Proves R17.1, ibv_poll_cq(3): a completion queue is polled by one thread.
// Enforced by the absence of `Sync`.
use proverbs::prelude::*;

fn another_thread<T: std::marker::Send>(_: T) {}

fn shared(cq: &CompletionQueue) {
    another_thread(cq);
}

fn main() {}
