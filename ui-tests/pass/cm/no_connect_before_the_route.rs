// R16.3, rdma_connect(3): the legal twin of the test of this name.
use proverbs::cm::*;
use proverbs::prelude::*;
use std::time::Duration;

fn in_time(id: CmId<Tcp, RouteResolved>, qp: QueuePair<Rc, Init>, timeout: Duration) {
    let _ = id.connect(qp, &ConnParam::default(), timeout);
}
