// R20.2, ibv_query_device_ex(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn post(region: &MemoryRegion<RemoteRead>) {
    let _ = region.piece(0, 64);
}
