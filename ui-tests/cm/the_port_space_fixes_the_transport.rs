// Proves R16.9, rdma_create_id(3): the id's port space determines the transport of its queue pair.
// Enforced by `connect` of a TCP id, which takes an RC queue pair.
use proverbs::{cm::*, prelude::*};
use std::time::Duration;

fn unreliable(id: CmId<Tcp, RouteResolved>, qp: QueuePair<Uc, Init>, timeout: Duration) {
    let _ = id.connect(qp, &ConnParam::default(), timeout);
}

fn main() {}
