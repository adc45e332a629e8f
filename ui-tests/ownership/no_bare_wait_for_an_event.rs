// Proves R13.3, ibv_get_cq_event(3): no call sleeps without having armed and polled.
// Enforced by `CompletionChannel`, whose waits do all three.
use proverbs::prelude::*;

fn sleep(channel: &mut CompletionChannel) {
    channel.get_cq_event().unwrap();
}

fn main() {}
