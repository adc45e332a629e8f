// Proves R16.8, rdma_create_qp(3): an id has one queue pair.
// Enforced by `connect`, which takes the id.
use proverbs::{cm::*, prelude::*};
use std::time::Duration;

fn twice(id: CmId<Tcp, RouteResolved>, qps: [QueuePair<Rc, Init>; 2], timeout: Duration) {
    let [first, second] = qps;
    let _ = id.connect(first, &ConnParam::default(), timeout);
    let _ = id.connect(second, &ConnParam::default(), timeout);
}

fn main() {}
