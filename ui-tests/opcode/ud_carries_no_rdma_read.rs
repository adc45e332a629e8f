// R1.1, ibv_post_send(3): ud carries no rdma read.
// Enforced by `PostOn<T>`.
use proverbs::*;

fn method(qp: &mut QueuePair<Ud, Rts>, buf: Buf, at: RemoteSpan<ToRead>, to: Destination) {
    qp.post_send(RdmaRead::new(buf, at).to(to)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Ud, Rts>, buf: Buf, at: RemoteSpan<ToRead>, to: Destination) {
    post_send!(qp, [RdmaRead::new(buf, at).to(to)]).unwrap();
}

fn main() {}
