// R7.1, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Own { receive: OwnRq } }

fn method(qp: &mut QueuePair<Rc, Rts, Own>, buf: Buf) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Own>, buf: Buf) {
    post_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn in_a_run_time_list(qp: &mut QueuePair<Rc, Rts, Own>, slots: &mut RecvSlots<4>) {
    qp.recv_list(slots);
}

fn both_lists(
    qp: &mut QueuePair<Rc, Rts, Own>,
    sends: &mut SendSlots<4>,
    receives: &mut RecvSlots<4>,
) {
    qp.lists(sends, receives);
}
