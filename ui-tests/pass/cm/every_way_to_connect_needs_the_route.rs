// R16.3, rdma_connect(3): the legal twin of the test of this name.
use proverbs::{cm::*, prelude::*};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn waits(id: CmId<Tcp, RouteResolved>, qp: QueuePair<Rc, Init>) {
    let _ = id.connect(qp, &ConnParam::default(), SECOND);
}

fn on_a_channel(id: CmId<Tcp, RouteResolved, OnChannel>, qp: QueuePair<Rc, Init>) {
    let _ = id.connect(qp, &ConnParam::default());
}

fn datagrams(id: CmId<Udp, RouteResolved>) {
    let _ = id.connect(&LookupData::none(), SECOND);
}

fn datagrams_on_a_channel(id: CmId<Udp, RouteResolved, OnChannel>) {
    let _ = id.connect(&LookupData::none());
}
