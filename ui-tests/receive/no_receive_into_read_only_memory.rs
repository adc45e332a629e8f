// R4.5, R6.7, ibv_post_recv(3): no receive into read only memory.
// Enforced by `Sink`.
use proverbs::*;

profile! { Mixed { entry: AnyBuf } }

fn method(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: SharedBuf) {
    qp.post_recv(Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: SharedBuf) {
    post_recv!(qp, [Recv::new(buf)]).unwrap();
}

fn main() {}
