// Proves R4.6, ibv_post_send(3): no rdma read without reads.
// Enforced by `IssuedBy<I>`.
use proverbs::memory::ToRead;
use proverbs::prelude::*;

profile! { Quiet { initiator: NoReads } }

fn method(qp: &mut QueuePair<Rc, Rts, Quiet>, buf: Buf, at: RemoteSpan<ToRead>) {
    qp.post_send(wr::RdmaRead::new(buf, at)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Quiet>, buf: Buf, at: RemoteSpan<ToRead>) {
    post_send!(qp, [wr::RdmaRead::new(buf, at)]).unwrap();
}

fn main() {}
