// R2.4, ibv_post_send(3): no signaled where all are.
// Enforced by `SignaledOn<M>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_send(wr::Send::new(buf).signaled()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf).signaled()]).unwrap();
}

fn main() {}
