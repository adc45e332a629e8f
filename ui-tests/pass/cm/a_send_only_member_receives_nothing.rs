// R23.3, rdma_join_multicast_ex(3): the legal twin of ui-tests/cm/a_send_only_member_receives_nothing.rs.
use proverbs::cm::*;
use proverbs::prelude::*;

fn hears(group: &Group<FullMember>, qp: &mut QueuePair<Ud, Rts>) {
    let _ = group.attach(qp);
}
