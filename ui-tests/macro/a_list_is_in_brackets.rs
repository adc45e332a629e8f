// R9.1, ibv_post_send(3): a list is in brackets.
// Enforced by `post_send!`.
use proverbs::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_send!(qp, Send::new(buf));
}

fn main() {}
