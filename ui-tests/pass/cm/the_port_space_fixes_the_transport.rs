// R16.9, rdma_create_id(3): the legal twin of ui-tests/cm/the_port_space_fixes_the_transport.rs.
use proverbs::cm::*;
use proverbs::prelude::*;
use std::time::Duration;

fn reliable(id: CmId<Tcp, RouteResolved>, qp: QueuePair<Rc, Init>, timeout: Duration) {
    let _ = id.connect(qp, &ConnParam::default(), timeout);
}
