// R4.6, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Mine { initiator: NoReads } }

fn post(qp: &mut QueuePair<Rc, Rts, Mine>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(buf))
}
