// R16.8, rdma_create_qp(3): the legal twin of the test of this name.
use proverbs::cm::*;
use proverbs::prelude::*;
use std::time::Duration;

fn once(id: CmId<Tcp, RouteResolved>, qp: QueuePair<Rc, Init>, timeout: Duration) {
    let _ = id.connect(qp, &ConnParam::default(), timeout);
}
