// Proves R16.3, rdma_connect(3): an id is connected after its route is resolved.
// Enforced by `Connects`.
use proverbs::{cm::*, prelude::*};
use std::time::Duration;

fn early(id: CmId<Tcp, AddrResolved>, qp: QueuePair<Rc, Init>, timeout: Duration) {
    let _ = id.connect(qp, &ConnParam::default(), timeout);
}

fn main() {}
