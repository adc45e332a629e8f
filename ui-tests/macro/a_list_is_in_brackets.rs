// Proves R9.1, ibv_post_send(3): a list is in brackets.
// Enforced by `post_send!`.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_send!(qp, wr::Send::new(buf));
}

fn main() {}
