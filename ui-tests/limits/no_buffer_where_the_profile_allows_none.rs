// Proves R3.1, ibv_post_send(3): no buffer where the profile allows none.
// Enforced by `Sges<N>`.
use proverbs::prelude::*;

profile! { Bare { max_send_sge: 0 } }

fn method(qp: &mut QueuePair<Rc, Rts, Bare>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Bare>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf)]).unwrap();
}

fn prepared(qp: &mut QueuePair<Rc, Rts, Bare>, buf: Buf) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).prepare(), buf).unwrap();
}

profile! { BareRing { max_send_sge: 0, signaling: Selective } }

fn prepared_unsignaled(qp: &mut QueuePair<Rc, Rts, BareRing>, buf: Buf) {
    let _ = qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).prepare(), buf);
}

fn main() {}
