// Proves R7.10, ibv_post_recv(3): no receive into unregistered memory.
// Enforced by `Sink`.
use proverbs::prelude::*;

profile! { Mixed { entry: AnyBuf } }

fn method(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: &mut [u8; 64]) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: &mut [u8; 64]) {
    post_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn main() {}
