// Proves R16.1, rdma_disconnect(3): what never was connected has no end to wait for.
// Enforced by `Disconnects`.
use proverbs::cm::*;
use std::time::Duration;

fn too_early(mut id: CmId<Tcp, RouteResolved>) {
    let _ = id.wait_disconnected(Duration::from_secs(1));
}

fn main() {}
