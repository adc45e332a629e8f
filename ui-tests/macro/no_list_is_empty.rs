// Proves R9.5, ibv_post_send(3): no list is empty.
// Enforced by `post_send!`.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_send!(qp, []);
}

fn main() {}
