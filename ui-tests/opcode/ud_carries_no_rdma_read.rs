// Proves R1.1, ibv_post_send(3): ud carries no rdma read.
// Enforced by `PostOn<T>`.
use proverbs::memory::ToRead;
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Ud, Rts>, buf: Buf, at: RemoteSpan<ToRead>, to: wr::Destination) {
    qp.post_send(wr::RdmaRead::new(buf, at).to(to)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Ud, Rts>, buf: Buf, at: RemoteSpan<ToRead>, to: wr::Destination) {
    post_send!(qp, [wr::RdmaRead::new(buf, at).to(to)]).unwrap();
}

fn main() {}
