// R10.7, ibv_poll_cq(3): the legal twin of ui-tests/ownership/no_completion_is_copied.rs.
use proverbs::prelude::*;

fn copy(completion: Completion<'_, Buf>) {
    completion.into_entry();
}
