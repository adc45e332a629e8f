// R4.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList } }

fn method(qp: &mut QueuePair<Rc, Rts, Lists>, buf: Buf, cell: RemoteCell) {
    qp.post_send(wr::FetchAndAdd::new(buf, cell, 1)).unwrap();
}

fn cmp_and_swp(qp: &mut QueuePair<Rc, Rts, Lists>, buf: Buf, cell: RemoteCell) {
    qp.post_send(wr::CmpAndSwp::new(buf, cell, wr::CompareSwap { compare: 0, swap: 1 })).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Lists>, buf: Buf, cell: RemoteCell) {
    post_send!(qp, [wr::FetchAndAdd::new(buf, cell, 1)]).unwrap();
}
