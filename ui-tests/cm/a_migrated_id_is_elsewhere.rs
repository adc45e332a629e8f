// Proves R16.21, rdma_migrate_id(3): an id is migrated while it is not in use.
// Enforced by `migrate_to`, which takes the id.
use proverbs::cm::*;

fn meanwhile(mut id: CmId<Tcp, Created>, channel: &EventChannel) {
    let moved = id.migrate_to(channel);
    let _ = id.set_tos(8);
    drop(moved);
}

fn main() {}
