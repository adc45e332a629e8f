// Proves R16.3, rdma_connect(3): a datagram service is looked up after the route is resolved.
// Enforced by `Connects`.
use proverbs::cm::*;
use std::time::Duration;

fn early(id: CmId<Udp, Created>, timeout: Duration) {
    let _ = id.connect(&LookupData::none(), timeout);
}

fn main() {}
