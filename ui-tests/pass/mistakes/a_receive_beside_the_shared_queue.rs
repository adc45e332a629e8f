// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn receive(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) -> Result<(), PostError<Buf>> {
    srq.post_srq_recv(wr::Recv::new(buf))
}
