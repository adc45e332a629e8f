// Proves R6.7, ibv_post_send(3): an RDMA WRITE starts where the peer granted REMOTE_WRITE.
// Enforced by `WriteAddr`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSlice<RemoteAll>) {
    qp.post_send(wr::RdmaWrite::new(buf, at.read())).unwrap();
}

fn inline(qp: &mut QueuePair<Rc, Rts>, at: RemoteSlice<RemoteAll>) {
    qp.post_send(wr::RdmaWriteWithImm::inline(b"four", at, 1)).unwrap();
}

fn main() {}
