// R17.7, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn send(task: Buf) {
    let _ = wr::Send::inline(b"bytes").with_context(task);
}
