// Proves R7.14, ibv_post_recv(3): no receive in reset.
// Enforced by `CanPostRecv`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Reset>, buf: Buf) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Reset>, buf: Buf) {
    post_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn in_a_run_time_list(qp: &mut QueuePair<Rc, Reset>, slots: &mut RecvSlots<4>) {
    qp.recv_list(slots);
}

fn main() {}
