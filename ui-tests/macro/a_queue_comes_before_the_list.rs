// Proves R9.1, ibv_post_send(3): a queue comes before the list.
// Enforced by `post_send!`.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_send!([wr::Send::new(buf)]);
}

fn main() {}
