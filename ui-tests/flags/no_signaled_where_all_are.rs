// Proves R2.4, ibv_post_send(3): no signaled where all are.
// Enforced by `SignaledOn<M>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_send(wr::Send::new(buf).signaled()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf).signaled()]).unwrap();
}

fn prepared(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).signaled().prepare(), buf).unwrap();
}

fn prepared_inline(qp: &mut QueuePair<Rc, Rts>) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").signaled().prepare()).unwrap();
}

fn main() {}
