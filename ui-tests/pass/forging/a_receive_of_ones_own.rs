// R3.1, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Mine {} }

fn post(qp: &mut QueuePair<Rc, Rts, Mine>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_recv(wr::Recv::new(buf))
}
