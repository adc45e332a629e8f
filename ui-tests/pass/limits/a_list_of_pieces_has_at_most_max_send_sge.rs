// R3.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::OpenBuf;
use proverbs::prelude::*;

profile! { Two { max_send_sge: 2, entry: AnyBuf } }

fn pieces(qp: &mut QueuePair<Rc, Rts, Two>, pieces: [OpenBuf; 2]) {
    qp.post_send(wr::Send::new(pieces)).unwrap();
}

fn header_and_piece(qp: &mut QueuePair<Rc, Rts, Two>, pair: (Buf, OpenBuf)) {
    qp.post_send(wr::Send::new(pair)).unwrap();
}
