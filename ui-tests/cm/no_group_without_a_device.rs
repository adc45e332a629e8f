// Proves R23.4, rdma_join_multicast(3): an id joins groups by its device.
// Enforced by `JoinsGroups`.
use proverbs::cm::*;
use std::{net::SocketAddr, time::Duration};

fn early(id: &mut CmId<Udp, Bound>, group: SocketAddr, timeout: Duration) {
    let _ = id.join_multicast(group, timeout);
}

fn main() {}
