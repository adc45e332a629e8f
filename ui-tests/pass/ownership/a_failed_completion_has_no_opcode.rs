// R10.1, ibv_poll_cq(3): the legal twin of the test of this name.
use proverbs::completion::Direction;
use proverbs::prelude::*;

fn sort(completion: Completion<'_, Buf>) -> Option<Direction> {
    match completion.outcome() {
        Outcome::Failed(failed) => Some(failed.direction),
        _ => None,
    }
}
