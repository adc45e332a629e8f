// A mistake: the program posts a receive with `post_send`.
use proverbs::prelude::*;

fn receive(qp: &mut QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Recv::new(buf))
}

fn main() {}
