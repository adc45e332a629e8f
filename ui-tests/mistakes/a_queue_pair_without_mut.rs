// A mistake: the program posts on a queue pair that is not mutable.
use proverbs::prelude::*;

fn send(qp: QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(buf))
}

fn main() {}
