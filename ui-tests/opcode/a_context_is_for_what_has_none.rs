// Proves R17.7, ibv_post_send(3): a buffer returns its own context, and no second one.
// Enforced by `NoContext`.
use proverbs::prelude::*;

fn send(buf: Buf, task: Buf) {
    let _ = wr::Send::new(buf).with_context(task);
}

fn main() {}
