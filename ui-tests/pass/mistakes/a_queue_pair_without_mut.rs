// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn send(mut qp: QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(buf))
}
