// Proves R3.1, ibv_post_send(3): arrays of pieces and pairs are within `max_send_sge`.
// Enforced by `Sges<N>`.
use proverbs::memory::OpenBuf;
use proverbs::prelude::*;

profile! { Two { max_send_sge: 2, entry: AnyBuf } }
profile! { One { entry: AnyBuf } }

fn pieces(qp: &mut QueuePair<Rc, Rts, Two>, pieces: [OpenBuf; 3]) {
    qp.post_send(wr::Send::new(pieces)).unwrap();
}

fn header_and_piece(qp: &mut QueuePair<Rc, Rts, One>, pair: (Buf, OpenBuf)) {
    qp.post_send(wr::Send::new(pair)).unwrap();
}

fn main() {}
