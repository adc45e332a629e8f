// Proves R11.2, R6.12, ibv_post_recv(3): no receive into an open region.
// Enforced by `RecvSink`.
use proverbs::memory::OpenBuf;
use proverbs::prelude::*;

profile! { Mixed { entry: AnyBuf } }

fn method(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: OpenBuf) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: OpenBuf) {
    post_recv!(qp, [wr::Recv::new(buf)]).unwrap();
}

fn main() {}
