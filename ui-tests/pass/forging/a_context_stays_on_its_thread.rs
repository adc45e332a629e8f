// R17.1, ibv_poll_cq(3): the legal twin of the test of this name.
use proverbs::prelude::*;

type Mine = Buf<std::sync::Arc<()>>;

fn another_thread<T: std::marker::Send>(_: T) {}

fn away(cq: CompletionQueue<Mine>) {
    another_thread(cq);
}
