// R11.2, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, data: Buf) {
    post_recv!(qp, [wr::Recv::new(data)]).unwrap();
}
