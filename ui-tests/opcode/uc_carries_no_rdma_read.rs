// Proves R1.1, ibv_post_send(3): uc carries no rdma read.
// Enforced by `PostOn<T>`.
use proverbs::memory::ToRead;
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Uc, Rts>, buf: Buf, at: RemoteSpan<ToRead>) {
    qp.post_send(wr::RdmaRead::new(buf, at)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Uc, Rts>, buf: Buf, at: RemoteSpan<ToRead>) {
    post_send!(qp, [wr::RdmaRead::new(buf, at)]).unwrap();
}

fn main() {}
