// A mistake: the program sends a reference to a buffer, which its owner could change meanwhile.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(&buf))
}

fn main() {}
