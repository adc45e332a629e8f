// Proves R4.1, ibv_post_send(3): an atomic returns into one buffer.
// Enforced by `AtomicSink`.
use proverbs::prelude::*;

profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList } }

fn method(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 2], cell: RemoteCell) {
    qp.post_send(wr::FetchAndAdd::new(bufs, cell, 1)).unwrap();
}

fn cmp_and_swp(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 2], cell: RemoteCell) {
    qp.post_send(wr::CmpAndSwp::new(bufs, cell, wr::CompareSwap { compare: 0, swap: 1 })).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 2], cell: RemoteCell) {
    post_send!(qp, [wr::FetchAndAdd::new(bufs, cell, 1)]).unwrap();
}

fn main() {}
