// R23.4, rdma_join_multicast(3): the legal twin of ui-tests/cm/no_group_without_a_device.rs.
use proverbs::cm::*;
use std::{net::SocketAddr, time::Duration};

fn in_time(id: &mut CmId<Udp, BoundToDevice>, group: SocketAddr, timeout: Duration) {
    let _ = id.join_multicast(group, timeout);
}
