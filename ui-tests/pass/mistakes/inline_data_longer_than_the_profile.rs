// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, line: &[u8; 64]) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::inline(line))
}
