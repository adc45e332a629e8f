// R13.3, ibv_get_cq_event(3): arm, poll, then sleep (`CompletionChannel::wait`, the only way to an event).
// Enforced by `CompletionChannel`, which only waits as `wait` does.
use proverbs::*;

fn sleep(channel: &mut CompletionChannel) {
    channel.get_cq_event().unwrap();
}

fn main() {}
