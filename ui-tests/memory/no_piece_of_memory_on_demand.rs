// R20.2, ibv_query_device_ex(3): a work request names memory on demand only where its queue pair can use it.
// Enforced by `OnDemandRegion`, which has no pieces.
use proverbs::memory::OnDemandRegion;
use proverbs::prelude::*;

fn post(region: &OnDemandRegion<RemoteRead>) {
    let _ = region.piece(0, 64);
}

fn main() {}
