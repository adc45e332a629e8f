// Proves R23.3, rdma_join_multicast_ex(3): a member that only sends receives nothing.
// Enforced by `ReceivesFromGroup`.
use proverbs::cm::*;
use proverbs::prelude::*;

fn deaf(group: &Group<SendOnlyFullMember>, qp: &mut QueuePair<Ud, Rts>) {
    let _ = group.attach(qp);
}

fn main() {}
