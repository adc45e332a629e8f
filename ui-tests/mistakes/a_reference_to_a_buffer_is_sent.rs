// A mistake: the program sends a reference to a buffer, whose owner could change it during the send.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(&buf))
}

fn main() {}
