// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>) -> Result<(), PostError<Buf>> {
    let message = vec![0; 64];
    qp.post_send(wr::Send::inline_slice(&message))
}
