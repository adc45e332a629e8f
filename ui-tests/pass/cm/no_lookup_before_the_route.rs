// R16.3, rdma_connect(3): the legal twin of the test of this name.
use proverbs::cm::*;
use std::time::Duration;

fn in_time(id: CmId<Udp, RouteResolved>, timeout: Duration) {
    let _ = id.connect(&LookupData::none(), timeout);
}
