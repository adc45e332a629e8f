// R4.5, R6.7, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Mixed { entry: AnyBuf } }

fn method(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: Buf) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: Buf) {
    post_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}
