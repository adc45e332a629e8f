// Proves R7.1, ibv_post_recv(3): no post recv with a shared receive queue.
// Enforced by `HasRecvQueue`.
use proverbs::prelude::*;

profile! { Shared { receive: SharedRq } }

fn method(qp: &mut QueuePair<Rc, Rts, Shared>, buf: Buf) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Shared>, buf: Buf) {
    post_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn in_a_run_time_list(qp: &mut QueuePair<Rc, Rts, Shared>, slots: &mut RecvSlots<4>) {
    qp.recv_list(slots);
}

fn both_lists(
    qp: &mut QueuePair<Rc, Rts, Shared>,
    sends: &mut SendSlots<4>,
    receives: &mut RecvSlots<4>,
) {
    qp.lists(sends, receives);
}

fn main() {}
