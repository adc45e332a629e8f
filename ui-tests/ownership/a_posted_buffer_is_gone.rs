// Proves R11.1, R11.2, R6.9, R6.13, ibv_post_send(3): a posted buffer is gone.
// Enforced by `Send::new(buf)`.
use proverbs::prelude::*;

fn write_after_post(qp: &mut QueuePair<Rc, Rts>, mut buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
    buf[0] = 1;
}

fn main() {}
