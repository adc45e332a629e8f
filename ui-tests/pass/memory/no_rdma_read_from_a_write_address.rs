// R6.7, ibv_post_send(3): the legal twin of ui-tests/memory/no_rdma_read_from_a_write_address.rs.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSlice<RemoteAll>) {
    qp.post_send(wr::RdmaRead::new(buf, at.read())).unwrap();
}
