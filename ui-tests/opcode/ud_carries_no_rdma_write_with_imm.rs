// Proves R1.1, ibv_post_send(3): ud carries no rdma write with imm.
// Enforced by `PostOn<T>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Ud, Rts>, buf: Buf, at: RemoteSpan, to: wr::Destination) {
    qp.post_send(wr::RdmaWriteWithImm::new(buf, at, 7).to(to)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Ud, Rts>, buf: Buf, at: RemoteSpan, to: wr::Destination) {
    post_send!(qp, [wr::RdmaWriteWithImm::new(buf, at, 7).to(to)]).unwrap();
}

fn main() {}
