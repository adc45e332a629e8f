// R16.5, rdma_reg_msgs(3): the legal twin of the test of this name.
use proverbs::cm::*;

fn in_time(id: CmId<Tcp, AddrResolved>) {
    let _ = id.reg_msgs::<()>(8, 64);
}
