// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn receive(qp: &mut QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_recv(wr::Recv::new(buf))
}
