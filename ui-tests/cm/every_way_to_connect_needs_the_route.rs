// Proves R16.3, rdma_connect(3): an id is connected after its route is resolved, whichever way.
// Enforced by `Connects`.
use proverbs::{cm::*, prelude::*};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn waits(id: CmId<Tcp, AddrResolved>, qp: QueuePair<Rc, Init>) {
    let _ = id.connect(qp, &ConnParam::default(), SECOND);
}

fn on_a_channel(id: CmId<Tcp, AddrResolved, OnChannel>, qp: QueuePair<Rc, Init>) {
    let _ = id.connect(qp, &ConnParam::default());
}

fn datagrams(id: CmId<Udp, AddrResolved>) {
    let _ = id.connect(&LookupData::none(), SECOND);
}

fn datagrams_on_a_channel(id: CmId<Udp, AddrResolved, OnChannel>) {
    let _ = id.connect(&LookupData::none());
}

fn main() {}
