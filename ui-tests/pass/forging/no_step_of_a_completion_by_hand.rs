// R11.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::completion::Outcome;
use proverbs::prelude::*;

fn longer(completion: Completion<'_, Buf>) -> Option<usize> {
    match completion.outcome() {
        Outcome::Received(received) => received.entry.map(|buf| buf.len()),
        _ => None,
    }
}
