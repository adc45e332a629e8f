// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::inline(b"hello"))
}
