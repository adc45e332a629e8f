// R16.3, rdma_connect(3): the legal twin of ui-tests/cm/no_lookup_before_the_route.rs.
use proverbs::cm::*;
use std::time::Duration;

fn in_time(id: CmId<Udp, RouteResolved>, timeout: Duration) {
    let _ = id.connect(&LookupData::none(), timeout);
}
