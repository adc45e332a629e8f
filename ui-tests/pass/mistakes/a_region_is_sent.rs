// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, pool: &Pool) -> Result<(), PostError<Buf>> {
    let buf = pool.take().expect("a buffer is free");
    qp.post_send(wr::Send::new(buf))
}
