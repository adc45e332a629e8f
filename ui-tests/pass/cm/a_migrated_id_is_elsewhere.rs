// R16.21, rdma_migrate_id(3): the legal twin of the test of this name.
use proverbs::cm::*;

fn before(mut id: CmId<Tcp, Created>, channel: &EventChannel) {
    let _ = id.set_tos(8);
    let moved = id.migrate_to(channel);
    drop(moved);
}
