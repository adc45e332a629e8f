// R16.5, rdma_reg_msgs(3): the legal twin of ui-tests/cm/no_region_without_a_device.rs.
use proverbs::cm::*;

fn in_time(id: CmId<Tcp, AddrResolved>) {
    let _ = id.reg_msgs::<()>(8, 64);
}
