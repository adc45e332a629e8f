// Proves R7.15, ibv_post_recv(3): no receive in error.
// Enforced by `CanPostRecv`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, state::Err>, buf: Buf) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, state::Err>, buf: Buf) {
    post_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn in_a_run_time_list(qp: &mut QueuePair<Rc, state::Err>, slots: &mut RecvSlots<4>) {
    qp.recv_list(slots);
}

fn both_lists(
    qp: &mut QueuePair<Rc, state::Err>,
    sends: &mut SendSlots<4>,
    receives: &mut RecvSlots<4>,
) {
    qp.lists(sends, receives);
}

fn main() {}
