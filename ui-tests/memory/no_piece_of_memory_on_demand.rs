// Proves R20.2, ibv_query_device_ex(3): only a queue pair that can use it names memory on demand.
// Enforced by `OnDemandRegion`, which has no pieces.
use proverbs::ext::on_demand::OnDemandRegion;
use proverbs::prelude::*;

fn post(region: &OnDemandRegion<RemoteRead>) {
    let _ = region.piece(0, 64);
}

fn main() {}
