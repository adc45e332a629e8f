// R7.15, ibv_post_recv(3): no receive in error.
// Enforced by `CanPostRecv`.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Error>, buf: Buf) {
    qp.post_recv(Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Error>, buf: Buf) {
    post_recv!(qp, [Recv::new(buf)]).unwrap();
}

fn in_a_run_time_list(qp: &mut QueuePair<Rc, Error>, slots: &mut RecvSlots<4>) {
    qp.recv_list(slots);
}

fn main() {}
