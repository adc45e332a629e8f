// R13.3, ibv_get_cq_event(3): arm, poll, then sleep (`CompletionChannel::wait`, the only way to an event).
use proverbs::*;

fn sleep(channel: &mut CompletionChannel) {
    channel.get_cq_event().unwrap();
}

fn main() {}
