// R3.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList } }

fn method(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 2]) {
    qp.post_send(wr::Send::new(bufs)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 2]) {
    post_send!(qp, [wr::Send::new(bufs)]).unwrap();
}
