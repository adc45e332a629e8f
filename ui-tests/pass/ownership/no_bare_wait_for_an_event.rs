// R13.3, ibv_get_cq_event(3): the legal twin of ui-tests/ownership/no_bare_wait_for_an_event.rs.
use proverbs::prelude::*;

fn sleep(channel: &mut CompletionChannel, cq: &mut CompletionQueue) {
    for completion in channel.wait(cq).unwrap() {
        drop(completion);
    }
}
