// R9.1, ibv_post_send(3): a receive is no send.
// Enforced by `WorkRequest`.
use proverbs::*;

fn in_a_send_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_send!(qp, [Recv::new(buf)]).unwrap();
}

fn in_a_receive_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_recv!(qp, [Send::new(buf)]).unwrap();
}

fn main() {}
