// R16.2, rdma_resolve_route(3): the legal twin of the test of this name.
use proverbs::cm::*;
use std::time::Duration;

fn in_time(id: CmId<Tcp, AddrResolved>, timeout: Duration) {
    let _ = id.resolve_route(timeout);
}
