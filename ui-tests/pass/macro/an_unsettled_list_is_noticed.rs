// R9.8, ibv_post_send(3): the legal twin of the test of this name.
#![deny(unused_must_use)]
use proverbs::prelude::*;

profile! { Asked { signaling: Selective } }

fn list(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    let _later = post_send!(qp, [wr::Send::new(buf)], unsignaled).unwrap();
}
