// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(buf))
}
