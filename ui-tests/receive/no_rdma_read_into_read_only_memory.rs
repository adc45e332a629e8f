// Proves R4.5, R6.7, ibv_post_send(3): no rdma read into read only memory.
// Enforced by `Sink`.
use proverbs::memory::ToRead;
use proverbs::prelude::*;

profile! { Mixed { entry: AnyBuf } }

fn method(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: SharedBuf, at: RemoteSpan<ToRead>) {
    qp.post_send(wr::RdmaRead::new(buf, at)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: SharedBuf, at: RemoteSpan<ToRead>) {
    post_send!(qp, [wr::RdmaRead::new(buf, at)]).unwrap();
}

fn main() {}
