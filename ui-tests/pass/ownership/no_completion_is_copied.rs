// R10.7, ibv_poll_cq(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn copy(completion: Completion<'_, Buf>) {
    completion.into_entry();
}
