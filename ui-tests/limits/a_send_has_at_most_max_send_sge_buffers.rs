// Proves R3.1, ibv_post_send(3): a send has at most max send sge buffers.
// Enforced by `Sges<N>`.
use proverbs::prelude::*;

profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList } }

fn method(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 3]) {
    qp.post_send(wr::Send::new(bufs)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 3]) {
    post_send!(qp, [wr::Send::new(bufs)]).unwrap();
}

fn main() {}
