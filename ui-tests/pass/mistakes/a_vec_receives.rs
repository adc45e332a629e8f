// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn receive(qp: &mut QueuePair<Rc, Rts>, pool: &Pool) -> Result<(), PostError<Buf>> {
    let buf = pool.take().expect("a buffer is free");
    qp.post_recv(wr::Recv::new(buf))
}
