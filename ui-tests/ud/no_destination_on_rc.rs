// Proves R1.2, R5.1, ibv_post_send(3): no destination on rc.
// Enforced by `Addressed<T>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, to: wr::Destination) {
    qp.post_send(wr::Send::new(buf).to(to)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, to: wr::Destination) {
    post_send!(qp, [wr::Send::new(buf).to(to)]).unwrap();
}

fn main() {}
