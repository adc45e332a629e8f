// R13.3, ibv_get_cq_event(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn sleep(channel: &mut CompletionChannel, cq: &mut CompletionQueue) {
    for completion in channel.wait(cq).unwrap() {
        drop(completion);
    }
}
