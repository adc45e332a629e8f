// Proves R11.2, ibv_post_recv(3): no buffer is posted twice.
// Enforced by `Recv::new(buf)`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_recv!(qp, [wr::Recv::new(buf), wr::Recv::new(buf)]).unwrap();
}

fn main() {}
