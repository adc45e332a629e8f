// Proves R2.4, ibv_post_send(3): a list says no more of itself than that it is unsignaled.
// Enforced by `post_send!`.
use proverbs::prelude::*;

profile! { Chosen { signaling: Selective } }

fn signaled(qp: &mut QueuePair<Rc, Rts, Chosen>, buf: Buf) {
    let _ = post_send!(qp, [wr::Send::new(buf)], signaled);
}

fn main() {}
