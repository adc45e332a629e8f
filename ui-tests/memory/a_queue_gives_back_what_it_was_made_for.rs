// Proves R11.1, ibv_post_send(3): a queue gives back what it was made for.
// Enforced by `Data<E>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: SharedBuf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: SharedBuf) {
    post_send!(qp, [wr::Send::new(buf)]).unwrap();
}

fn main() {}
