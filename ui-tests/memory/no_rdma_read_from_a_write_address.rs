// Proves R6.7, ibv_post_send(3): an RDMA READ starts where the peer granted REMOTE_READ.
// Enforced by `ReadAddr`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSlice<RemoteAll>) {
    qp.post_send(wr::RdmaRead::new(buf, at.write())).unwrap();
}

fn main() {}
