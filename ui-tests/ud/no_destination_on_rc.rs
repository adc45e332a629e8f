// R1.2, R5.1, ibv_post_send(3): no destination on rc.
// Enforced by `Addressed<T>`.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, to: Destination) {
    qp.post_send(Send::new(buf).to(to)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, to: Destination) {
    post_send!(qp, [Send::new(buf).to(to)]).unwrap();
}

fn main() {}
