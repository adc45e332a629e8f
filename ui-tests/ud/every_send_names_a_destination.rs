// Proves R1.2, R5.1, ibv_post_send(3): every send names a destination.
// Enforced by `Addressed<T>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Ud, Rts>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Ud, Rts>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf)]).unwrap();
}

fn main() {}
