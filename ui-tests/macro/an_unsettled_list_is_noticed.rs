// Proves R9.8, ibv_post_send(3): an unsettled list is noticed.
// Enforced by #[must_use] of `Unsettled`.
#![deny(unused_must_use)]
use proverbs::prelude::*;

profile! { Asked { signaling: Selective } }

fn list(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf)], unsignaled).unwrap();
}

fn main() {}
