// Proves R9.1, ibv_post_send(3): a receive cannot be posted as a send.
// Enforced by `WorkRequest`.
use proverbs::prelude::*;

fn in_a_send_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_send!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn in_a_receive_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_recv!(qp, [wr::Send::new(buf)]).unwrap();
}

fn main() {}
