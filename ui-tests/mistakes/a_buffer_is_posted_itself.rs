// A mistake: the program posts a buffer instead of a work request.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(buf)
}

fn main() {}
