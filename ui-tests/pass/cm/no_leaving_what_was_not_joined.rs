// R23.3, R23.4, rdma_leave_multicast(3): the legal twin of the test of this name.
use proverbs::{cm::*, prelude::*};
use std::{net::SocketAddr, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn joined(id: &mut CmId<Udp, BoundToDevice>, group: SocketAddr) {
    let _ = id.join_multicast(Join::<FullMember>::new(group), SECOND);
}

fn left(id: &mut CmId<Udp, BoundToDevice>, group: Group) {
    let _ = id.leave_multicast(group);
}

fn detached(group: &Group<FullMember>, qp: &mut QueuePair<Ud, Rts>) {
    let _ = group.detach(qp);
}
