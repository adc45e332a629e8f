// Proves R4.5, R6.7, ibv_post_recv(3): no receive into read only memory.
// Enforced by `Sink`.
use proverbs::prelude::*;

profile! { Mixed { entry: AnyBuf } }

fn method(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: SharedBuf) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: SharedBuf) {
    post_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn main() {}
