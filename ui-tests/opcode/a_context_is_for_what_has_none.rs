// Proves R17.7, ibv_post_send(3): a buffer returns its own context, and no second one.
// Enforced by `NoContext`.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, buf: Buf, task: Buf) {
    qp.post_send(wr::Send::new(buf).with_context(task)).unwrap();
}

fn main() {}
