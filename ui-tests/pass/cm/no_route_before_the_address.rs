// R16.2, rdma_resolve_route(3): the legal twin of ui-tests/cm/no_route_before_the_address.rs.
use proverbs::cm::*;
use std::time::Duration;

fn in_time(id: CmId<Tcp, AddrResolved>, timeout: Duration) {
    let _ = id.resolve_route(timeout);
}
