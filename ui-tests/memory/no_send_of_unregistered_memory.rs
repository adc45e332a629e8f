// Proves R2.10, ibv_post_send(3): no send of unregistered memory.
// Enforced by `Source`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 8]) {
    qp.post_send(wr::Send::new(bytes)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 8]) {
    post_send!(qp, [wr::Send::new(bytes)]).unwrap();
}

fn main() {}
