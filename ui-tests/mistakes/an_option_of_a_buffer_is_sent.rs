// A mistake: the program sends what `take` returned, without looking whether it is a buffer.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, pool: &Pool) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(pool.take()))
}

fn main() {}
