// R17.1, ibv_poll_cq(3): the legal twin of ui-tests/ownership/a_completion_stays_on_its_thread.rs.
use proverbs::prelude::*;

fn another_thread<T: std::marker::Send>(_: T) {}

fn away(completion: Completion<'_, Buf>) {
    another_thread(completion.into_entry());
}
