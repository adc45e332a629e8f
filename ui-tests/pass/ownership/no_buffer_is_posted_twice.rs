// R11.2, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, first: Buf, second: Buf) {
    qp.post_recv(wr::Recv::new(first)).unwrap();
    qp.post_recv(wr::Recv::new(second)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, first: Buf, second: Buf) {
    post_recv!(qp, [wr::Recv::new(first), wr::Recv::new(second)]).unwrap();
}
