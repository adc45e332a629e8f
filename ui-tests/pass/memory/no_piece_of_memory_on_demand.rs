// R20.2, ibv_query_device_ex(3): the legal twin of ui-tests/memory/no_piece_of_memory_on_demand.rs.
use proverbs::prelude::*;

fn post(region: &MemoryRegion<RemoteRead>) {
    let _ = region.piece(0, 64);
}
