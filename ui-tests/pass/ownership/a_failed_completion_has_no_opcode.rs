// R10.1, ibv_poll_cq(3): the legal twin of ui-tests/ownership/a_failed_completion_has_no_opcode.rs.
use proverbs::completion::Direction;
use proverbs::prelude::*;

fn sort(completion: Completion<'_, Buf>) -> Option<Direction> {
    match completion.outcome() {
        Outcome::Failed(failed) => Some(failed.direction),
        _ => None,
    }
}
